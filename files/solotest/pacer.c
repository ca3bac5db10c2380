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
