/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "test.h"

#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "load.h"
#include "signals.h"

uint64_t choose_seed(const struct settings *s)
{
    uint64_t seed = 0;
    if (s->seed >= 0)
        return (uint64_t)s->seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid();
    return seed >> 11; /* 53 bits: any JSON reader holds it exactly, and --seed accepts it */
}

struct values test_values(const struct settings *s, uint64_t seed, uint64_t phase)
{
    return values_of(byte_rng_seeded(seed, phase), (size_t)s->value_size, s->compressibility);
}

/* The time after which nothing is sent; NEVER if only the number of requests ends the test. On a
 * schedule --duration sets that number; all of these requests are sent, however late. */
static uint64_t stop_time(const struct settings *s, uint64_t start)
{
    uint64_t stop = NEVER;
    if (s->max_seconds > 0)
        stop = start + seconds_to_ns(s->max_seconds);
    if (s->pacing == PACING_NONE && s->duration > 0)
        stop = min_u64(stop, start + seconds_to_ns(s->duration));
    return stop;
}

/* True if a run ended only because --max-seconds were over. In a closed loop --duration may end it as
 * planned. */
static bool was_cut_off(const struct exchange *x)
{
    const struct settings *s = x->settings;
    bool requests_left = x->planned == 0 || x->issued < x->planned;
    bool duration_ended_it = s->pacing == PACING_NONE && s->duration > 0 && s->duration <= s->max_seconds;
    return s->max_seconds > 0 && requests_left && !duration_ended_it;
}

static uint64_t pacer_spin(const struct settings *s)
{
    switch ((enum pacing)s->pacing) {
    case PACING_HYBRID: /* pacer_rehearse() finds out, if there is time to */
        return max_u64((uint64_t)s->spin_us * NS_PER_US, SPIN_CHEAP_NS);
    case PACING_SPIN:
        return NEVER;
    default:
        return 0;
    }
}

static uint64_t windows_start; /* by the wall clock */

static void write_window(const struct windows *w)
{
    if (!report_window(stdout, w, windows_start))
        interrupted = SIGTERM; /* nobody reads it; report() says so */
}

void test_plan(struct test_result *t, const struct settings *s, uint64_t seed, struct failure *f)
{
    static struct chooser chooser;
    struct exchange *x = &t->exchange;
    x->settings = s;
    load_reset(x);
    chooser_init(&chooser, seed, (uint64_t)s->key_count, (enum pattern)s->pattern, s->influence, (int)s->read_mix);
    t->initial = chooser;
    struct values ring = x->values;
    x->chooser = &chooser;
    x->values = test_values(s, seed, 1);
    x->values.ahead = ring.ahead;
    x->values.room = ring.room;
    x->name = "test";
    x->planned = planned_requests(s);
    x->measurement = t->measurement;
    x->failure = f;
    x->pacer = (struct pacer){.mode = (enum pacing)s->pacing,
                              .spin = pacer_spin(s),
                              .spin_min = (uint64_t)s->spin_us * NS_PER_US,
                              .period = 1e9L / (long double)s->rate,
                              .arrivals = (enum arrivals)s->arrivals};
    rng_seed(&x->pacer.rng, seed, STREAM_ARRIVALS);
}

void test_perform(struct test_result *t, struct outcome *o, uint64_t start)
{
    struct exchange *x = &t->exchange;
    if (!realtime_begin(&o->health.realtime, x->settings, x->failure)) /* it was possible when the program began */
        return;
    if (o->health.realtime.got && x->pacer.mode == PACING_HYBRID) {
        x->pacer.mode = PACING_SLEEP;
        x->pacer.spin = 0;
    }
    pacer_rehearse(&x->pacer, start == 0 ? NEVER : start);
    o->health.hybrid = x->pacer.mode == PACING_HYBRID ? &x->pacer : NULL;
    o->health.first = health_now(); /* after the wait, which would lower the share of CPU time */
    x->pacer.start =
        start == 0 ? now_ns() : start; /* a client that is late for a common start counts that as its own */
    x->stop_at = min_u64(stop_time(x->settings, x->pacer.start), x->end_at == 0 ? NEVER : x->end_at);
    if (exchange_is_paced(x))
        x->pacer.start += (uint64_t)((double)x->pacer.period * x->settings->stagger);
    else
        sleep_until(CLOCK_MONOTONIC, x->pacer.start);
    if (t->measurement->windows != NULL) {
        t->measurement->windows->write = write_window;
        x->may_be_stopped = true;
        windows_start = x->pacer.start + wall_offset();
    }
    uint64_t offset_before = o->fixed_offset != 0 ? o->fixed_offset : wall_offset();
    bool complete = load_run(x);
    uint64_t offset_after = o->fixed_offset != 0 ? o->fixed_offset : wall_offset();
    o->health.last = health_now();
    realtime_end(&o->health.realtime);
    o->health.measured = true;
    t->started = x->sent > 0 ? x->first_sent + offset_before : 0;
    t->finished = x->last_reply > 0 ? x->last_reply + offset_after : 0;
    t->complete = complete;
    t->cut_off = x->failure->exit_code == EXIT_OK && was_cut_off(x);
    if (complete)
        (void)exchange_fail_on_errors(x);
}
