/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Time series: its interval, and that coarsening loses nothing. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "solotest/random.h"
#include "solotest/series.h"
#include "check.h"

static void test_series_interval(void)
{
    CHECK(series_interval_for(0) == NS_PER_MS);
    for (uint64_t duration = 1; duration < UINT64_C(1000000000000000000); duration = duration * 3 + 1) {
        uint64_t interval = series_interval_for(duration);
        CHECK(duration / interval < SERIES_POINTS);
        CHECK(interval == NS_PER_MS || duration / interval >= SERIES_POINTS / 3);
    }
}

static void test_series_keeps_everything_when_coarsened(void)
{
    static struct series s;
    static struct histogram whole;
    struct rng r;
    rng_seed(&r, 4, 1);
    s.interval = 1000;
    s.slots = calloc(SERIES_POINTS, sizeof *s.slots);
    for (uint64_t at = 0; at < 1000000; at += 7) {
        uint64_t value = rng_next(&r) % 1000000;
        series_add(&s, at, value);
        hist_add_many(&whole, value, 1);
    }
    CHECK(s.interval == 16000 && s.used == 1000000 / 16000 + 1);
    uint64_t count = 0, max = 0, slots = 0;
    wide sum = 0;
    for (size_t i = 0; i < s.used; i++) {
        count += s.points[i].count;
        sum += s.points[i].sum;
        max = max_u64(max, s.points[i].max);
        for (size_t k = 0; k < HIST_SLOTS; k++)
            slots += s.slots[i][k];
    }
    CHECK(count == whole.count && slots == whole.count && sum == whole.sum && max == whole.max);
    series_finish(&s);
    for (size_t i = 0; i + 1 < s.used; i++)
        CHECK(s.points[i].p99 > 970000 && s.points[i].p99 <= s.points[i].max);
    free(s.slots);
}

static void test_values_in_any_order_go_to_their_points(void)
{
    static struct series s;
    uint64_t counts[SERIES_POINTS] = {0};
    struct rng r;
    rng_seed(&r, 5, 1);
    s.interval = 1000;
    s.slots = calloc(SERIES_POINTS, sizeof *s.slots);
    for (int i = 0; i < 100000; i++) {
        uint64_t at = rng_next(&r) % (SERIES_POINTS * 1000);
        counts[at / 1000]++;
        series_add(&s, at, 1);
        if (i % 2 == 0) { /* its neighbour, too */
            counts[(at ^ 1) / 1000]++;
            series_add(&s, at ^ 1, 1);
        }
    }
    for (size_t i = 0; i < SERIES_POINTS; i++)
        CHECK(s.points[i].count == counts[i]);
    free(s.slots);
}

static void test_series_slots_stop_at_their_top(void)
{
    CHECK(add_saturating(UINT32_MAX, 1) == UINT32_MAX);
    CHECK(add_saturating(UINT32_MAX - 1, 1) == UINT32_MAX);
    CHECK(add_saturating(3, 4) == 7);
}

TEST_MAIN(TEST(test_series_interval), TEST(test_series_keeps_everything_when_coarsened),
          TEST(test_values_in_any_order_go_to_their_points), TEST(test_series_slots_stop_at_their_top))
