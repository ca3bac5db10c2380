/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pacer: request i is due at start + i / rate, on an absolute schedule that no delay shifts.
 */
#ifndef SOLOTEST_PACER_H
#define SOLOTEST_PACER_H

#include <stdint.h>

#include "clock.h"
#include "signals.h"

enum pacing { PACING_HYBRID, PACING_SLEEP, PACING_SPIN, PACING_NONE };

struct pacer {
    enum pacing mode;
    uint64_t start;
    uint64_t spin;      /* how long before the due time to stop sleeping: 0 is sleep, NEVER is spin */
    uint64_t spin_min;  /* hybrid: what `spin` begins with, and never falls below */
    long double period; /* ns; 64 bits of mantissa keep request 10^12 exact to the nanosecond */
};

/* How late a sleep ends differs by machine and by hour, from some 5 us to more than 50 us where the CPU
 * of a virtual machine has to be woken. Hybrid pacing follows it: a sleep that ends later than `spin`
 * raises it ten times as far as one in time lowers it, so that about one sleep in eleven is late. A wait
 * too short to sleep lowers it as well: else a `spin` that has grown beyond the interval between two
 * requests could never come down again. */
enum { SPIN_UP_NS = 5000, SPIN_DOWN_NS = 500, SPIN_MAX_NS = 150000 };

static inline void pacer_learn(struct pacer *p, uint64_t overslept)
{
    if (p->mode != PACING_HYBRID)
        return;
    if (overslept > p->spin)
        p->spin = min_u64(p->spin + SPIN_UP_NS, max_u64(SPIN_MAX_NS, p->spin_min));
    else
        p->spin = max_u64(since(p->spin, SPIN_DOWN_NS), p->spin_min);
}

static inline uint64_t pacer_due(const struct pacer *p, uint64_t i)
{
    return p->start + (uint64_t)((long double)i * p->period);
}

/* Waits for `due` and returns the time. Earlier than `due` only when a signal asks us to stop. */
static inline uint64_t pacer_wait(struct pacer *p, uint64_t due)
{
    uint64_t now = now_ns();
    if (now >= due)
        return now;
    uint64_t wake = since(due, p->spin);
    uint64_t overslept = 0;
    if (wake > now) {
        sleep_until(CLOCK_MONOTONIC, wake);
        overslept = since(now_ns(), wake);
    }
    pacer_learn(p, overslept);
    do
        now = now_ns();
    while (now < due && !interrupted);
    return now;
}

#endif
