/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The latencies: who is charged for a stall, Lindley's recursion, and the lower bound. */
#define _GNU_SOURCE
#include "solotest/latency.h"
#include "solotest/random.h"
#include "check.h"

#define PERIOD 200

/* A client with one slot. */
struct client {
    struct slot slot;
    struct ideal_client ideal;
    struct server_bound bound;
};

static struct client new_client(void)
{
    return (struct client){.bound = {.period = PERIOD}};
}

static struct latencies request(struct client *c, uint64_t intended, uint64_t sent, uint64_t replied, uint64_t waited)
{
    struct reading r = {.at = replied, .waited = waited, .stamped = true};
    c->slot.intended = intended;
    c->slot.sent = c->slot.handed_over = sent;
    struct latencies l = slot_complete(&c->slot, &c->ideal, &c->bound, &r, true);
    CHECK(l.intended == l.response + l.lateness);
    CHECK(l.server <= l.intended);
    return l;
}

static void test_a_client_on_time(void)
{
    struct client c = new_client();
    struct latencies l = request(&c, 1000, 1000, 1020, 0);
    CHECK(l.service == 20 && l.response == 20 && l.intended == 20 && l.lateness == 0);
    l = request(&c, 1200, 1226, 1250, 0); /* woke up 26 late: not the server's fault */
    CHECK(l.service == 24 && l.response == 24 && l.intended == 50 && l.lateness == 26);
}

static void test_a_stalled_server_is_charged(void)
{
    struct client c = new_client();
    struct latencies l = request(&c, 1000, 1000, 51000, 0);
    CHECK(l.service == 50000 && l.response == 50000 && l.lateness == 0);
    l = request(&c, 1200, 51000, 51020, 0); /* had to wait for the one before: coordinated omission */
    CHECK(l.service == 20 && l.response == 49820 && l.intended == 49820 && l.lateness == 0);
    l = request(&c, 60000, 60000, 60020, 0);
    CHECK(l.response == 20 && l.lateness == 0);
}

static void test_a_stalled_client_is_charged(void)
{
    struct client c = new_client();
    struct latencies l = request(&c, 1000, 51000, 51020, 0);
    CHECK(l.response == 20 && l.intended == 50020 && l.lateness == 50000);
    l = request(&c, 1200, 51020, 51040, 0); /* catches up: still the client's stall */
    CHECK(l.service == 20 && l.response == 20 && l.intended == 49840 && l.lateness == 49820);
    l = request(&c, 60000, 60000, 60020, 0);
    CHECK(l.response == 20 && l.lateness == 0);
}

static void test_a_client_stopped_while_the_reply_waits(void)
{
    struct client c = new_client();
    struct latencies l = request(&c, 1000, 1000, 50001000, 49999980);
    CHECK(l.service == 50000000 && l.response == 20 && l.intended == 50000000 && l.lateness == 49999980);
    CHECK(l.wakeup == 49999980 && l.server == 20);
    l = request(&c, 1200, 50001000, 50001020, 0);
    CHECK(l.response == 20 && l.lateness == 49999800);
}

static void test_a_closed_loop_has_only_service(void)
{
    struct slot slot = {.intended = 1000};
    for (int i = 0; i < 10; i++) {
        struct reading r = {.at = slot.intended + 23};
        slot.sent = slot.intended + 3;
        struct latencies l = slot_complete_loop(&slot, &r);
        CHECK(l.service == 20 && l.response == 20 && l.intended == 23 && l.lateness == 3 && !l.stamped);
        CHECK(slot.replied == r.at); /* when its next request is due */
        slot.intended = slot.replied;
    }
}

/* Compared with a simulated queue: random service times, random late wake-ups. */
static void test_response_is_lindleys(void)
{
    struct rng r;
    struct client c = new_client();
    uint64_t free_at = 0, ideal_free_at = 0;
    rng_seed(&r, 21, 1);
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t due = 1000 + i * 200;
        uint64_t service = rng_next(&r) % 1000 == 0 ? 50000 : 20 + rng_next(&r) % 100;
        uint64_t sent = max_u64(due, free_at) + (rng_next(&r) % 1000 == 0 ? 30000 : rng_next(&r) % 50);
        struct latencies l = request(&c, due, sent, sent + service, 0);
        uint64_t ideal_reply = max_u64(due, ideal_free_at) + service;
        CHECK(l.response == ideal_reply - due && l.service == service && l.intended == sent + service - due);
        free_at = sent + service;
        ideal_free_at = ideal_reply;
    }
}

/* Four slots. The client was away when four requests were due, and sends them at once. */
static void test_a_burst_that_catches_up_does_not_blame_the_server_for_its_queue(void)
{
    struct client c = new_client();
    for (uint64_t i = 0; i < 4; i++) {
        struct latencies l = request(&c, 1000 + i * 200, 51000, 51000 + (i + 1) * 50, 0); /* the server takes 50 each */
        CHECK(l.response == 50 && l.service == (i + 1) * 50 && l.intended == 50050 - i * 150);
    }
    for (uint64_t i = 0; i < 4; i++) /* on time, but faster than the server: a queue of its own */
        CHECK(request(&c, 60000 + i * 10, 60000 + i * 10, 60050 + i * 50, 0).response == 50 + i * 40);
}

static void test_a_wait_longer_than_the_request_does_no_harm(void)
{
    struct client c = new_client();
    struct latencies l = request(&c, 1000, 1000, 3001000, UINT64_MAX);
    CHECK(l.response == 0 && l.lateness == 3000000 && l.server == 0 && l.wakeup == 3000000);
}

static void test_the_lower_bound_leaves_out_what_the_client_added(void)
{
    struct client c = new_client();
    struct latencies l = request(&c, 1000, 1055, 1085, 10); /* woke up 55 late, and again 10 */
    CHECK(l.server == 20 && l.wakeup == 10 && l.intended == 85);
    l = request(&c, 1200, 1200, 9200, 0); /* stalled: an ideal client's request may have come before that */
    CHECK(l.server == PERIOD);
    l = request(&c, 1400, 9210, 9230, 0); /* one of those that had to wait for it */
    CHECK(l.server == 7820);
}

static void test_the_lower_bound_blames_no_server_while_the_client_catches_up(void)
{
    struct client c = new_client();
    struct latencies l = request(&c, 1000, 1000 + PERIOD / 2, 1000 + PERIOD / 2 + 150, 0);
    CHECK(l.server == 150);
    c = new_client();
    l = request(&c, 1000, 1001 + PERIOD / 2, 1001 + PERIOD / 2 + 150, 0);
    CHECK(l.server == 0);
}

static void test_an_overloaded_server_stays_blamed_however_late_the_client_is(void)
{
    struct client c = new_client();
    uint64_t now = 1000, due = 1000;
    for (int i = 0; i < 1000; i++, due += PERIOD) {
        uint64_t sent = max_u64(now, due);
        struct latencies l = request(&c, due, sent, sent + PERIOD + 11, 10); /* the server takes PERIOD + 1 */
        CHECK(l.server_if_overloaded == (uint64_t)(PERIOD + 1 + i));
        now = sent + PERIOD + 11;
    }
    CHECK(server_is_overloaded(&c.bound));
    c = new_client();
    for (now = due = 1000; due < 1000 + 1000 * PERIOD; due += PERIOD) {
        uint64_t sent = max_u64(now, due);
        (void)request(&c, due, sent, sent + PERIOD + 9, 10); /* the server takes PERIOD - 1 */
        now = sent + PERIOD + 9;
    }
    CHECK(!server_is_overloaded(&c.bound)); /* without the client's own time, it would have kept up */
}

static void test_one_due_time_overloads_no_server(void)
{
    struct client c = new_client();
    (void)request(&c, 1000, 1000, 1050, 0);
    CHECK(!server_is_overloaded(&c.bound));
    (void)request(&c, 1000, 1050, 1100, 0); /* due at the same time */
    CHECK(!server_is_overloaded(&c.bound));
    (void)request(&c, 1010, 1100, 1150, 0);
    CHECK(server_is_overloaded(&c.bound));
}

static void test_a_time_stamp_is_of_the_last_reply_of_a_read(void)
{
    struct client c = new_client();
    struct reading r = {.at = 1500, .stamped = true};
    c.slot.intended = c.slot.sent = c.slot.handed_over = 1000;
    CHECK(slot_complete(&c.slot, &c.ideal, &c.bound, &r, false).server == 0);
    c.slot.intended = 1100; /* sent together with the first, which was late for it */
    CHECK(slot_complete(&c.slot, &c.ideal, &c.bound, &r, true).server == PERIOD);
    CHECK(c.bound.free == 1500);
}

/* The client looks at 1010, is away until 4000, sends the second request and reads both replies. */
static void test_the_time_between_two_replies_of_a_read_may_be_idle(void)
{
    struct client c = new_client();
    struct reading r = {.at = 4030, .stamped = true};
    c.slot = (struct slot){.intended = 1000, .sent = 1000, .handed_over = 1000, .looked = 1000};
    (void)slot_complete(&c.slot, &c.ideal, &c.bound, &r, false);
    c.slot = (struct slot){.intended = 1200, .sent = 3900, .handed_over = 4000, .looked = 1010};
    (void)slot_complete(&c.slot, &c.ideal, &c.bound, &r, true);
    CHECK(c.bound.busy == 10 + 30);
}

static void test_replies_in_another_order_than_the_schedule(void)
{
    struct client c = new_client();
    (void)request(&c, 5000, 5000, 5100, 0);
    c.slot = (struct slot){0}; /* of another connection, and read later */
    struct latencies l = request(&c, 4900, 4900, 5150, 30);
    CHECK(l.server == 120); /* 100 for the first, 20 for this one, and no waiting for the first to be due */
}

static void test_replies_without_a_time_stamp_take_no_time(void)
{
    struct client c = new_client();
    struct reading r = {.at = 9000};
    c.slot.intended = c.slot.sent = c.slot.handed_over = 1000;
    CHECK(slot_complete(&c.slot, &c.ideal, &c.bound, &r, true).server == 0);
    struct latencies l = request(&c, 9200, 9200, 9230, 5); /* nothing of the one before */
    CHECK(l.server == 25);
}

static void test_a_wall_clock_that_is_set_is_noticed(void)
{
    struct wall w = {0};
    uint64_t offset = UINT64_C(1700000000) * NS_PER_S;
    CHECK(wall_is_steady(&w, NS_PER_S, offset + NS_PER_S));
    CHECK(wall_is_steady(&w, 2 * NS_PER_S, offset + 2 * NS_PER_S + 500 * NS_PER_US)); /* slewed by 500 ppm */
    CHECK(!wall_is_steady(&w, 2 * NS_PER_S + 1, offset + 3 * NS_PER_S));
    CHECK(wall_is_steady(&w, 2 * NS_PER_S + 2, offset + 3 * NS_PER_S));
    CHECK(!wall_is_steady(&w, 2 * NS_PER_S + 3, offset - NS_PER_S));
}

TEST_MAIN(TEST(test_a_client_on_time), TEST(test_a_stalled_server_is_charged), TEST(test_a_stalled_client_is_charged),
          TEST(test_a_client_stopped_while_the_reply_waits), TEST(test_a_closed_loop_has_only_service),
          TEST(test_response_is_lindleys), TEST(test_a_burst_that_catches_up_does_not_blame_the_server_for_its_queue),
          TEST(test_a_wait_longer_than_the_request_does_no_harm),
          TEST(test_the_lower_bound_leaves_out_what_the_client_added),
          TEST(test_the_lower_bound_blames_no_server_while_the_client_catches_up),
          TEST(test_an_overloaded_server_stays_blamed_however_late_the_client_is),
          TEST(test_one_due_time_overloads_no_server), TEST(test_a_time_stamp_is_of_the_last_reply_of_a_read),
          TEST(test_the_time_between_two_replies_of_a_read_may_be_idle),
          TEST(test_replies_in_another_order_than_the_schedule), TEST(test_replies_without_a_time_stamp_take_no_time),
          TEST(test_a_wall_clock_that_is_set_is_noticed))
