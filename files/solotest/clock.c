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
