/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Server: what counts as data that no fill wrote. */
#define _GNU_SOURCE
#include <string.h>

#include "solotest/server.h"
#include "check.h"

static void test_foreign_databases(void)
{
    CHECK(find_foreign_database("# Keyspace\r\n") == NULL);
    CHECK(find_foreign_database("# Keyspace\r\ndb0:keys=5,expires=0,avg_ttl=0\r\n") == NULL);
    CHECK(find_foreign_database("# Keyspace\r\ndb0:keys=5,expires=0\r\ndb3:keys=1,expires=0\r\n") != NULL);
    CHECK(find_foreign_database("db15:keys=1") != NULL);
    CHECK(find_foreign_database("db15:keys=0") == NULL);
    CHECK(find_foreign_database("") == NULL && find_foreign_database("\n\n") == NULL);
}

static void test_canonical_numbers(void)
{
    static const char *const good[] = {"0", "7", "12345678901234567890"};
    static const char *const bad[] = {"", "00", "07", "-1", "1a", "user:1", " 1", "123456789012345678901"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK(is_canonical_number(good[i], strlen(good[i])));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!is_canonical_number(bad[i], strlen(bad[i])));
    CHECK(!is_canonical_number("1\0002", 3));
}

TEST_MAIN(
    TEST(test_foreign_databases),
    TEST(test_canonical_numbers))
