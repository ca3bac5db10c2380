/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Requests and replies without a Redis: the test plays the server. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../offline.h"
#include "check.h"

static const char four_replies[] = "$5\r\nhello\r\n$-1\r\n-OOM no memory\r\n:7\r\n";

static void check_four_replies(struct offline *o)
{
    CHECK(o->exchange.ok == 1 && o->exchange.errors.total == 3 && o->exchange.in_flight == 0);
    measurement_record(o->measurement);
    CHECK(o->measurement->service.count == 1);
    CHECK(o->exchange.errors.used == 3 && strcmp(o->exchange.errors.kinds[0].kind, "nil") == 0);
    CHECK(strcmp(o->exchange.errors.kinds[1].kind, "OOM") == 0 &&
          strcmp(o->exchange.errors.kinds[2].kind, "type") == 0);
}

static void test_replies_torn_anywhere(void)
{
    size_t size = sizeof four_replies - 1;
    for (size_t cut = 0; cut <= size; cut++) {
        struct offline o;
        offline_open(&o, 5, 100, 4);
        offline_measure(&o);
        offline_send(&o);
        CHECK(o.exchange.in_flight == 4);
        CHECK(offline_consume(&o, four_replies, cut));
        CHECK(offline_consume(&o, four_replies + cut, size - cut));
        check_four_replies(&o);
        offline_close(&o);
    }
}

static void test_replies_byte_by_byte(void)
{
    struct offline o;
    offline_open(&o, 5, 100, 4);
    offline_measure(&o);
    offline_send(&o);
    for (size_t i = 0; i + 1 < sizeof four_replies; i++)
        CHECK(offline_consume(&o, four_replies + i, 1));
    check_four_replies(&o);
    offline_close(&o);
}

static void test_values_of_another_size_are_values(void)
{
    struct offline o;
    offline_open(&o, 5, 100, 2);
    offline_send(&o);
    CHECK(offline_consume(&o, "$1\r\nx\r\n$0\r\n\r\n", 13));
    CHECK(o.exchange.ok == 2 && o.exchange.errors.total == 0);
    offline_close(&o);
}

static void test_sets_want_ok(void)
{
    struct offline o;
    offline_open(&o, 5, READ_MIX_ONLY_SETS, 3);
    offline_send(&o);
    CHECK(o.exchange.sets == 3);
    CHECK(offline_consume(&o, "+OK\r\n$-1\r\n+OK\r\n", 15));
    CHECK(o.exchange.ok == 2 && o.exchange.errors.total == 1);
    offline_close(&o);
}

static void test_protocol_errors(void)
{
    static const char *const bad[] = {"HTTP/1.1 200 OK\r\n", "$x\r\n", "+OK\r\n+OK\r\n+OK\r\n"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct offline o;
        offline_open(&o, 5, READ_MIX_ONLY_SETS, 2);
        offline_send(&o);
        CHECK(!offline_consume(&o, bad[i], strlen(bad[i])));
        CHECK(o.failure.exit_code == EXIT_LOST && strcmp(o.failure.kind, "protocol") == 0);
        CHECK(o.exchange.ok + o.exchange.errors.total == o.exchange.sent && o.exchange.in_flight == 0);
        offline_close(&o);
    }
}

static void test_an_endless_reply_is_cut_short(void)
{
    static const char *const heads[] = {"*1000000000\r\n", "+"};
    static char much[65536];
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        struct offline o;
        int chunks = 0;
        offline_open(&o, 5, 100, 1);
        offline_send(&o);
        for (size_t k = 0; k < sizeof much; k += 4)
            memcpy(much + k, i == 0 ? ":1\r\n" : "xxxx", 4);
        CHECK(offline_consume(&o, heads[i], strlen(heads[i])));
        while (chunks < 100 && offline_consume(&o, much, sizeof much))
            chunks++;
        CHECK(chunks < 20 && strcmp(o.failure.kind, "protocol") == 0);
        offline_close(&o);
    }
}

static void test_a_value_of_another_size_is_named(void)
{
    struct offline o;
    offline_open(&o, 1000, 100, 4);
    offline_send(&o);
    CHECK(offline_consume(&o, "$-1\r\n$41943", 11) && !offline_consume(&o, "04\r\nxxx", 7));
    CHECK(o.failure.exit_code == EXIT_REQUESTS && strcmp(o.failure.kind, "value_size") == 0);
    CHECK(strstr(o.failure.message, "4194304 bytes") != NULL && strstr(o.failure.message, "is 1000") != NULL);
    CHECK(o.exchange.errors.total == 4 && o.exchange.in_flight == 0);
    offline_close(&o);
}

static void test_commands_on_the_wire(void)
{
    struct offline o;
    char wire[4096];
    unsigned key;
    int length;
    offline_open(&o, 300, READ_MIX_ONLY_SETS, 1);
    offline_send(&o);
    ssize_t n = recv(o.peer, wire, sizeof wire - 1, MSG_DONTWAIT);
    CHECK(n > 300);
    wire[n > 0 ? n : 0] = '\0';
    CHECK(sscanf(wire, "*3\r\n$3\r\nSET\r\n$%d\r\n%u\r\n$300\r\n", &length, &key) == 2);
    CHECK(key < 1000 && length == snprintf(NULL, 0, "%u", key));
    CHECK(strlen(wire) == (size_t)n && (size_t)n == 13 + 4 + (size_t)length + 2 + 6 + 300 + 2);
    offline_close(&o);
    offline_open(&o, 300, 100, 1);
    offline_send(&o);
    n = recv(o.peer, wire, sizeof wire - 1, MSG_DONTWAIT);
    wire[n > 0 ? n : 0] = '\0';
    CHECK(sscanf(wire, "*2\r\n$3\r\nGET\r\n$%d\r\n%u\r\n", &length, &key) == 2);
    offline_close(&o);
}

TEST_MAIN(TEST(test_replies_torn_anywhere), TEST(test_replies_byte_by_byte),
          TEST(test_values_of_another_size_are_values), TEST(test_sets_want_ok), TEST(test_protocol_errors),
          TEST(test_an_endless_reply_is_cut_short), TEST(test_a_value_of_another_size_is_named),
          TEST(test_commands_on_the_wire))
