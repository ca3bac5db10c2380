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
    CHECK(vm.now >= VIRTUAL_START + after || wall_at(vm.now) <= START - BEFORE + vm.wakeup + CALL_NS);
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

TEST_MAIN(
    TEST(test_a_clock_that_nobody_sets),
    TEST(test_a_clock_that_is_set_while_waiting),
    TEST(test_a_clock_that_is_set_beyond_the_start),
    TEST(test_a_clock_that_is_set_in_the_last_tenth_of_a_second))
