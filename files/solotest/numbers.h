/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Integers: a wide type for sums, minimum and maximum, and the length of an array.
 */
#ifndef SOLOTEST_NUMBERS_H
#define SOLOTEST_NUMBERS_H

#include <stdint.h>

/* Sums of nanoseconds: 10^9 requests that each waited 1,000 s do not fit in 64 bits. */
__extension__ typedef unsigned __int128 wide;

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
