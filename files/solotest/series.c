/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "series.h"

#include <string.h>

uint64_t series_interval_for(uint64_t duration)
{
    static const uint64_t steps[] = {1, 2, 5};
    for (uint64_t decade = NS_PER_MS;; decade *= 10)
        for (size_t i = 0; i < 3; i++)
            if (duration / (steps[i] * decade) < SERIES_POINTS)
                return steps[i] * decade;
}

static void series_merge_into(struct series *s, size_t to, size_t from)
{
    struct series_point *a = &s->points[to], *b = &s->points[from];
    a->count += b->count;
    a->sum += b->sum;
    a->max = max_u64(a->max, b->max);
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < HIST_SLOTS; i++)
        s->slots[to][i] = add_saturating(s->slots[to][i], s->slots[from][i]);
    memset(s->slots[from], 0, sizeof s->slots[from]);
}

void series_coarsen(struct series *s)
{
    for (size_t i = 0; i < SERIES_POINTS; i++)
        if (i > 0)
            series_merge_into(s, i / 2, i);
    s->interval *= 2;
    s->used = SERIES_POINTS / 2;
}

void series_finish(struct series *s)
{
    static struct histogram h; /* 58 KB: too much for a stack */
    for (size_t point = 0; point < s->used; point++) {
        h.count = s->points[point].count;
        h.max = s->points[point].max;
        for (size_t i = 0; i < HIST_SLOTS; i++)
            h.slots[i] = s->slots[point][i];
        s->points[point].p99 = h.count > 0 ? hist_percentile(&h, 990) : 0;
    }
}

inline uint32_t add_saturating(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static inline size_t series_point_at(struct series *s, uint64_t at)
{
    if (at >= s->latest_begin && at - s->latest_begin < s->interval)
        return s->latest;
    while (at / s->interval >= SERIES_POINTS)
        series_coarsen(s);
    s->latest = (size_t)(at / s->interval);
    s->latest_begin = s->latest * s->interval;
    return s->latest;
}

inline void series_add(struct series *s, uint64_t at, uint64_t value)
{
    size_t i = series_point_at(s, at);
    if (i >= s->used)
        s->used = i + 1;
    s->points[i].count++;
    s->points[i].sum += value;
    s->points[i].max = max_u64(s->points[i].max, value);
    uint32_t *slot = &s->slots[i][hist_index(min_u64(value, INT64_MAX))];
    *slot = add_saturating(*slot, 1);
}
