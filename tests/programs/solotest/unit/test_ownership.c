/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ownership: what counts as data that no fill wrote, and as a note of ours. */
#define _GNU_SOURCE
#include <string.h>

#include "solotest/ownership.h"
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

static void test_expiring_keys(void)
{
    CHECK(find_expiring_keys("# Keyspace\r\ndb0:keys=5,expires=0,avg_ttl=0\r\n") == NULL);
    CHECK(find_expiring_keys("# Keyspace\r\ndb0:keys=5,expires=1,avg_ttl=0\r\n") != NULL);
    CHECK(find_expiring_keys("db0:keys=5\r\ndb3:keys=1,expires=1\r\n") != NULL);
    CHECK(find_expiring_keys("") == NULL && find_expiring_keys("\n\n") == NULL);
}

static bool is_note(const char *text)
{
    struct note note;
    return note_read(&note, text, strlen(text));
}

static void test_a_note_reads_back(void)
{
    static const struct note notes[] = {{1, 1, 1}, {20000000, 1000, 1000}, {1000000000000, 1, 536870912}};
    for (size_t i = 0; i < COUNT_OF(notes); i++) {
        struct note read;
        char text[NOTE_SIZE];
        note_write(&notes[i], text);
        CHECK(note_read(&read, text, strlen(text)));
        CHECK(memcmp(&read, &notes[i], sizeof read) == 0);
    }
}

static void test_what_is_no_note(void)
{
    static const char *const bad[] = {"",
                                      "precious",
                                      "solotest 1: keys 0 to 999",
                                      "solotest 1: keys 0 to 999, values of 10 to 10 bytes!",
                                      "solotest 2: keys 0 to 999, values of 10 to 10 bytes",
                                      "solotest 1: keys 0 to -1, values of 10 to 10 bytes",
                                      "solotest 1: keys 0 to 1000000000000, values of 10 to 10 bytes",
                                      "solotest 1: keys 0 to 9999999999999999999, values of 10 to 10 bytes",
                                      "solotest 1: keys 0 to 999, values of 0 to 10 bytes",
                                      "solotest 1: keys 0 to 999, values of 10 to 9 bytes",
                                      "solotest 1: keys 0 to 0999, values of 10 to 10 bytes",
                                      "solotest 1: keys 0 to 999,  values of 10 to 10 bytes"};
    CHECK(is_note("solotest 1: keys 0 to 999, values of 10 to 10 bytes"));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!is_note(bad[i]));
}

TEST_MAIN(TEST(test_foreign_databases), TEST(test_expiring_keys), TEST(test_a_note_reads_back),
          TEST(test_what_is_no_note))
