/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Server and client are stopped by plans on the virtual machine, and each request's latencies must be what the plan
 * makes them. test_truth.py does the same to real processes. */
#define _GNU_SOURCE
#include <math.h>

#include "../unit/check.h"
#include "second.h"
#include "virtual.h"

enum { REQUESTS = 4000, STOPS = 10, WORK_NS = 50000, PLANS_EACH = 40 };
#define PERIOD NS_PER_MS
#define FIRST_DUE (VIRTUAL_START + NS_PER_MS)

static uint64_t services[REQUESTS], truth[REQUESTS];

/* What the system calls of this request, and of those that queued up before it, may add. */
static uint64_t slack(uint64_t queued)
{
    return 20000 + 3000 * queued;
}

static bool is_close(uint64_t value, uint64_t true_value, uint64_t queued)
{
    return value + CLOCK_NS >= true_value && value <= true_value + slack(queued);
}

static uint64_t queued_before(const struct virtual_run *run, size_t i, uint64_t queued)
{
    return i > 0 && run->due[i - 1] + truth[i - 1] + slack(queued) > run->due[i] ? queued + 1 : 0;
}

/* Stops of 2 to 200 ms, at random times of the schedule, with at least 20 ms in between. */
static struct stops random_stops(struct rng *r, struct stop *list)
{
    uint64_t at = FIRST_DUE;
    for (size_t i = 0; i < STOPS; i++) {
        at += 20 * NS_PER_MS + rng_next(r) % (120 * NS_PER_MS);
        uint64_t length = (uint64_t)(2e6 * pow(100, rng_unit(r)));
        list[i] = (struct stop){at, at + length};
        at += length;
    }
    return (struct stops){list, STOPS};
}

static struct virtual_run run_plan(struct stops client, struct stops server, enum pacing pacing, enum arrivals arrivals)
{
    struct virtual_run run;
    struct schedule_of_load s = {.connections = 1,
                                 .pipeline = 1,
                                 .requests = REQUESTS,
                                 .period = PERIOD,
                                 .pacing = pacing,
                                 .arrivals = arrivals,
                                 .seed = 1};
    for (size_t i = 0; i < REQUESTS; i++)
        services[i] = WORK_NS;
    vm = (struct virtual_machine){.client = client, .server = server, .services = services, .service_count = REQUESTS};
    virtual_run(&run, &s);
    CHECK(run.complete && run.measurement->raw_used == REQUESTS && run.measurement->lost == 0);
    check_second(&run);
    return run;
}

static void test_stalls_of_the_server_are_in_response(void)
{
    struct stop list[STOPS];
    struct rng r;
    rng_seed(&r, 1, 0);
    for (int plan = 0; plan < PLANS_EACH; plan++) {
        struct virtual_run run =
            run_plan((struct stops){0}, random_stops(&r, list), (enum pacing)(plan % 3), (enum arrivals)(plan / 3 % 3));
        ideal_latencies(&run, REQUESTS, truth);
        uint64_t queued = 0;
        for (size_t i = 0; i < REQUESTS; i++) {
            const struct latencies *l = &run.measurement->raw[i];
            queued = queued_before(&run, i, queued);
            CHECK(is_close(l->response, truth[i], queued) && l->response + l->lateness == l->intended);
            CHECK(l->lateness <= slack(queued));
        }
        /* A client without a schedule sees each stall once. */
        CHECK(hist_percentile(&run.measurement->service, 990) < 100000);
        virtual_end(&run);
    }
}

/* When a client that is stopped at these times sends and reads each request. */
static void stopped_latencies(const struct virtual_run *run, const struct stops *stops)
{
    uint64_t free_at = 0;
    for (size_t i = 0; i < REQUESTS; i++) {
        uint64_t sent = work_until(stops, max_u64(run->due[i], free_at), SEND_NS);
        free_at = work_until(stops, sent + WORK_NS, 0);
        truth[i] = free_at - run->due[i];
    }
}

static void test_stops_of_the_client_are_in_intended_and_lateness(void)
{
    struct stop list[STOPS];
    struct rng r;
    int sending = 0;
    rng_seed(&r, 2, 0);
    for (int plan = 0; plan < PLANS_EACH; plan++) {
        struct stops stops = random_stops(&r, list);
        struct virtual_run run =
            run_plan(stops, (struct stops){0}, (enum pacing)(plan % 3), (enum arrivals)(plan / 3 % 3));
        uint64_t queued = 0, longest = 0;
        bool while_sending = false;
        stopped_latencies(&run, &stops);
        for (size_t i = 0; i < REQUESTS; i++) {
            const struct latencies *l = &run.measurement->raw[i];
            queued = queued_before(&run, i, queued);
            CHECK(is_close(l->intended, truth[i], queued) && l->response + l->lateness == l->intended);
            while_sending = while_sending || l->service - l->wakeup > OWN_DELAY_NS;
            longest = max_u64(longest, l->response);
            CHECK(l->server <= l->intended);
        }
        /* Waiting in the socket counts as the server's up to 1 ms, and with Poisson arrivals there are queues. A client that
         * is stopped after it read the clock and before the kernel has the request blames the server: only the
         * lower bound knows better. */
        sending += while_sending;
        CHECK(while_sending || longest <= OWN_DELAY_NS + 20 * WORK_NS);
        CHECK(hist_percentile(&run.measurement->server, 990) < NS_PER_MS);
        virtual_end(&run);
    }
    CHECK(sending <= 2);
}

/* The client is stopped while every reply is under way. */
static void test_a_reply_that_waits_for_a_stopped_client_is_the_clients(void)
{
    struct stop list[STOPS];
    for (size_t i = 0; i < STOPS; i++) {
        uint64_t sent = FIRST_DUE + (100 + 300 * i) * PERIOD + 20000;
        list[i] = (struct stop){sent, sent + 50 * NS_PER_MS};
    }
    struct virtual_run run = run_plan((struct stops){list, STOPS}, (struct stops){0}, PACING_SPIN, ARRIVALS_PERIODIC);
    for (size_t i = 0; i < STOPS; i++) {
        const struct latencies *l = &run.measurement->raw[100 + 300 * i];
        CHECK(l->service > 49 * NS_PER_MS && l->wakeup > 49 * NS_PER_MS && l->lateness > 49 * NS_PER_MS);
        CHECK(l->response < 100000 && l->server < 100000);
    }
    virtual_end(&run);
}

enum { SHORT_PERIOD = 50000, SHORT_WORK = 20000 };

/* A schedule of 20,000 a second whose client is away for 25 ms, four times. The server is busy for 40 % of the time. */
static struct virtual_run stopped_in_a_rush(size_t connections, size_t pipeline)
{
    static struct stop list[4];
    struct virtual_run run;
    struct schedule_of_load s = {.connections = connections,
                                 .pipeline = pipeline,
                                 .requests = REQUESTS,
                                 .period = SHORT_PERIOD,
                                 .pacing = PACING_SLEEP,
                                 .seed = 1};
    for (size_t i = 0; i < REQUESTS; i++)
        services[i] = SHORT_WORK;
    for (size_t i = 0; i < COUNT_OF(list); i++) {
        uint64_t begin = FIRST_DUE + (300 + 900 * i) * SHORT_PERIOD - 10000; /* nothing is in flight */
        list[i] = (struct stop){begin, begin + 25 * NS_PER_MS};
    }
    vm = (struct virtual_machine){.client = {list, COUNT_OF(list)}, .services = services, .service_count = REQUESTS};
    virtual_run(&run, &s);
    CHECK(run.complete && run.measurement->raw_used == REQUESTS);
    check_second(&run);
    return run;
}

/* 8 x 16 requests at once are a queue that only the client made. */
static void test_many_slots_that_catch_up_do_not_blame_the_server(void)
{
    struct virtual_run run = stopped_in_a_rush(8, 16);
    CHECK(run.measurement->service.max > NS_PER_MS && run.measurement->intended.max > 24 * NS_PER_MS);
    CHECK(run.measurement->response.max < 4 * SHORT_PERIOD && run.measurement->server.max < 4 * SHORT_PERIOD);
    virtual_end(&run);
}

/* To send to 512 connections takes 2 ms. */
static void test_a_client_that_catches_up_reads_in_between(void)
{
    struct virtual_run run = stopped_in_a_rush(512, 1);
    CHECK(run.measurement->intended.max > 24 * NS_PER_MS);
    CHECK(run.measurement->wakeup.max < 300 * NS_PER_US);
    CHECK(run.measurement->response.max < 8 * SHORT_PERIOD);
    virtual_end(&run);
}

enum { MOMENT_REQUESTS = 60, MOMENT_STEP = 100, MOMENT_PERIODS = 3 };

/* The client is stopped for 3 ms, at each moment of three periods in turn. One of three requests is under way until the next
 * is due; the others are answered before the client reads again. Returns in how many moments a `response` holds
 * more of the stop than the client leaves in it. */
static size_t moments_charged_to_the_server(size_t connections, size_t pipeline, enum pacing pacing)
{
    size_t charged = 0, exceeded = 0;
    for (uint64_t moment = 0; moment < MOMENT_PERIODS * SHORT_PERIOD; moment += MOMENT_STEP) {
        uint64_t begin = FIRST_DUE + 20 * SHORT_PERIOD + moment;
        struct stop stop = {begin, begin + 3 * NS_PER_MS};
        struct virtual_run run;
        struct schedule_of_load s = {.connections = connections,
                                     .pipeline = pipeline,
                                     .requests = MOMENT_REQUESTS,
                                     .period = SHORT_PERIOD,
                                     .pacing = pacing,
                                     .seed = 1};
        for (size_t i = 0; i < MOMENT_REQUESTS; i++)
            services[i] = i % 3 == 0 ? 48000 : 500;
        vm = (struct virtual_machine){
            .client = {&stop, 1}, .services = services, .service_count = MOMENT_REQUESTS, .wakeup = 4000};
        virtual_run(&run, &s);
        CHECK(run.complete && run.measurement->raw_used == MOMENT_REQUESTS);
        check_second(&run);
        ideal_latencies(&run, MOMENT_REQUESTS, truth);
        for (size_t i = 0; i < MOMENT_REQUESTS; i++)
            exceeded += run.measurement->raw[i].server > truth[i] + CLOCK_NS;
        charged += run.measurement->response.max > OWN_DELAY_NS + 100000;
        virtual_end(&run);
    }
    CHECK(exceeded == 0);
    return charged;
}

/* With several slots it sends what is overdue while replies from before the stop wait for it: one read must not make the
 * time in between the server's. `response` cannot tell a stop between the reading of the clock and the kernel's taking
 * the request, see above. */
static void test_a_stop_at_any_moment_is_never_the_servers(void)
{
    static const size_t slots[][2] = {{1, 8}, {1, 64}, {4, 1}, {2, 8}};
    for (size_t i = 0; i < COUNT_OF(slots); i++)
        for (enum pacing pacing = PACING_HYBRID; pacing <= PACING_SPIN; pacing++)
            CHECK(moments_charged_to_the_server(slots[i][0], slots[i][1], pacing) <=
                  MOMENT_PERIODS * (SEND_NS + CLOCK_NS) / MOMENT_STEP);
}

TEST_MAIN(TEST(test_many_slots_that_catch_up_do_not_blame_the_server),
          TEST(test_a_client_that_catches_up_reads_in_between), TEST(test_a_stop_at_any_moment_is_never_the_servers),
          TEST(test_stalls_of_the_server_are_in_response), TEST(test_stops_of_the_client_are_in_intended_and_lateness),
          TEST(test_a_reply_that_waits_for_a_stopped_client_is_the_clients))
