/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values: what is in them, and that those made ahead are those that would have been made later. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "solotest/values.h"
#include "check.h"

enum { SIZE = 1000, DRAWS = 500 };

static struct values some_values(size_t size, double compressibility)
{
    return values_of(byte_rng_seeded(7, 1), size, compressibility);
}

static void test_values_have_no_zero_byte_at_any_size(void)
{
    static const double shares[] = {0, 0.01, 0.3, 0.67, 0.99, 1};
    char value[400];
    for (size_t size = 1; size < sizeof value; size++)
        for (size_t i = 0; i < COUNT_OF(shares); i++) {
            struct values v = some_values(size, shares[i]);
            for (int draw = 0; draw < 50; draw++) {
                memset(value, 0, sizeof value);
                values_take(&v, value);
                CHECK(memchr(value, 0, size) == NULL);
                CHECK(value[size] == 0);
            }
        }
}

/* The share of bytes that begin four bytes of the filler: LZ4 can only match such. */
static double filler_share(struct values *v, int draws)
{
    static const char filler[] = "memstretch.valuemem"; /* it goes on from its end */
    char value[SIZE];
    size_t found = 0;
    for (int draw = 0; draw < draws; draw++) {
        values_take(v, value);
        for (size_t at = 0; at + 4 <= SIZE; at++)
            for (size_t start = 0; start < 16; start++)
                found += memcmp(value + at, filler + start, 4) == 0;
    }
    return (double)found / ((double)draws * (SIZE - 3));
}

static void test_the_filler_grows_with_compressibility(void)
{
    double before = -1;
    for (int percent = 0; percent <= 100; percent += 5) {
        struct values v = some_values(SIZE, percent / 100.0);
        double share = filler_share(&v, 640); /* a run of each kind */
        CHECK(share > before);
        CHECK(percent > 0 || share < 0.001);
        CHECK(percent < 100 || share > 0.99); /* the filler starts again in each piece */
        before = share;
    }
}

/* 32 values of 1,000 bytes are of one kind, and the next 32 of another. */
static void test_neighbours_are_of_one_kind(void)
{
    struct values v = some_values(SIZE, 0.67);
    double least = 1, most = 0;
    for (int run = 0; run < VALUE_KINDS; run++) {
        double first = filler_share(&v, 16), second = filler_share(&v, 16);
        CHECK(first - second < 0.05 && second - first < 0.05);
        least = first < least ? first : least;
        most = first > most ? first : most;
    }
    CHECK(least < 0.4 && most > 0.95);
}

static void test_values_made_ahead_are_the_same(void)
{
    static const double shares[] = {0, 0.66};
    char expected[SIZE], found[SIZE];
    for (size_t room = 0; room < 18; room++) {
        struct values now = some_values(SIZE, shares[room % 2]), later = some_values(SIZE, shares[room % 2]);
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
    struct values v = some_values(SIZE, 0);
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
    struct values v = some_values((256u << 10) + 1, 0);
    CHECK(values_reserve(&v, 15) && v.room == 0);
    values_make_ahead(&v);
    CHECK(v.ready == 0);
    values_free(&v);
    v = some_values(64u << 10, 0);
    CHECK(values_reserve(&v, 15) && v.room == 4);
    values_free(&v);
}

TEST_MAIN(TEST(test_values_have_no_zero_byte_at_any_size), TEST(test_the_filler_grows_with_compressibility),
          TEST(test_neighbours_are_of_one_kind), TEST(test_values_made_ahead_are_the_same), TEST(test_the_ring_is_used),
          TEST(test_large_values_are_not_made_ahead))
