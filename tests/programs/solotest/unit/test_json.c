/* SPDX-License-Identifier: GPL-3.0-or-later */
/* JSON: texts and numbers. */
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "solotest/json.h"
#include "check.h"

static char *json_of(void (*write)(struct json *, const void *), const void *what)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    struct json j = {.file = file};
    write(&j, what);
    (void)fclose(file);
    return text;
}

static void write_text(struct json *j, const void *text)
{
    json_text(j, text);
}

static void write_wide(struct json *j, const void *value)
{
    wide w;
    memcpy(&w, value, sizeof w);
    json_wide(j, w);
}

static void write_real(struct json *j, const void *value)
{
    double d;
    memcpy(&d, value, sizeof d);
    json_real(j, d);
}

static void check_json(void (*write)(struct json *, const void *), const void *what, const char *expected)
{
    char *text = json_of(write, what);
    CHECK(strcmp(text, expected) == 0);
    if (strcmp(text, expected) != 0)
        (void)fprintf(stderr, "  got %s, expected %s\n", text, expected);
    free(text);
}

static void test_json_texts(void)
{
    check_json(write_text, "plain", "\"plain\"");
    check_json(write_text, NULL, "null");
    check_json(write_text, "a\"b\\c\n\x7f\x01", "\"a\\\"b\\\\c\\u000a\\u007f\\u0001\"");
    check_json(write_text, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
               "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    check_json(write_text, "\xff\xc3", "\"\\ufffd\\ufffd\"");
    check_json(write_text, "\xc0\xaf\xed\xa0\x80\xf5", "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void test_json_numbers(void)
{
    wide big = ~(wide)0, zero = 0;
    check_json(write_wide, &big, "340282366920938463463374607431768211455");
    check_json(write_wide, &zero, "0");
    check_json(write_real, &(double){0.1}, "0.1");
    check_json(write_real, &(double){1.0 / 3}, "0.33333333333333331");
    check_json(write_real, &(double){5000}, "5000");
    check_json(write_real, &(double){INFINITY}, "null");
}

TEST_MAIN(TEST(test_json_texts), TEST(test_json_numbers))
