/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "histogram.h"

uint64_t hist_highest_in(size_t index)
{
    unsigned bucket = index <= HIST_EXACT_MASK ? 0 : (unsigned)(index >> HIST_HALF_BITS) - 1;
    uint64_t position = (uint64_t)index - ((uint64_t)bucket << HIST_HALF_BITS);
    return ((position + 1) << bucket) - 1;
}

uint64_t rank_of(uint64_t count, unsigned permille)
{
    return count / 1000 * permille + (count % 1000 * permille + 999) / 1000;
}

uint64_t hist_percentile(const struct histogram *h, unsigned permille)
{
    uint64_t rank = max_u64(rank_of(h->count, permille), 1);
    uint64_t seen = 0;
    for (size_t i = 0; i < HIST_SLOTS; i++) {
        seen += h->slots[i];
        if (seen >= rank)
            return min_u64(hist_highest_in(i), h->max);
    }
    return h->max;
}

double hist_mean(const struct histogram *h)
{
    return h->count == 0 ? 0 : (double)h->sum / (double)h->count;
}
