/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Histogram: log-linear, in exactly HdrHistogram's layout for a lowest discernible value of 1, a
 * highest trackable value of 2^63 - 1 and 2 significant digits, so that its tools can read it.
 *
 * Error bound. Values below 256 have a slot each: no error. A larger value v has its highest bit at
 * position 8 + b - 1 for some b >= 1, so 128 * 2^b <= v < 256 * 2^b, and falls in a slot of width
 * 2^b. The width relative to the value is therefore at most 2^b / (128 * 2^b) = 1/128 = 0.78 %. A
 * percentile is reported as the highest value of its slot, never above the exact maximum: it is
 * never too low, and too high by less than 0.78 %. Count, sum, minimum and maximum are exact.
 */
#ifndef SOLOTEST_HISTOGRAM_H
#define SOLOTEST_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "numbers.h"

#define HIST_HALF_BITS 7
#define HIST_EXACT_MASK 255u
#define HIST_SLOTS 7296

struct histogram {
    uint64_t count;
    uint64_t min;
    uint64_t max;
    wide sum;
    uint64_t slots[HIST_SLOTS];
};

static inline size_t hist_index(uint64_t value)
{
    unsigned bucket = 56u - (unsigned)__builtin_clzll(value | HIST_EXACT_MASK);
    return ((size_t)bucket << HIST_HALF_BITS) + (size_t)(value >> bucket);
}

/* The highest value in slot `index`. */
uint64_t hist_highest_in(size_t index);

/* The slot after the last one that is in use. The first one is that of the minimum. Few slots are in use, so looking
 * at these alone is some twenty times as fast, and leaves the caches to the server. */
size_t hist_end(const struct histogram *h);

/* Makes it empty. */
void hist_clear(struct histogram *h);

void hist_add_many(struct histogram *h, uint64_t value, uint64_t times);

void hist_add_all(struct histogram *h, const uint64_t *values, size_t count);

/* ceil(count * permille / 1000), without overflow. */
uint64_t rank_of(uint64_t count, unsigned permille);

uint64_t hist_percentile(const struct histogram *h, unsigned permille);
double hist_mean(const struct histogram *h);

#endif
