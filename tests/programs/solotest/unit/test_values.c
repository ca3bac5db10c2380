/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values that are made ahead are those that would have been made later. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "solotest/values.h"
#include "check.h"

enum { SIZE = 1000, DRAWS = 500 };

static struct values values_of(size_t size, double compressibility)
{
    return (struct values){.rng = byte_rng_seeded(7, 1), .size = size, .compressibility = compressibility};
}

static void test_values_made_ahead_are_the_same(void)
{
    static const double shares[] = {0, 0.66};
    char expected[SIZE], found[SIZE];
    for (size_t room = 0; room < 18; room++) {
        struct values now = values_of(SIZE, shares[room % 2]), later = values_of(SIZE, shares[room % 2]);
        bool same = values_reserve(&later, room);
        for (int i = 0; i < DRAWS; i++) {
            if (i % 3 == 0 || i % 7 == 0) /* from an empty, a part of a, and a full ring */
                values_make_ahead(&later);
            values_take(&now, expected);
            values_take(&later, found);
            same = same && memcmp(expected, found, SIZE) == 0;
        }
        CHECK(same);
        values_free(&later);
    }
}

static void test_the_ring_is_used(void)
{
    char value[SIZE];
    struct values v = values_of(SIZE, 0);
    CHECK(values_reserve(&v, 15) && v.room == 15 && v.ready == 0);
    values_make_ahead(&v);
    uint64_t made = v.rng.counter;
    CHECK(v.ready == 15);
    for (int i = 0; i < 15; i++)
        values_take(&v, value);
    CHECK(v.ready == 0 && v.rng.counter == made);
    values_take(&v, value);
    CHECK(v.rng.counter != made);
    values_free(&v);
}

static void test_large_values_are_not_made_ahead(void)
{
    struct values v = values_of((256u << 10) + 1, 0);
    CHECK(values_reserve(&v, 15) && v.room == 0);
    values_make_ahead(&v);
    CHECK(v.ready == 0);
    values_free(&v);
    v = values_of(64u << 10, 0);
    CHECK(values_reserve(&v, 15) && v.room == 4);
    values_free(&v);
}

TEST_MAIN(TEST(test_values_made_ahead_are_the_same), TEST(test_the_ring_is_used),
          TEST(test_large_values_are_not_made_ahead))
