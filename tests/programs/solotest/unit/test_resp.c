/* SPDX-License-Identifier: GPL-3.0-or-later */
/* RESP: decimal numbers. test_load.c looks at whole commands. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>

#include "solotest/resp.h"
#include "check.h"

static void test_decimals(void)
{
    static const uint64_t values[] = {
        0, 9, 10, 99, 100, 12345678901, UINT64_C(9999999999999999999), UINT64_C(10000000000000000000), UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char digits[DIGITS], theirs[24];
        size_t n = count_digits(values[i]);
        (void)snprintf(theirs, sizeof theirs, "%" PRIu64, values[i]);
        CHECK(strlen(theirs) == n && put_digits(digits, values[i], n) == digits + n && memcmp(digits, theirs, n) == 0);
    }
}

TEST_MAIN(TEST(test_decimals))
