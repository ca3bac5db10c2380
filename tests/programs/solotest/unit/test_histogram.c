/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Histogram: its layout, its error bound, and that nothing is lost. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "solotest/histogram.h"
#include "solotest/random.h"
#include "check.h"

static void test_slots_are_hdr_histograms(void)
{
    /* value and index as HdrHistogram (1, 2^63 - 1, 2 digits) computes them */
    static const struct {
        uint64_t value;
        size_t index;
    } golden[] = {{0, 0},
                  {1, 1},
                  {255, 255},
                  {256, 256},
                  {257, 256},
                  {258, 257},
                  {511, 383},
                  {512, 384},
                  {1000, 506},
                  {50000, 1219},
                  {1000000, 1780},
                  {1000000000, 3054},
                  {INT64_MAX, HIST_SLOTS - 1}};
    for (size_t i = 0; i < COUNT_OF(golden); i++)
        CHECK(hist_index(golden[i].value) == golden[i].index);
}

static void test_slots_tile_all_values(void)
{
    uint64_t lowest = 0;
    for (size_t i = 0; i < HIST_SLOTS; i++) {
        uint64_t highest = hist_highest_in(i);
        CHECK(hist_index(lowest) == i && hist_index(highest) == i);
        CHECK(highest - lowest <= lowest / 128);
        lowest = highest + 1;
    }
    CHECK(lowest == (uint64_t)INT64_MAX + 1);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

#define SAMPLES 200000

/* From 100 ns to 100 s, evenly on a logarithmic scale. */
static void make_samples(uint64_t *samples)
{
    struct rng r;
    rng_seed(&r, 9, 1);
    for (size_t i = 0; i < SAMPLES; i++)
        samples[i] = (uint64_t)(100 * pow(10, rng_unit(&r) * 9));
}

static void test_percentiles_against_raw_samples(void)
{
    static uint64_t samples[SAMPLES];
    static struct histogram h;
    wide sum = 0;
    make_samples(samples);
    for (size_t i = 0; i < SAMPLES; i++) {
        hist_add_many(&h, samples[i], 1);
        sum += samples[i];
    }
    qsort(samples, SAMPLES, sizeof samples[0], compare_u64);
    CHECK(h.count == SAMPLES && h.sum == sum);
    CHECK(h.min == samples[0] && h.max == samples[SAMPLES - 1]);
    for (unsigned permille = 1; permille <= 1000; permille++) {
        uint64_t truth = samples[rank_of(SAMPLES, permille) - 1];
        uint64_t reported = hist_percentile(&h, permille);
        CHECK(reported >= truth);
        CHECK((double)reported <= (double)truth * (1 + 1.0 / 128));
    }
}

static void test_merging_any_split_gives_the_whole(void)
{
    static uint64_t samples[SAMPLES];
    static struct histogram whole, parts[3];
    make_samples(samples);
    for (size_t i = 0; i < SAMPLES; i++) {
        hist_add_many(&whole, samples[i], 1);
        hist_add_many(&parts[samples[i] % 3], samples[i], 1);
    }
    for (size_t i = 0; i < HIST_SLOTS; i++)
        CHECK(whole.slots[i] == parts[0].slots[i] + parts[1].slots[i] + parts[2].slots[i]);
    CHECK(whole.sum == parts[0].sum + parts[1].sum + parts[2].sum);
}

static void test_all_at_once_is_as_one_by_one(void)
{
    static uint64_t samples[SAMPLES];
    static struct histogram at_once, one_by_one;
    make_samples(samples);
    samples[SAMPLES / 2] = UINT64_MAX;
    for (size_t from = 0, n = 0; from < SAMPLES; from += n, n = n % 64 + 1) /* the first time, none */
        hist_add_all(&at_once, samples + from, from + n < SAMPLES ? n : SAMPLES - from);
    for (size_t i = 0; i < SAMPLES; i++)
        hist_add_many(&one_by_one, samples[i], 1);
    CHECK(memcmp(&at_once, &one_by_one, sizeof at_once) == 0);
}

static void test_nothing_is_cut_off(void)
{
    static struct histogram h;
    hist_add_many(&h, UINT64_MAX, 1);
    hist_add_many(&h, 0, 1);
    CHECK(h.count == 2 && h.min == 0 && h.max == INT64_MAX);
    CHECK(hist_percentile(&h, 999) == INT64_MAX && hist_percentile(&h, 500) == 0);
}

static void test_empty_histogram(void)
{
    static struct histogram h;
    CHECK(hist_percentile(&h, 990) == 0);
    CHECK(fabs(hist_mean(&h)) < 1e-9);
}

static void test_ranks(void)
{
    CHECK(rank_of(1, 500) == 1 && rank_of(2, 500) == 1 && rank_of(3, 500) == 2);
    CHECK(rank_of(100, 990) == 99 && rank_of(101, 990) == 100 && rank_of(1000, 999) == 999);
    CHECK(rank_of(UINT64_MAX, 1000) == UINT64_MAX);
}

TEST_MAIN(TEST(test_slots_are_hdr_histograms), TEST(test_slots_tile_all_values),
          TEST(test_percentiles_against_raw_samples), TEST(test_merging_any_split_gives_the_whole),
          TEST(test_all_at_once_is_as_one_by_one), TEST(test_nothing_is_cut_off), TEST(test_empty_histogram),
          TEST(test_ranks))
