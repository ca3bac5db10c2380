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
    uint64_t offset = wall_offset();
    sleep_until(CLOCK_REALTIME, since(wanted, before));
    uint64_t offset_now = wall_offset();
    bool was_set = since(offset_now, offset) > before || since(offset, offset_now) > before;
    int64_t start = (int64_t)(wanted - offset_now);
    return max_u64(was_set ? now_ns() : 1, start > 0 ? (uint64_t)start : 0);
}
