/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Errors by kind: which kind a text is, and that every error is counted. */
#define _GNU_SOURCE
#include <string.h>

#include "solotest/errors.h"
#include "check.h"

static void test_error_kinds(void)
{
    static const struct {
        const char *text, *kind;
    } cases[] = {{"OOM command not allowed", "OOM"},
                 {"LOADING Redis is loading", "LOADING"},
                 {"ERR unknown", "ERR"},
                 {"", "ERR"},
                 {"no such thing", "ERR"},
                 {"MOVED", "MOVED"},
                 {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA x", "ERR"},
                 {"Weird case", "ERR"},
                 {"OOM\"quote", "ERR"},
                 {"NO_AUTH x", "NO_AUTH"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char kind[ERROR_KIND_SIZE];
        error_kind_of(cases[i].text, kind);
        CHECK(strcmp(kind, cases[i].kind) == 0);
    }
}

static void test_errors_are_counted_whatever_their_number(void)
{
    struct errors e = {0};
    char text[256];
    for (int i = 0; i < 40; i++) {
        char kind[8];
        (void)snprintf(kind, sizeof kind, "E%d", i % 20);
        errors_add(&e, kind, 1);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < e.used; i++)
        sum += e.kinds[i].count;
    CHECK(e.total == 40 && sum == 40 && e.used == ERROR_KINDS);
    CHECK(strcmp(e.kinds[ERROR_KINDS - 1].kind, "other") == 0);
    errors_describe(&e, text, sizeof text);
    CHECK(strncmp(text, "E0 2, E1 2, ", 12) == 0);
    errors_describe(&e, text, 10); /* a text that is too long is cut off */
    CHECK(strlen(text) == 9);
}

TEST_MAIN(TEST(test_error_kinds), TEST(test_errors_are_counted_whatever_their_number))
