/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pacer: an absolute schedule that no delay shifts, of `rate` requests per second. Request i is due
 *
 *   periodic  at start + i / rate,
 *   jitter    at a random time in the period from there to the next,
 *   poisson   a random time, with exponential distribution, after request i - 1.
 *
 * The pacer waits for a due time by sleeping, by spinning, or by sleeping first and spinning for the
 * rest (hybrid).
 */
#ifndef SOLOTEST_PACER_H
#define SOLOTEST_PACER_H

#include <math.h>
#include <stdint.h>

#include "clock.h"
#include "random.h"
#include "signals.h"

enum pacing { PACING_HYBRID, PACING_SLEEP, PACING_SPIN, PACING_NONE };
enum arrivals { ARRIVALS_PERIODIC, ARRIVALS_JITTER, ARRIVALS_POISSON };

struct pacer {
    enum pacing mode;
    uint64_t start;
    uint64_t spin;      /* stop sleeping so long before the due time; 0: only sleep, NEVER: only spin */
    uint64_t spin_min;  /* hybrid: the smallest value of `spin` */
    double spun;        /* hybrid: ns of each wait that were spun, as a moving average */
    long double period; /* ns; 64 bits of mantissa keep request 10^12 exact to the nanosecond */
    enum arrivals arrivals;
    struct rng rng;
    uint64_t drawn;       /* requests whose random due time was drawn */
    long double position; /* of the latest of them, in periods after the start */
};

/* How late a sleep ends depends on the machine and its load: some 5 us, or more than 50 us if
 * the CPU of a virtual machine has to be woken. Hybrid pacing adapts: a sleep that ends more
 * than `spin` late raises `spin` by so much more than a sleep that ends in time lowers it that
 *
 *   up to SPIN_CHEAP_NS  one sleep in 126 ends too late, so the p99 of the lateness is near 0,
 *   above                one in eleven does, since there every microsecond of spinning is one of many.
 *
 * A wait that is too short to sleep lowers it as well; otherwise a `spin` longer than the interval
 * between two requests could never fall again.
 *
 * Spinning takes a CPU from others, whose sleeps then end late, and who spin for longer. So if it takes more
 * than one part in SPIN_SHARE of the time, `spin` falls whatever the sleeps do. */
enum {
    SPIN_CHEAP_NS = 40000,
    SPIN_CHEAP_UP_NS = 2500,
    SPIN_CHEAP_DOWN_NS = 20,
    SPIN_UP_NS = 5000,
    SPIN_DOWN_NS = 500,
    SPIN_MAX_NS = 150000,
    SPIN_SHARE = 8,
    SPIN_MEMORY = 256,
};

/* A sleep ended so late, and the client spun for the rest of its wait. */
void pacer_learn(struct pacer *p, uint64_t overslept, uint64_t spun);

enum { REHEARSALS = 100, REHEARSAL_NS = 200000 };

/* Hybrid pacing learns from some sleeps before the start, as many as end before `until`, even if the
 * next took twice as long as the longest so far. */
void pacer_rehearse(struct pacer *p, uint64_t until);

/* Sets `spin` to where pacer_learn() would settle if sleeps went on to end so late. Sorts `late`. */
void pacer_settle(struct pacer *p, uint64_t *late, size_t count);

/* When request i is due. Random times are drawn in order: never ask for an earlier request again. */
uint64_t pacer_due(struct pacer *p, uint64_t i);

/* Waits until `due` and returns the time. Returns early only if a signal asks the program to
 * stop. */
uint64_t pacer_wait(struct pacer *p, uint64_t due);

#endif
