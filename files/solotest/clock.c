/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "clock.h"

#include <errno.h>

#include "signals.h"

void sleep_until(clockid_t clock, uint64_t when)
{
    struct timespec t = to_timespec(when);
    while (!interrupted && clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

uint64_t sleep_until_wall(uint64_t wanted, uint64_t before)
{
    sleep_until(CLOCK_REALTIME, since(wanted, before));
    int64_t start = (int64_t)(wanted - wall_offset());
    return max_u64(now_ns(), start > 0 ? (uint64_t)start : 0);
}
