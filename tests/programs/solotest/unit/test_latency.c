/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The four latencies: who is charged for a stall, and Lindley's recursion. */
#define _GNU_SOURCE
#include "solotest/latency.h"
#include "solotest/random.h"
#include "check.h"

static struct latencies request(struct slot *s, uint64_t intended, uint64_t sent, uint64_t replied,
                                uint64_t read_delay)
{
    s->intended = intended;
    s->sent = sent;
    struct latencies l = slot_complete(s, replied, read_delay);
    CHECK(l.intended == l.response + l.lateness);
    return l;
}

static void test_a_client_on_time(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 1020, 0);
    CHECK(l.service == 20 && l.response == 20 && l.intended == 20 && l.lateness == 0);
    l = request(&s, 1200, 1226, 1250, 0); /* woke up 26 late: not the server's fault */
    CHECK(l.service == 24 && l.response == 24 && l.intended == 50 && l.lateness == 26);
}

static void test_a_stalled_server_is_charged(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 51000, 0);
    CHECK(l.service == 50000 && l.response == 50000 && l.lateness == 0);
    l = request(&s, 1200, 51000, 51020, 0); /* had to wait for the one before: coordinated omission */
    CHECK(l.service == 20 && l.response == 49820 && l.intended == 49820 && l.lateness == 0);
    l = request(&s, 60000, 60000, 60020, 0);
    CHECK(l.response == 20 && l.lateness == 0);
}

static void test_a_stalled_client_is_charged(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 51000, 51020, 0);
    CHECK(l.response == 20 && l.intended == 50020 && l.lateness == 50000);
    l = request(&s, 1200, 51020, 51040, 0); /* catches up: still the client's stall */
    CHECK(l.service == 20 && l.response == 20 && l.intended == 49840 && l.lateness == 49820);
    l = request(&s, 60000, 60000, 60020, 0);
    CHECK(l.response == 20 && l.lateness == 0);
}

static void test_a_client_stopped_while_the_reply_waits(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 51000, 49980);
    CHECK(l.service == 50000 && l.response == 20 && l.intended == 50000 && l.lateness == 49980);
    l = request(&s, 1200, 51000, 51020, 0);
    CHECK(l.response == 20 && l.lateness == 49800);
}

static void test_a_closed_loop_has_only_service(void)
{
    struct slot s = {0};
    uint64_t now = 1000;
    for (int i = 0; i < 10; i++) {
        struct latencies l = request(&s, now, now + 3, now + 23, 0);
        CHECK(l.service == 20 && l.response == 20 && l.intended == 23 && l.lateness == 3);
        now += 23;
    }
}

/* Compared with a simulated queue: random service times, random late wake-ups. */
static void test_response_is_lindleys(void)
{
    struct rng r;
    struct slot s = {0};
    uint64_t free_at = 0, ideal_free_at = 0;
    rng_seed(&r, 21, 1);
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t due = 1000 + i * 200;
        uint64_t service = rng_next(&r) % 1000 == 0 ? 50000 : 20 + rng_next(&r) % 100;
        uint64_t sent = max_u64(due, free_at) + (rng_next(&r) % 1000 == 0 ? 30000 : rng_next(&r) % 50);
        struct latencies l = request(&s, due, sent, sent + service, 0);
        uint64_t ideal_reply = max_u64(due, ideal_free_at) + service;
        CHECK(l.response == ideal_reply - due && l.service == service && l.intended == sent + service - due);
        free_at = sent + service;
        ideal_free_at = ideal_reply;
    }
}

static void test_a_stepped_clock_does_no_harm(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 3000, UINT64_MAX);
    CHECK(l.response == 0 && l.lateness == 2000);
}

TEST_MAIN(
    TEST(test_a_client_on_time),
    TEST(test_a_stalled_server_is_charged),
    TEST(test_a_stalled_client_is_charged),
    TEST(test_a_client_stopped_while_the_reply_waits),
    TEST(test_a_closed_loop_has_only_service),
    TEST(test_response_is_lindleys),
    TEST(test_a_stepped_clock_does_no_harm))
