/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "pacer.h"

#include <stdlib.h>

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void pacer_settle(struct pacer *p, uint64_t *late, size_t count)
{
    if (count == 0)
        return;
    qsort(late, count, sizeof *late, compare_u64);
    uint64_t nearly_all = late[count - 1 - count / 100], most = late[count - 1 - count / 11];
    uint64_t spin = min_u64(nearly_all, max_u64(most, SPIN_CHEAP_NS));
    p->spin = max_u64(min_u64(spin, SPIN_MAX_NS), p->spin_min);
}

void pacer_rehearse(struct pacer *p, uint64_t until)
{
    uint64_t late[REHEARSALS];
    size_t count = 0;
    uint64_t worst = 0; /* the longest sleep */
    while (p->mode == PACING_HYBRID && count < REHEARSALS && !interrupted) {
        uint64_t now = now_ns(), wake = now + REHEARSAL_NS;
        if (now + max_u64(REHEARSAL_NS + SPIN_MAX_NS, 2 * worst) > until)
            break;
        sleep_until(CLOCK_MONOTONIC, wake);
        late[count] = since(now_ns(), wake);
        worst = max_u64(worst, REHEARSAL_NS + late[count++]);
    }
    pacer_settle(p, late, count);
}

inline void pacer_learn(struct pacer *p, uint64_t overslept, uint64_t spun)
{
    if (p->mode != PACING_HYBRID)
        return;
    bool cheap = p->spin <= SPIN_CHEAP_NS;
    p->spun += ((double)spun - p->spun) / (double)SPIN_MEMORY;
    if (p->spun > (double)p->period / (double)SPIN_SHARE)
        p->spin = max_u64(since(p->spin, SPIN_DOWN_NS), p->spin_min);
    else if (overslept > p->spin)
        p->spin = min_u64(p->spin + (cheap ? SPIN_CHEAP_UP_NS : SPIN_UP_NS), max_u64(SPIN_MAX_NS, p->spin_min));
    else
        p->spin = max_u64(since(p->spin, cheap ? SPIN_CHEAP_DOWN_NS : SPIN_DOWN_NS), p->spin_min);
}

static inline void pacer_draw(struct pacer *p)
{
    double u = rng_unit(&p->rng);
    if (p->arrivals == ARRIVALS_JITTER)
        p->position = (long double)p->drawn + (long double)u;
    else
        p->position -= (long double)log1p(-u);
    p->drawn++;
}

inline uint64_t pacer_due(struct pacer *p, uint64_t i)
{
    if (p->arrivals == ARRIVALS_PERIODIC)
        return p->start + (uint64_t)((long double)i * p->period);
    while (p->drawn <= i)
        pacer_draw(p);
    return p->start + (uint64_t)(p->position * p->period);
}

inline uint64_t pacer_wait(struct pacer *p, uint64_t due)
{
    uint64_t now = now_ns();
    if (now >= due)
        return now;
    uint64_t wake = since(due, p->spin);
    uint64_t overslept = 0;
    if (wake > now) {
        sleep_until(CLOCK_MONOTONIC, wake);
        now = now_ns();
        overslept = since(now, wake);
    }
    pacer_learn(p, overslept, since(due, now));
    do
        now = now_ns();
    while (now < due && !interrupted);
    return now;
}
