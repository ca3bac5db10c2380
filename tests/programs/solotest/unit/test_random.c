/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Random numbers: streams, ranges, and the bytes of values. */
#define _GNU_SOURCE
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "solotest/random.h"
#include "check.h"

static void test_rng_repeats_and_streams_differ(void)
{
    struct rng a, b, c;
    rng_seed(&a, 7, 1);
    rng_seed(&b, 7, 1);
    rng_seed(&c, 7, 2);
    bool same = true, other = true;
    for (int i = 0; i < 100; i++) {
        uint64_t x = rng_next(&a);
        same = same && x == rng_next(&b);
        other = other && x == rng_next(&c);
    }
    CHECK(same);
    CHECK(!other);
}

static void test_units_stay_in_their_range(void)
{
    struct rng r;
    double sum = 0;
    rng_seed(&r, 3, 1);
    for (int i = 0; i < 100000; i++) {
        double u = rng_unit(&r), v = rng_unit_closed(&r);
        CHECK(u >= 0 && u < 1 && v >= 0 && v <= 1);
        sum += u;
    }
    CHECK(fabs(sum / 100000 - 0.5) < 0.005);
}

static void test_only_zero_bytes_are_replaced(void)
{
    struct rng r;
    rng_seed(&r, 5, 1);
    for (int i = 0; i < 100000; i++) {
        uint64_t plain = rng_next(&r), fixed = without_zero_bytes(plain);
        for (unsigned shift = 0; shift < 64; shift += 8) {
            uint64_t from = plain >> shift & 0xff, to = fixed >> shift & 0xff;
            CHECK(to == (from == 0 ? 1 : from));
        }
    }
}

/* Each byte but 0 and 1 is equally frequent, at each of eight places, and after an even or odd byte. */
static void test_bytes_of_values_are_uniform(void)
{
    enum { DRAWS = 1000000 };
    static uint32_t seen[8][256], after[2][256];
    struct byte_rng r = {12345};
    unsigned before = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t w = bytes_next(&r);
        for (unsigned place = 0; place < 8; place++) {
            unsigned byte = w >> 8 * place & 0xff;
            seen[place][byte]++;
            after[before & 1][byte]++;
            before = byte;
        }
    }
    for (unsigned place = 0; place < 8; place++) {
        double chi2 = 0, expected = DRAWS / 256.0;
        CHECK(seen[place][0] == 0);
        for (unsigned byte = 2; byte < 256; byte++)
            chi2 += pow(seen[place][byte] - expected, 2) / expected;
        CHECK(chi2 > 170 && chi2 < 350); /* 254 degrees of freedom: 254 +- 22.5 */
    }
    for (unsigned byte = 2; byte < 256; byte++)
        CHECK(fabs((double)after[0][byte] / after[1][byte] - 127.0 / 129) < 0.06);
}

TEST_MAIN(TEST(test_rng_repeats_and_streams_differ), TEST(test_units_stay_in_their_range),
          TEST(test_only_zero_bytes_are_replaced), TEST(test_bytes_of_values_are_uniform))
