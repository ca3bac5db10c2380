/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The start of a schedule is turned into the monotonic clock once, and a phase ends before the next one begins, whatever
 * the server does. */
#define _GNU_SOURCE
#include "../unit/check.h"
#include "solotest/follow.h"
#include "virtual.h"

enum { REQUESTS = 1000 };

static void test_a_clock_that_is_set_later_shifts_nothing(void)
{
    uint64_t wall = 0, offset = 0, wanted = VIRTUAL_START + 3 * NS_PER_S;
    char text[64];
    (void)snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64 "\n", (VIRTUAL_WALL + wanted) / NS_PER_S,
                   (VIRTUAL_WALL + wanted) % NS_PER_S / 1000);
    CHECK(start_parse(text, &wall));
    vm = (struct virtual_machine){.now = VIRTUAL_START, .step = {VIRTUAL_START + NS_PER_S, 3600 * (int64_t)NS_PER_S}};
    uint64_t start = start_on_monotonic(wall, &offset);
    CHECK(since(start, wanted) < 2 * NS_PER_US && since(wanted, start) < 2 * NS_PER_US);
    vm.now = VIRTUAL_START + 2 * NS_PER_S;
    CHECK(since(start + offset, wall) == 0 &&
          since(wall, start + offset) == 0); /* stamps go on as if nobody had set it */
    CHECK(wall_offset() > offset + 3599 * NS_PER_S);
}

static void test_a_start_that_is_no_time(void)
{
    static const char *const bad[] = {"", "\n", "1764205000.5", "soon\n", "-1\n", "1e300\n", "0\n", "inf\n"};
    uint64_t wall = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!start_parse(bad[i], &wall) && wall == 7);
    CHECK(start_parse("1764205000.5\n", &wall) && wall == UINT64_C(1764205000500000000));
}

/* The server hangs from the middle of the phase on, with requests in flight on each of this many connections. */
static void hang(size_t connections, size_t pipeline, enum pacing pacing)
{
    static uint64_t services[REQUESTS];
    struct virtual_run run;
    struct stop stall = {VIRTUAL_START + 500 * NS_PER_MS, VIRTUAL_START + 3600 * NS_PER_S};
    struct schedule_of_load s = {.connections = connections,
                                 .pipeline = pipeline,
                                 .requests = REQUESTS,
                                 .period = NS_PER_MS,
                                 .pacing = pacing,
                                 .end_at = VIRTUAL_START + 1200 * NS_PER_MS};
    for (size_t i = 0; i < REQUESTS; i++)
        services[i] = 50000;
    vm = (struct virtual_machine){
        .server = {&stall, 1}, .services = services, .service_count = REQUESTS, .wakeup = 5000};
    virtual_run(&run, &s);
    const struct exchange *x = &run.exchange;
    CHECK(!run.complete && run.failure.exit_code == EXIT_OK);
    CHECK(vm.now >= s.end_at && vm.now < s.end_at + NS_PER_MS);
    CHECK(x->errors.used == 1 && strcmp(x->errors.kinds[0].kind, "unanswered") == 0);
    CHECK(x->sent == x->ok + x->errors.total && x->sent + x->not_sent == REQUESTS);
    CHECK(run.measurement->lost == REQUESTS - x->ok && run.measurement->intended.count == REQUESTS);
    CHECK(run.measurement->intended.max > 690 * NS_PER_MS && run.measurement->intended.max < 710 * NS_PER_MS);
    virtual_end(&run);
}

static void test_a_server_that_hangs_does_not_delay_the_next_phase(void)
{
    for (enum pacing pacing = PACING_HYBRID; pacing <= PACING_SPIN; pacing++) {
        hang(1, 1, pacing);
        hang(1, 16, pacing);
        hang(8, 1, pacing);
    }
}

TEST_MAIN(TEST(test_a_clock_that_is_set_later_shifts_nothing), TEST(test_a_start_that_is_no_time),
          TEST(test_a_server_that_hangs_does_not_delay_the_next_phase))
