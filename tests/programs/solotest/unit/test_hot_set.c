/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Hot set: compared with a count of all accesses. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "solotest/histogram.h"
#include "solotest/hot_set.h"
#include "solotest/options.h"
#include "check.h"

static int compare_descending(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x < y) - (x > y);
}

static uint64_t keys_for_share(const uint32_t *sorted, size_t keys, uint64_t accesses, unsigned permille)
{
    uint64_t covered = 0;
    for (size_t i = 0; i < keys; i++) {
        covered += sorted[i];
        if (covered >= rank_of(accesses, permille))
            return i + 1;
    }
    return keys;
}

static void test_hot_set_against_counting(void)
{
    static const double biases[] = {0, -1, 25};
    static uint32_t counts[1000], scratch[300]; /* `scratch` makes four passes necessary */
    for (size_t b = 0; b < COUNT_OF(biases); b++) {
        struct chooser initial, c;
        struct hot_set h;
        uint64_t accesses = 500000, distinct = 0;
        chooser_init(&initial, 8, COUNT_OF(counts), PATTERN_GAUSSIAN, biases[b], 70);
        c = initial;
        memset(counts, 0, sizeof counts);
        for (uint64_t i = 0; i < accesses; i++)
            counts[chooser_next(&c).key]++;
        qsort(counts, COUNT_OF(counts), sizeof counts[0], compare_descending);
        while (distinct < COUNT_OF(counts) && counts[distinct] > 0)
            distinct++;
        hot_set_measure(&h, &initial, accesses, scratch, COUNT_OF(scratch));
        CHECK(h.known && h.distinct == distinct && h.accesses == accesses);
        for (size_t i = 0; i < HOT_SHARES; i++)
            CHECK(h.keys[i] == keys_for_share(counts, COUNT_OF(counts), accesses, hot_permille[i]));
    }
}

static void test_a_hot_set_that_is_too_much_work_is_unknown(void)
{
    static uint32_t scratch[10];
    struct chooser c;
    struct hot_set h;
    chooser_init(&c, 1, (uint64_t)MAX_KEYS, PATTERN_UNIFORM, 0, 100);
    hot_set_measure(&h, &c, 1000000, scratch, COUNT_OF(scratch));
    CHECK(!h.known);
    hot_set_measure(&h, &c, 0, scratch, COUNT_OF(scratch));
    CHECK(!h.known);
}

TEST_MAIN(TEST(test_hot_set_against_counting), TEST(test_a_hot_set_that_is_too_much_work_is_unknown))
