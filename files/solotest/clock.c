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

uint64_t wall_offset(void)
{
    uint64_t offset = 0, narrowest = NEVER;
    for (int i = 0; i < WALL_READINGS; i++) {
        uint64_t before = now_ns(), wall = clock_ns(CLOCK_REALTIME), took = now_ns() - before;
        if (took < narrowest) {
            narrowest = took;
            offset = wall - (before + took / 2);
        }
    }
    return offset;
}

inline bool wall_is_steady(struct wall *w, uint64_t now, uint64_t wall)
{
    uint64_t offset = wall - now; /* may wrap around, and so may the difference */
    uint64_t change = offset - w->offset;
    uint64_t size = change > INT64_MAX ? -change : change;
    bool steady = !w->known || size <= WALL_TOLERANCE_NS + since(now, w->at) / WALL_SLEW;
    *w = (struct wall){.at = now, .offset = offset, .known = true};
    return steady;
}

struct timeval to_timeval(double seconds)
{
    uint64_t us = (uint64_t)(seconds * 1e6);
    us = max_u64(us, 1); /* 0 would mean no time-out */
    return (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};
}
