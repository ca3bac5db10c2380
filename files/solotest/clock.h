/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Clocks: time stamps in nanoseconds, sleeping until a time, and conversions. A difference of two
 * times is never negative.
 */
#ifndef SOLOTEST_CLOCK_H
#define SOLOTEST_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

#include "numbers.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define NEVER UINT64_MAX

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* cannot fail for the two clocks used here */
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* a - b, or 0 if b is later. */
static inline uint64_t since(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static inline struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

static inline uint64_t seconds_to_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

#define WALL_READINGS 5

/* The wall clock minus the monotonic clock, as of now: the narrowest of several readings of one between
 * two of the other, since a process can be stopped in the middle. */
uint64_t wall_offset(void);

/* The wall clock minus the monotonic clock, as of an earlier time. */
struct wall {
    uint64_t at, offset;
    bool known;
};

#define WALL_TOLERANCE_NS (20 * NS_PER_US) /* between reading one clock and the other */
#define WALL_SLEW 8                        /* a time service may slew the wall clock by up to 1/12 */

/* True if the wall clock, read as `wall` at the monotonic time `now`, was not set since the last
 * call. */
bool wall_is_steady(struct wall *w, uint64_t now, uint64_t wall);

struct timeval to_timeval(double seconds);

/* Returns early if a signal asks the program to stop. */
void sleep_until(clockid_t clock, uint64_t when);

/* Sleeps until `before` ns before the wall clock shows `wanted`, even if the clock is set during the sleep.
 * Returns the monotonic time of `wanted`, as it is then. If the caller was stopped, that is in the past: other
 * hosts have begun, and its requests are late. If the clock was set beyond `wanted`, it is the present. */
uint64_t sleep_until_wall(uint64_t wanted, uint64_t before);

#endif
