/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A common start is a time of the wall clock, and somebody may set that clock while the client waits. */
#define _GNU_SOURCE
#include "../unit/check.h"
#include "virtual.h"

#define BEFORE (100 * NS_PER_MS)
#define WAIT (5 * NS_PER_S)
#define START (VIRTUAL_WALL + VIRTUAL_START + WAIT)

/* Waits with a clock that is set by `by`, `after` ns after the wait has begun. Returns when the start is, counted from
 * the beginning of the wait, and checks that the wait ended in time for it. */
static uint64_t wait_with_step(uint64_t after, int64_t by)
{
    vm = (struct virtual_machine){.now = VIRTUAL_START, .wakeup = 5000, .step = {VIRTUAL_START + after, by}};
    uint64_t start = sleep_until_wall(START, BEFORE);
    CHECK(start + CALL_NS >= vm.now);
    CHECK(vm.now >= VIRTUAL_START + after || wall_at(vm.now) <= START - BEFORE + vm.wakeup + 20 * CLOCK_NS);
    return start - VIRTUAL_START;
}

static bool is_close(uint64_t a, uint64_t b)
{
    return since(a, b) < 10000 && since(b, a) < 10000;
}

static void test_a_clock_that_nobody_sets(void)
{
    CHECK(is_close(wait_with_step(0, 0), WAIT));
}

static void test_a_clock_that_is_set_while_waiting(void)
{
    CHECK(is_close(wait_with_step(NS_PER_S, -2 * (int64_t)NS_PER_S), WAIT + 2 * NS_PER_S));
    CHECK(is_close(wait_with_step(NS_PER_S, 2 * (int64_t)NS_PER_S), WAIT - 2 * NS_PER_S));
    CHECK(is_close(wait_with_step(4 * NS_PER_S, 20 * NS_PER_MS), WAIT - 20 * NS_PER_MS));
}

static void test_a_clock_that_is_set_beyond_the_start(void)
{
    CHECK(is_close(wait_with_step(NS_PER_S, 3600 * (int64_t)NS_PER_S), NS_PER_S)); /* at once */
}

/* Then it is too late to follow: all hosts of a fleet are about to begin. */
static void test_a_clock_that_is_set_in_the_last_tenth_of_a_second(void)
{
    CHECK(is_close(wait_with_step(WAIT - BEFORE / 2, -60 * (int64_t)NS_PER_S), WAIT));
    CHECK(is_close(wait_with_step(WAIT - BEFORE / 2, 60 * (int64_t)NS_PER_S), WAIT));
}

/* Between the readings of the two clocks: the start must not move by that. */
static void test_a_client_that_is_stopped_while_it_reads_the_clocks(void)
{
    for (uint64_t after = 0; after < 4 * CLOCK_NS; after += CLOCK_NS / 5) {
        uint64_t begin = VIRTUAL_START + WAIT - BEFORE + after;
        struct stop stop = {begin, begin + 20 * NS_PER_MS};
        vm = (struct virtual_machine){.now = VIRTUAL_START, .client = {&stop, 1}};
        CHECK(is_close(sleep_until_wall(START, BEFORE) - VIRTUAL_START, WAIT));
    }
}

/* Its requests are late then. The start must not move to the end of the stop. */
static void test_a_client_that_is_stopped_across_the_start(void)
{
    for (uint64_t begin = 10 * NS_PER_MS; begin < 200 * NS_PER_MS; begin += 10 * NS_PER_MS) {
        struct stop stop = {VIRTUAL_START + WAIT - begin, VIRTUAL_START + WAIT + 400 * NS_PER_MS};
        vm = (struct virtual_machine){.now = VIRTUAL_START, .client = {&stop, 1}};
        CHECK(is_close(sleep_until_wall(START, BEFORE) - VIRTUAL_START, WAIT));
        CHECK(begin < BEFORE || vm.now >= stop.end);
    }
}

/* The rehearsal must not make the client late for a common start. */
static void test_a_rehearsal_where_sleeps_end_very_late(void)
{
    static const uint64_t late[] = {1000000, 3000000, 3000000, 1000000, 3000000};
    for (uint64_t until = 5 * NS_PER_MS; until < 50 * NS_PER_MS; until += NS_PER_MS / 7) {
        struct pacer pacer = {.mode = PACING_HYBRID, .spin = SPIN_CHEAP_NS, .period = 200000};
        vm = (struct virtual_machine){.now = VIRTUAL_START, .late = late, .late_count = COUNT_OF(late)};
        pacer_rehearse(&pacer, VIRTUAL_START + until);
        CHECK(vm.now <= VIRTUAL_START + until && vm.sleeps > 0);
    }
}

/* The kernel begins to stamp at this time. Returns the number of PINGs until the client has seen a stamp or given up. */
static uint64_t pings_until_stamped(uint64_t unstamped)
{
    static uint64_t services[4000], replies[4000], parts[4000];
    struct settings settings = default_settings;
    struct failure failure = {0};
    struct conn c = {.fd = FIRST_FD, .reader = conn_reader(), .stamped = true};
    vm = (struct virtual_machine){.now = VIRTUAL_START,
                                  .wakeup = 5000,
                                  .services = services,
                                  .service_count = COUNT_OF(services),
                                  .reply = "+PONG\r\n",
                                  .reply_size = 7,
                                  .unstamped = unstamped};
    vm.conns[0] = (struct virtual_connection){.replies = replies, .parts = parts};
    CHECK(conn_await_stamp(&c, &settings, &failure) && failure.exit_code == EXIT_OK);
    CHECK(c.stamp_seen == (unstamped <= vm.now));
    free(vm.sends.list);
    free(vm.reads.list);
    free(vm.looks.list);
    conn_close(&c);
    return vm.served;
}

/* The kernel switches stamps on in the background, and a short run on a busy machine had none. */
static void test_the_client_waits_for_the_first_time_stamp(void)
{
    CHECK(pings_until_stamped(0) == 1);
    CHECK(pings_until_stamped(VIRTUAL_START + 300 * NS_PER_MS) > 250 && vm.now < VIRTUAL_START + 302 * NS_PER_MS);
    CHECK(pings_until_stamped(NEVER) > 1 && vm.now < VIRTUAL_START + seconds_to_ns(STAMP_WAIT) + 2 * NS_PER_MS);
}

TEST_MAIN(TEST(test_the_client_waits_for_the_first_time_stamp), TEST(test_a_clock_that_nobody_sets),
          TEST(test_a_clock_that_is_set_while_waiting), TEST(test_a_clock_that_is_set_beyond_the_start),
          TEST(test_a_clock_that_is_set_in_the_last_tenth_of_a_second),
          TEST(test_a_client_that_is_stopped_while_it_reads_the_clocks),
          TEST(test_a_client_that_is_stopped_across_the_start), TEST(test_a_rehearsal_where_sleeps_end_very_late))
