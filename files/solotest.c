/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * solotest - measure the latency of one Redis under a fixed, open schedule of requests.
 *
 * Read on if you want to decide whether to trust its numbers. This file holds the phases of a run
 * and main(); each module in solotest/ hides one decision, and most are tested without a Redis
 * (tests/programs/solotest/unit/):
 *
 *   one phase           test
 *   which requests      random, chooser, hot_set
 *   when, and how long  clock, pacer, latency
 *   to and from Redis   network, transport, tls, connection, resp, requests, reply, replies, exchange, load, server, ownership
 *   what is kept        histogram, series, measurement, errors
 *   several phases      schedule, follow, windows, watch
 *   around it           options, process, realtime, signals, health, failure, json, report, numbers
 *
 * The latencies of a request are defined in one place, slot_complete() in latency.c. The rest
 * exists to call it with correct time stamps.
 */
// Build: cc -std=c11 -O2 -flto -pthread files/solotest.c files/solotest/*.c -lhiredis -lm
// Add -static for a program that runs on other machines, and -DSOLOTEST_TLS -lssl -lcrypto for --tls.
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "solotest/chooser.h"
#include "solotest/clock.h"
#include "solotest/failure.h"
#include "solotest/follow.h"
#include "solotest/health.h"
#include "solotest/hot_set.h"
#include "solotest/load.h"
#include "solotest/measurement.h"
#include "solotest/options.h"
#include "solotest/ownership.h"
#include "solotest/process.h"
#include "solotest/random.h"
#include "solotest/realtime.h"
#include "solotest/report.h"
#include "solotest/server.h"
#include "solotest/schedule.h"
#include "solotest/signals.h"
#include "solotest/test.h"
#include "solotest/watch.h"
#include "solotest/tls.h"

/* Waits until shortly before `start_at` and returns the monotonic time of the start; the pacer then waits for the rest. 0 if
 * the start is now: none was asked for, or it is over. */
static uint64_t wait_for_start(double start_at)
{
    if (start_at < 0)
        return 0;
    uint64_t wanted = seconds_to_ns(start_at);
    uint64_t now = clock_ns(CLOCK_REALTIME);
    if (now > wanted) {
        (void)fprintf(stderr, "solotest: warning: --start-at was %.3f seconds ago: starting now\n",
                      (double)(now - wanted) / 1e9);
        return 0;
    }
    return sleep_until_wall(wanted, 100 * NS_PER_MS);
}

static bool check_dbsize(struct conn *c, const struct settings *s, struct fill_result *r, struct failure *f)
{
    if (!server_count_keys(c, s, &r->dbsize, f))
        return false;
    if (r->dbsize != s->key_count)
        return fail(f, EXIT_REQUESTS, "dbsize", "DBSIZE is %" PRId64 " after filling %" PRId64 " keys", r->dbsize,
                    s->key_count);
    return true;
}

#define REDIS_READS 16384 /* bytes that Redis reads at once from a connection */

/* Several connections, since Redis then has more to do each time that it looks at them. On each as many keys are
 * in flight as Redis reads at once. Large values keep it busy from one connection, and would need a buffer for each. */
static size_t fill_connections(const struct settings *s)
{
    return s->value_size <= REDIS_READS ? 8 : 1;
}

static size_t fill_keys_in_flight(const struct settings *s)
{
    if (fill_connections(s) == 1)
        return 64;
    return (size_t)max_u64(8, min_u64(64, REDIS_READS / (uint64_t)s->value_size));
}

/* An MSET saves Redis work for each key. Two in flight, since one travels while Redis works on the other. */
static size_t fill_keys_each(const struct settings *s)
{
    return (size_t)max_u64(1, min_u64(fill_keys_in_flight(s), REDIS_READS / (uint64_t)s->value_size) / 2);
}

/* Removes what an earlier fill wrote, or whatever there is if the user did not ask for protection. */
static bool empty_redis(struct conn *c, const struct settings *s, struct fill_result *r, struct failure *f)
{
    struct holdings own;
    if (s->protect && !ownership_prove(c, s, &own, f))
        return false;
    uint64_t start = now_ns();
    if (!(s->protect ? ownership_delete(c, s, &own, f) : server_flush(c, s, f)) || !ownership_claim(c, s, f))
        return false;
    r->flush_seconds = (double)(now_ns() - start) / 1e9;
    return true;
}

static bool fill_keys(struct exchange *x, struct fill_result *r)
{
    struct conn *c = &x->conns[0];
    if (!empty_redis(c, x->settings, r, x->failure))
        return false;
    x->pacer.start = now_ns();
    r->done = true;
    bool complete = load_run(x);
    uint64_t offset = wall_offset();
    r->keys = x->ok + x->more_keys;
    r->started = x->first_sent + offset;
    r->finished = max_u64(x->last_reply, x->first_sent) + offset;
    r->seconds = (double)(r->finished - r->started) / 1e9;
    return exchange_fail_on_errors(x) && complete && check_dbsize(c, x->settings, r, x->failure);
}

static void fill_phase(const struct settings *s, const struct credentials *who, struct outcome *o)
{
    struct chooser chooser;
    chooser_init(&chooser, o->seed, (uint64_t)s->key_count, PATTERN_SEQUENTIAL, 0, READ_MIX_ONLY_SETS);
    struct exchange x = {.settings = s,
                         .chooser = &chooser,
                         .values = test_values(s, o->seed, 0),
                         .name = "fill",
                         .planned = (uint64_t)s->key_count,
                         .stop_at = NEVER,
                         .stop_on_error = true,
                         .keys_each = (uint32_t)fill_keys_each(s),
                         .pacer = {.mode = PACING_NONE},
                         .failure = &o->failure};
    o->fill.dbsize = -1;
    if (load_open(&x, fill_connections(s), fill_keys_in_flight(s) / x.keys_each, who)) {
        sleep_until(CLOCK_MONOTONIC, wait_for_start(s->start_at));
        o->health.first = health_now();
        if (interrupted)
            (void)fail_interrupted(&o->failure);
        else
            (void)fill_keys(&x, &o->fill);
        o->health.last = health_now();
        o->health.measured = true;
    }
    load_close(&x);
}

static void test_run(struct test_result *t, struct outcome *o)
{
    const struct settings *s = t->exchange.settings;
    struct measurement *m = t->measurement;
    o->health.memory_locked = lock_memory();
    if (!o->health.memory_locked && m->raw != NULL)
        memset(m->raw, 0, (size_t)m->raw_size * sizeof *m->raw); /* load its pages at least */
    t->ready = clock_ns(CLOCK_REALTIME);
    test_perform(t, o, wait_for_start(s->fill ? -1 : s->start_at));
}

static void test_phase(const struct settings *s, const struct credentials *who, struct outcome *o)
{
    struct test_result *t = &o->test;
    t->measurement = measurement_create(s, &o->failure);
    if (t->measurement == NULL)
        return;
    test_plan(t, s, o->seed, &o->failure);
    t->done = load_open(&t->exchange, (size_t)s->connections, (size_t)s->pipeline, who) &&
              (s->read_mix >= 100 || ownership_extend(&t->exchange.conns[0], s, &o->failure));
    if (t->done) {
        test_run(t, o);
        if (s->windows > 0)
            o->ended = t->exchange.stopped == 0 ? "done" : watch_ended() ? "lease" : "signal";
        measurement_finish(t->measurement, &t->exchange.bound);
    }
    load_close(&t->exchange);
}

/* Runs the phases, then writes the raw samples. */
static void perform(const struct settings *s, struct credentials *who, struct outcome *o)
{
    FILE *raw = NULL;
    if (s->raw_file != NULL && (raw = create_file(s->raw_file)) == NULL)
        (void)(interrupted
                   ? fail_interrupted(&o->failure)
                   : fail(&o->failure, EXIT_OUTPUT, "output", "cannot write %s: %s", s->raw_file, strerror(errno)));
    if (o->failure.exit_code == EXIT_OK)
        (void)server_look(s, who, &o->before, &o->failure);
    if (s->fill && o->failure.exit_code == EXIT_OK)
        fill_phase(s, who, o);
    if (s->test && o->failure.exit_code == EXIT_OK)
        test_phase(s, who, o);
    if (o->failure.exit_code == EXIT_OK && s->json && (s->fill || s->test)) {
        struct failure too_late = {0}; /* the test is over, so its result stands */
        (void)server_look(s, who, &o->after, &too_late);
    }
    explicit_bzero(who->password, sizeof who->password);
    if (s->json && o->test.done) /* takes seconds, and the figures of the server are of the test's end */
        hot_set_measure(&o->test.hot, &o->test.initial, o->test.exchange.sent, o->test.measurement->series.slots[0],
                        SERIES_POINTS * HIST_SLOTS);
    if (interrupted)
        (void)fail_interrupted(&o->failure);
    if (raw == NULL)
        return;
    bool written = !o->test.done || measurement_write_raw(o->test.measurement, raw);
    written = fclose(raw) == 0 && written;
    if (interrupted)
        (void)fail_interrupted(&o->failure);
    else if (!written)
        (void)fail(&o->failure, EXIT_OUTPUT, "output", "cannot write %s: %s", s->raw_file, strerror(errno));
}

/* So that --realtime required is refused before anything is connected. */
static bool try_realtime(const struct settings *s, struct failure *f)
{
    struct realtime_state r;
    bool possible = !s->test || realtime_begin(&r, s, f);
    if (s->test)
        realtime_end(&r);
    return possible;
}

int main(int argc, char **argv)
{
    static struct outcome o;
    static struct credentials who;
    struct schedule plan = {0};
    struct settings s;
    occupy_standard_streams();
    if (!parse_arguments(&s, argc, argv, &o.failure) ||
        (!s.help && !s.version &&
         ((s.schedule != NULL && !schedule_read(&plan, &s, &o.failure)) || !read_credentials(&who, &s, &o.failure) ||
          !tls_prepare(&s, &o.failure) || !pin_to_cpu(&s, &o.failure)))) {
        (void)fprintf(stderr, "solotest: %s\n", o.failure.message);
        schedule_free(&plan);
        return o.failure.exit_code;
    }
    if (s.help) {
        print_help();
    } else if (s.version) {
        print_version();
    } else {
        prepare_process();
        if (!try_realtime(&s, &o.failure)) {
            (void)fprintf(stderr, "solotest: %s\n", o.failure.message);
            schedule_free(&plan);
            return o.failure.exit_code;
        }
        o.seed = choose_seed(&s);
        if (s.schedule != NULL)
            return follow(&s, &plan, &who);
        if (s.lease == NULL || watch_lease(s.lease, &o.failure))
            perform(&s, &who, &o);
    }
    if (s.help || s.version)
        return fflush(stdout) == 0 ? EXIT_OK : EXIT_OUTPUT;
    ignore_signals();
    report(&s, &o);
    measurement_free(o.test.measurement);
    return o.failure.exit_code;
}
