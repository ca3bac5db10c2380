/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Every request that was due in a window is in it exactly once, answered or not, whatever stops server and client. */
#define _GNU_SOURCE
#include <math.h>

#include "../unit/check.h"
#include "virtual.h"

enum { REQUESTS = 4000, STOPS = 12, PLANS_EACH = 60, MOST_WINDOWS = 200 };
#define LENGTH (100 * NS_PER_MS)

static uint64_t services[REQUESTS], counts[MOST_WINDOWS], unanswered[MOST_WINDOWS], longest[MOST_WINDOWS];
static uint64_t written, closed_at[MOST_WINDOWS];

static void note(const struct windows *w)
{
    const struct window *oldest = &w->open[w->first % 2];
    if (w->first != written || written == MOST_WINDOWS)
        abort();
    CHECK(oldest->intended.count == oldest->punctual.count);
    CHECK(oldest->server.count + oldest->unanswered <= oldest->intended.count);
    counts[written] = oldest->intended.count;
    unanswered[written] = oldest->unanswered;
    longest[written] = oldest->intended.max;
    closed_at[written++] = vm.now;
}

static struct stops random_stops(struct rng *r, struct stop *list)
{
    uint64_t at = VIRTUAL_START;
    for (size_t i = 0; i < STOPS; i++) {
        at += 20 * NS_PER_MS + rng_next(r) % (400 * NS_PER_MS);
        uint64_t length = (uint64_t)(2e6 * pow(300, rng_unit(r)));
        list[i] = (struct stop){at, at + length};
        at += length;
    }
    return (struct stops){list, STOPS};
}

static void check_windows(const struct virtual_run *run)
{
    uint64_t start = run->exchange.pacer.start, due[MOST_WINDOWS] = {0};
    for (size_t i = 0; i < REQUESTS; i++)
        if ((run->due[i] - start) / LENGTH < MOST_WINDOWS)
            due[(run->due[i] - start) / LENGTH]++;
    CHECK(written >= REQUESTS / 100 - 2);
    for (uint64_t i = 0; i < written; i++) {
        uint64_t end = start + (i + 1) * LENGTH;
        CHECK(counts[i] == due[i]);
        CHECK(closed_at[i] >= end);
        CHECK(unanswered[i] == 0 || longest[i] >= LENGTH);
    }
}

static void test_each_request_is_in_its_window_once(void)
{
    static const size_t slots[][2] = {{1, 1}, {1, 8}, {4, 4}};
    struct stop client[STOPS], server[STOPS];
    struct rng r;
    uint64_t missing = 0;
    rng_seed(&r, 7, 0);
    for (size_t i = 0; i < REQUESTS; i++)
        services[i] = 50000;
    for (size_t plan = 0; plan < PLANS_EACH; plan++) {
        struct virtual_run run;
        struct schedule_of_load s = {.connections = slots[plan % 3][0],
                                     .pipeline = slots[plan % 3][1],
                                     .requests = REQUESTS,
                                     .period = NS_PER_MS,
                                     .pacing = (enum pacing)(plan / 3 % 3),
                                     .seed = plan,
                                     .windows = LENGTH / 1e9,
                                     .write = note};
        written = 0;
        vm = (struct virtual_machine){
            .services = services, .service_count = REQUESTS, .wakeup = 5000, .server = random_stops(&r, server)};
        if (plan % 2 == 0)
            vm.client = random_stops(&r, client);
        virtual_run(&run, &s);
        CHECK(run.complete && run.exchange.ok == REQUESTS);
        check_windows(&run);
        for (uint64_t i = 0; i < written; i++)
            missing += unanswered[i];
        virtual_end(&run);
    }
    CHECK(missing > 0);
}

TEST_MAIN(TEST(test_each_request_is_in_its_window_once))
