/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "histogram.h"

#include <string.h>

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
    for (size_t i = hist_index(h->min), end = hist_end(h); i < end; i++) {
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

size_t hist_end(const struct histogram *h)
{
    return h->count == 0 ? 0 : hist_index(min_u64(h->max, INT64_MAX)) + 1;
}

void hist_clear(struct histogram *h)
{
    size_t begin = hist_index(h->min), end = hist_end(h);
    if (begin < end)
        memset(h->slots + begin, 0, (end - begin) * sizeof h->slots[0]);
    h->count = h->min = h->max = 0;
    h->sum = 0;
}

inline void hist_add_many(struct histogram *h, uint64_t value, uint64_t times)
{
    value = min_u64(value, INT64_MAX);
    h->min = h->count == 0 ? value : min_u64(h->min, value);
    h->max = max_u64(h->max, value);
    h->sum += (wide)value * times;
    h->count += times;
    h->slots[hist_index(value)] += times;
}

inline void hist_add_all(struct histogram *h, const uint64_t *values, size_t count)
{
    if (count == 0)
        return;
    uint64_t min = h->count == 0 ? INT64_MAX : h->min, max = h->max;
    wide sum = h->sum;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = min_u64(values[i], INT64_MAX);
        min = min_u64(min, value);
        max = max_u64(max, value);
        sum += value;
        h->slots[hist_index(value)]++;
    }
    h->min = min;
    h->max = max;
    h->sum = sum;
    h->count += count;
}
