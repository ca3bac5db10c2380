/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The file of a schedule: what it sets, what it leaves as it was, and what is refused. */
#define _GNU_SOURCE
#include "solotest/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "solotest/pacer.h"

static bool parse(struct schedule *plan, const char *text, struct failure *f)
{
    char *copy = strdup(text); /* alone, so that a read beyond it is found */
    *f = (struct failure){0};
    bool parsed = schedule_parse(plan, &default_settings, "FILE", copy, f);
    free(copy);
    return parsed;
}

static void test_what_a_line_sets(void)
{
    struct schedule plan;
    struct failure f;
    CHECK(parse(&plan,
                "solotest-schedule 1\nrelease_within 120\n"
                "phase i0-r100.warmup_1 at=0 requests=5 rate=2.5 influence=-3 read_mix=70 max_seconds=10.25 seed=123 "
                "arrivals=jitter\nphase b at=10.5 requests=7\n",
                &f));
    const struct settings *a = &plan.phases[0].settings, *b = &plan.phases[1].settings;
    CHECK(plan.count == 2 && (int)plan.release_within == 120);
    CHECK(strcmp(plan.phases[0].name, "i0-r100.warmup_1") == 0 && plan.phases[0].at == 0);
    CHECK(a->requests == 5 && (int)(a->rate * 2) == 5 && (int)a->influence == -3 && a->read_mix == 70);
    CHECK((int)(a->max_seconds * 4) == 41 && a->seed == 123 && a->arrivals == ARRIVALS_JITTER);
    CHECK(plan.phases[1].at == UINT64_C(10500000000) && b->requests == 7 && b->seed == -1);
    CHECK(b->read_mix == default_settings.read_mix && b->arrivals == default_settings.arrivals && b->max_seconds < 0);
    schedule_free(&plan);
}

static void test_what_is_refused(void)
{
    static const char *const lines[] = {"phase",
                                        "phase  ",
                                        "phase a",
                                        "phase a at",
                                        "phase a at= requests=1",
                                        "phase a at=-1 requests=1",
                                        "phase a at=1 requests=1 rate=0",
                                        "phase a at=1 requests=1000000000000 rate=0.001",
                                        "phase a at=nan requests=1",
                                        "phase a at=1 requests=1 arrivals=never",
                                        "phase a/b at=1 requests=1",
                                        "x"};
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        struct schedule plan;
        struct failure f;
        char text[256];
        (void)snprintf(text, sizeof text, "solotest-schedule 1\nrelease_within 1\nphase z at=0 requests=1\n%s\n",
                       lines[i]);
        CHECK(!parse(&plan, text, &f) && f.exit_code == EXIT_USAGE && strncmp(f.message, "FILE:4: ", 8) == 0);
        schedule_free(&plan);
    }
}

TEST_MAIN(TEST(test_what_a_line_sets), TEST(test_what_is_refused))
