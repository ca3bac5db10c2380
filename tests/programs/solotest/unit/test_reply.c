/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Replies in pieces of any size: where they end, and what is kept of them. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "solotest/numbers.h"
#include "solotest/reply.h"
#include "check.h"

static const struct {
    const char *bytes;
    char type;
    bool is_nil;
    int64_t length;
    const char *text;
} replies[] = {
    {"+OK\r\n", '+', false, -1, "OK"},
    {"+\r\n", '+', false, -1, ""},
    {"-OOM no\rmemory\r\n", '-', false, -1, "OOM nomemory"},
    {":-7\r\n", ':', false, -1, "-7"},
    {"$0\r\n\r\n", '$', false, 0, "0"},
    {"$5\r\na\r\nbc\r\n", '$', false, 5, "5"},
    {"$-1\r\n", '$', true, -1, "-1"},
    {"*-1\r\n", '*', true, -1, "-1"},
    {"*0\r\n", '*', false, -1, "0"},
    {"*2\r\n*1\r\n$-1\r\n$3\r\nabc\r\n", '*', false, -1, "2"},
};

/* Passes the bytes in pieces that are allocated alone, so that the sanitizer finds a read beyond one. */
static size_t take_in_pieces(struct reply *r, const char *bytes, size_t size, size_t piece)
{
    size_t used = 0, n = 1;
    for (size_t at = 0; at < size && n > 0; at += n) {
        size_t length = (size_t)min_u64(piece, size - at);
        char *alone = malloc(length);
        memcpy(alone, bytes + at, length);
        n = reply_take(r, alone, length);
        used += n;
        free(alone);
    }
    return used;
}

static void test_replies_in_pieces_of_any_size(void)
{
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        size_t size = strlen(replies[i].bytes);
        for (size_t piece = 1; piece <= size; piece++) {
            struct reply r;
            reply_begin(&r);
            CHECK(take_in_pieces(&r, replies[i].bytes, size, piece) == size);
            CHECK(r.complete && r.problem == NULL && r.size == size && r.type == replies[i].type);
            CHECK(r.is_nil == replies[i].is_nil && r.length == replies[i].length);
            CHECK(strcmp(r.text, replies[i].text) == 0);
        }
    }
}

static void test_nothing_is_taken_beyond_the_end(void)
{
    struct reply r;
    reply_begin(&r);
    CHECK(reply_take(&r, "$2\r\nhi\r\n$2", 10) == 8 && r.complete);
    CHECK(reply_take(&r, "+OK\r\n", 5) == 0);
}

static void test_what_is_no_reply(void)
{
    static const char *const bad[] = {"HTTP/1.1 200\r\n", "$x\r\n",      "$\r\n",  "$-2\r\n",
                                      "*-2\r\n",          ":one\r\n",    "\r\n",   "$99999999999\r\n",
                                      "$2\r\nhixx",       "$2\r\nhi\rx", "%1\r\n", "$ 1\r\n"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct reply r;
        reply_begin(&r);
        (void)reply_take(&r, bad[i], strlen(bad[i]));
        CHECK(r.problem != NULL && !r.complete);
    }
}

static void test_a_long_line_is_cut_off(void)
{
    static char much[10000];
    struct reply r;
    reply_begin(&r);
    memset(much, 'x', sizeof much);
    much[0] = '-';
    CHECK(reply_take(&r, much, sizeof much) == sizeof much && !r.complete);
    CHECK(reply_take(&r, "\r\n", 2) == 2 && r.complete && strlen(r.text) == REPLY_LINE - 2);
}

TEST_MAIN(TEST(test_replies_in_pieces_of_any_size), TEST(test_nothing_is_taken_beyond_the_end),
          TEST(test_what_is_no_reply), TEST(test_a_long_line_is_cut_off))
