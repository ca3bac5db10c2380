/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Key chooser: ranges, patterns and the share of SETs. test_statistics.py compares its distribution. */
#define _GNU_SOURCE
#include <math.h>

#include "solotest/chooser.h"
#include "solotest/options.h"
#include "check.h"

static void test_keys_stay_in_range(void)
{
    static const uint64_t counts[] = {1, 2, 3, 100, 1000001, (uint64_t)MAX_KEYS};
    static const double biases[] = {0, -1, 1e-300, 0.5, 10, 1e6, -1e6};
    struct chooser c;
    for (size_t n = 0; n < COUNT_OF(counts); n++)
        for (size_t b = 0; b < COUNT_OF(biases); b++)
            for (enum pattern p = PATTERN_GAUSSIAN; p <= PATTERN_SEQUENTIAL; p++) {
                chooser_init(&c, 1, counts[n], p, biases[b], 50);
                for (int i = 0; i < 2000; i++)
                    CHECK(chooser_next(&c).key < counts[n]);
            }
}

static void test_extreme_biases(void)
{
    struct chooser c;
    uint64_t middle = 0;
    chooser_init(&c, 1, 1000, PATTERN_GAUSSIAN, 1e6, 100);
    for (int i = 0; i < 1000; i++) { /* every pull is complete but for the last unit's truncation */
        uint64_t key = chooser_next(&c).key;
        CHECK(key >= 499 && key <= 501);
    }
    chooser_init(&c, 1, 1000, PATTERN_GAUSSIAN, 1e-300, 100);
    for (int i = 0; i < 100000; i++) /* only x = 50 pulls: one in a hundred */
        middle += chooser_next(&c).key == 500;
    CHECK(middle > 900 && middle < 1300);
}

static void test_sequential_keys_and_only_sets(void)
{
    struct chooser c;
    chooser_init(&c, 1, 3, PATTERN_SEQUENTIAL, -1, READ_MIX_ONLY_SETS);
    for (uint64_t i = 0; i < 300; i++) {
        struct choice choice = chooser_next(&c);
        CHECK(choice.key == i % 3 && choice.is_set);
    }
}

static double share_of_sets(int read_mix)
{
    struct chooser c;
    int sets = 0;
    chooser_init(&c, 11, 1000, PATTERN_GAUSSIAN, 10, read_mix);
    for (int i = 0; i < 1000000; i++)
        sets += chooser_next(&c).is_set;
    return sets / 1e6;
}

static void test_share_of_sets(void)
{
    CHECK(fabs(share_of_sets(70) - 0.29) < 0.002); /* 29 %, not 30 %: floor(100 V) > 70 */
    CHECK(fabs(share_of_sets(0) - 0.99) < 0.002);
    CHECK(share_of_sets(99) < 0.0001);
    CHECK(fabs(share_of_sets(100)) < 1e-9);
}

TEST_MAIN(TEST(test_keys_stay_in_range), TEST(test_extreme_biases), TEST(test_sequential_keys_and_only_sets),
          TEST(test_share_of_sets))
