/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "report.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <string.h>
#include <sys/auxv.h>

#include "clock.h"
#include "json.h"
#include "numbers.h"
#include "tls.h"

#define SOLOTEST_VERSION "1.0.0"

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
#define DOTTED(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
#define HIREDIS_VERSION DOTTED(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH)
#ifdef __clang__
#define COMPILER "clang " DOTTED(__clang_major__, __clang_minor__, __clang_patchlevel__)
#else
#define COMPILER "gcc " DOTTED(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__)
#endif

/* The kernel loads no dynamic linker for a static program. */
static bool is_static(void)
{
    return getauxval(AT_BASE) == 0;
}

void report_client(struct json *j)
{
    json_key(j, "client");
    json_open(j, "{");
    json_key_text(j, "name", "solotest");
    json_key_text(j, "version", SOLOTEST_VERSION);
    json_key_text(j, "hiredis", HIREDIS_VERSION);
    json_key_text(j, "tls", tls_library());
    json_key_text(j, "compiler", COMPILER);
    json_key_bool(j, "static", is_static());
    json_close(j, '}');
}

static void report_settings(struct json *j, const struct settings *s, uint64_t seed)
{
    bool paced = s->pacing != PACING_NONE;
    uint64_t planned = planned_requests(s);
    json_key(j, "settings");
    json_open(j, "{");
    json_key_text(j, "host", s->socket == NULL ? s->host : NULL);
    json_key_u64_if_given(j, "port", s->socket == NULL ? s->port : -1);
    json_key_text(j, "socket", s->socket);
    json_key_bool(j, "tls", s->tls);
    json_key_u64(j, "value_size", (uint64_t)s->value_size);
    json_key_u64(j, "key_count", (uint64_t)s->key_count);
    json_key_u64_if_given(j, "requests", planned > 0 ? (int64_t)planned : -1);
    json_key(j, "duration_s");
    if (s->duration < 0)
        json_raw(j, "null");
    else
        json_real(j, s->duration);
    json_key_real(j, "influence", s->influence);
    json_key_real(j, "rate", s->rate);
    json_key_real(j, "read_mix", (double)s->read_mix); /* may be negative */
    json_key_text(j, "pattern", pattern_names[s->pattern]);
    json_key_u64(j, "connections", (uint64_t)s->connections);
    json_key_u64(j, "pipeline", (uint64_t)s->pipeline);
    json_key_text(j, "pacing", pacing_names[s->pacing]);
    json_key_text(j, "arrivals", paced ? arrivals_names[s->arrivals] : NULL);
    json_key_u64_if_given(j, "spin_us", s->pacing == PACING_HYBRID ? s->spin_us : -1);
    json_key_epoch(j, "start_at", s->start_at < 0 ? 0 : seconds_to_ns(s->start_at));
    json_key_real(j, "stagger", paced ? s->stagger : 0);
    json_key_u64(j, "seed", seed);
    json_key_real(j, "compressibility", s->compressibility);
    json_key_u64_if_given(j, "cpu", s->cpu);
    json_key_real(j, "timeout_s", s->timeout);
    json_close(j, '}');
}

void report_error(struct json *j, const struct failure *f)
{
    json_key(j, "error");
    if (f->exit_code == EXIT_OK) {
        json_raw(j, "null");
    } else {
        json_open(j, "{");
        json_key_text(j, "kind", f->kind);
        json_key_text(j, "message", f->message);
        json_close(j, '}');
    }
    json_key_u64_if_given(j, "interrupted", f->exit_code > EXIT_SIGNAL ? f->exit_code - EXIT_SIGNAL : -1);
}

static void report_fill(struct json *j, const struct fill_result *r)
{
    json_key(j, "fill");
    if (!r->done) {
        json_raw(j, "null");
        return;
    }
    json_open(j, "{");
    json_key_u64(j, "keys", r->keys);
    json_key_real(j, "seconds", r->seconds);
    json_key_real(j, "keys_per_second", r->seconds > 0 ? (double)r->keys / r->seconds : 0);
    json_key_u64_if_given(j, "dbsize", r->dbsize);
    json_key_epoch(j, "started_at", r->started);
    json_key_epoch(j, "finished_at", r->finished);
    json_key_real(j, "flush_seconds", r->flush_seconds);
    json_close(j, '}');
}

void report_server(struct json *j, const char *name, const struct server_state *state)
{
    json_key(j, name);
    if (!state->known) {
        json_raw(j, "null");
        return;
    }
    json_open(j, "{");
    json_key_text(j, "redis_version", state->version);
    json_key_text(j, "valkey_version", state->valkey_version[0] != '\0' ? state->valkey_version : NULL);
    json_key_u64_if_given(j, "process_id", state->process_id);
    json_key_u64_if_given(j, "dbsize", state->dbsize);
    json_key_u64_if_given(j, "used_memory", state->used_memory);
    json_key_u64_if_given(j, "used_memory_rss", state->used_memory_rss);
    json_key_u64_if_given(j, "maxmemory", state->maxmemory);
    json_key_u64_if_given(j, "evicted_keys", state->evicted_keys);
    if (state->cpu_seconds >= 0)
        json_key_real(j, "cpu_s", state->cpu_seconds);
    else
        json_key_null(j, "cpu_s");
    json_close(j, '}');
}

static void report_histogram(struct json *j, const char *name, const struct histogram *h)
{
    static const struct {
        const char *name;
        unsigned permille;
    } percentiles[] = {{"p50_ns", 500}, {"p95_ns", 950}, {"p99_ns", 990}, {"p999_ns", 999}};
    bool empty = h->count == 0;
    json_key(j, name);
    json_open(j, "{");
    json_key_u64(j, "count", h->count);
    json_key(j, "sum_ns");
    json_wide(j, h->sum);
    json_key_u64_if_given(j, "min_ns", empty ? -1 : (int64_t)h->min);
    json_key_u64_if_given(j, "max_ns", empty ? -1 : (int64_t)h->max);
    for (size_t i = 0; i < COUNT_OF(percentiles); i++)
        json_key_u64_if_given(j, percentiles[i].name,
                              empty ? -1 : (int64_t)hist_percentile(h, percentiles[i].permille));
    json_key(j, "buckets");
    json_open(j, "[");
    for (size_t i = hist_index(h->min), end = hist_end(h); i < end; i++)
        if (h->slots[i] > 0) {
            json_wide(j, i);
            json_wide(j, h->slots[i]);
        }
    json_close(j, ']');
    json_close(j, '}');
}

static void report_requests(struct json *j, const struct exchange *x, const struct measurement *m)
{
    json_key(j, "requests");
    json_open(j, "{");
    json_key_u64_if_given(j, "planned", x->planned > 0 ? (int64_t)x->planned : -1);
    json_key_u64(j, "sent", x->sent);
    json_key_u64(j, "ok", x->ok);
    json_key_u64(j, "gets", x->gets);
    json_key_u64(j, "sets", x->sets);
    json_key_u64(j, "lost", m->lost);
    json_key_u64(j, "not_sent", x->not_sent);
    json_key_u64(j, "other_size", x->other_size);
    json_key(j, "errors");
    json_open(j, "{");
    for (size_t i = 0; i < x->errors.used; i++)
        json_key_u64(j, x->errors.kinds[i].kind, x->errors.kinds[i].count);
    json_close(j, '}');
    json_close(j, '}');
}

/* From the first send to the last: n requests at rate r take (n - 1) / r seconds. Random due times
 * take another time, so there it is the rate of the schedule, less what the sends fell behind. */
static double achieved_rate(const struct exchange *x)
{
    double took = (double)(x->last_sent - x->first_sent);
    if (exchange_is_paced(x) && x->settings->arrivals != ARRIVALS_PERIODIC)
        return x->settings->rate * (double)(x->last_due - x->first_due) / took;
    return (double)(x->sent - 1) * 1e9 / took;
}

static void report_rate(struct json *j, const struct exchange *x)
{
    json_key(j, "rate");
    json_open(j, "{");
    json_key(j, "target");
    if (exchange_is_paced(x))
        json_real(j, x->settings->rate);
    else
        json_raw(j, "null");
    json_key(j, "achieved");
    if (x->last_sent > x->first_sent)
        json_real(j, achieved_rate(x));
    else
        json_raw(j, "null");
    json_close(j, '}');
}

void report_hot_set(struct json *j, const char *name, const struct hot_set *h, uint64_t value_size)
{
    json_key(j, name);
    if (!h->known) {
        json_raw(j, "null");
        return;
    }
    json_open(j, "{");
    json_key_u64(j, "accesses", h->accesses);
    json_key_u64(j, "distinct_keys", h->distinct);
    for (size_t i = 0; i < HOT_SHARES; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "p%u_keys", hot_permille[i] / 10);
        json_key_u64(j, key, h->keys[i]);
        (void)snprintf(key, sizeof key, "p%u_bytes", hot_permille[i] / 10);
        json_key_u64(j, key, h->keys[i] * value_size);
    }
    json_close(j, '}');
}

static void report_series(struct json *j, const struct series *s)
{
    json_key(j, "series");
    json_open(j, "{");
    json_key_text(j, "of", "response");
    json_key_real(j, "interval_s", (double)s->interval / 1e9);
    json_key(j, "points");
    json_open(j, "[");
    for (size_t i = 0; i < s->used; i++) {
        const struct series_point *p = &s->points[i];
        json_open(j, "[");
        json_wide(j, p->count);
        json_wide(j, p->count > 0 ? p->sum / p->count : 0);
        json_wide(j, p->p99);
        json_wide(j, p->max);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void report_test(struct json *j, const struct test_result *t)
{
    json_key(j, "test");
    if (!t->done) {
        json_raw(j, "null");
        return;
    }
    const struct exchange *x = &t->exchange;
    const struct measurement *m = t->measurement;
    json_open(j, "{");
    json_key_epoch(j, "started_at", t->started);
    json_key_epoch(j, "finished_at", t->finished);
    json_key_epoch(j, "ready_at", t->ready);
    json_key_real(j, "seconds", (double)since(x->last_reply, x->first_sent) / 1e9);
    json_key_bool(j, "cut_off", t->cut_off);
    report_requests(j, x, m);
    report_rate(j, x);
    json_key(j, "latency");
    json_open(j, "{");
    report_histogram(j, "service", &m->service);
    report_histogram(j, "response", &m->response);
    report_histogram(j, "intended", &m->intended);
    report_histogram(j, "lateness", &m->lateness);
    report_histogram(j, "punctual", &m->punctual);
    report_histogram(j, "wakeup", &m->wakeup);
    report_histogram(j, "server", &m->server);
    json_close(j, '}');
    report_hot_set(j, "hot_set", &t->hot, (uint64_t)x->settings->value_size);
    report_series(j, &m->series);
    json_close(j, '}');
}

static double seconds_between(struct timeval from, struct timeval to)
{
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_usec - from.tv_usec) / 1e6;
}

static void report_health(struct json *j, const struct health *h)
{
    json_key(j, "client_health");
    if (!h->measured) {
        json_raw(j, "null");
        return;
    }
    const struct rusage *a = &h->first.usage, *b = &h->last.usage;
    double user = seconds_between(a->ru_utime, b->ru_utime);
    double system = seconds_between(a->ru_stime, b->ru_stime);
    double elapsed = (double)since(h->last.at, h->first.at) / 1e9;
    char clock_source[64], cpus[256];
    describe_clock_source(clock_source, sizeof clock_source);
    describe_allowed_cpus(cpus, sizeof cpus);
    json_open(j, "{");
    json_key_u64(j, "major_faults", (uint64_t)(b->ru_majflt - a->ru_majflt));
    json_key_u64(j, "minor_faults", (uint64_t)(b->ru_minflt - a->ru_minflt));
    json_key_u64(j, "voluntary_switches", (uint64_t)(b->ru_nvcsw - a->ru_nvcsw));
    json_key_u64(j, "involuntary_switches", (uint64_t)(b->ru_nivcsw - a->ru_nivcsw));
    json_key_real(j, "user_s", user);
    json_key_real(j, "system_s", system);
    json_key_real(j, "cpu_share", elapsed > 0 ? (user + system) / elapsed : 0);
    if (h->last.waited != NEVER)
        json_key_real(j, "cpu_wait_s", (double)since(h->last.waited, h->first.waited) / 1e9);
    else
        json_key_null(j, "cpu_wait_s");
    json_key_u64(j, "steal_ticks", since(h->last.steal, h->first.steal));
    json_key_text(j, "clock_source", clock_source[0] != '\0' ? clock_source : NULL);
    json_key_bool(j, "memory_locked", h->memory_locked);
    json_key_u64(j, "max_rss_kb", peak_resident_kb());
    json_key_u64_if_given(j, "cpu_first", h->first.cpu);
    json_key_u64_if_given(j, "cpu_last", h->last.cpu);
    json_key_text(j, "cpus_allowed", cpus);
    json_key_bool(j, "realtime", h->realtime.got);
    json_key_text(j, "realtime_refused", h->realtime.refused[0] != '\0' ? h->realtime.refused : NULL);
    if (h->hybrid != NULL)
        json_key_real(j, "spin_us_at_end", (double)h->hybrid->spin / NS_PER_US);
    else
        json_key_null(j, "spin_us_at_end");
    json_close(j, '}');
}

static const char *mode_name(const struct settings *s)
{
    if (s->fill)
        return s->test ? "filltest" : "fill";
    return s->test ? "test" : "ping";
}

void report_json(FILE *file, const struct settings *s, const struct outcome *o)
{
    struct json j = {.file = file};
    json_open(&j, "{");
    json_key_u64(&j, "schema", 1);
    if (o->ended != NULL)
        json_key_text(&j, "ended", o->ended);
    report_client(&j);
    json_key_text(&j, "mode", mode_name(s));
    if (o->phase != NULL) {
        json_key_text(&j, "phase", o->phase);
        json_key_u64(&j, "index", o->index);
        json_key_seconds(&j, "wall_offset", o->offset_at_end);
    }
    report_settings(&j, s, o->seed);
    report_error(&j, &o->failure);
    report_fill(&j, &o->fill);
    report_test(&j, &o->test);
    report_server(&j, "server_before", &o->before);
    report_server(&j, "server_after", &o->after);
    report_health(&j, &o->health);
    json_close(&j, '}');
    (void)fputc('\n', file);
}

bool report_window(FILE *file, const struct windows *w, uint64_t start)
{
    const struct window *oldest = &w->open[w->first % 2];
    uint64_t begin = start + w->first * w->length;
    struct json j = {.file = file};
    json_open(&j, "{");
    json_key_u64(&j, "schema", 1);
    json_key_u64(&j, "window", w->first);
    json_key_epoch(&j, "started_at", begin);
    json_key_epoch(&j, "finished_at", begin + w->length);
    json_key_u64(&j, "unanswered", oldest->unanswered);
    json_key_u64(&j, "too_late", w->too_late);
    json_key(&j, "latency");
    json_open(&j, "{");
    report_histogram(&j, "server", &oldest->server);
    report_histogram(&j, "intended", &oldest->intended);
    report_histogram(&j, "punctual", &oldest->punctual);
    json_close(&j, '}');
    json_close(&j, '}');
    (void)fputc('\n', file);
    return fflush(file) == 0 && ferror(file) == 0;
}

/* The output of the brief: requests, average, minimum, maximum, p99, p95, in seconds. */
static void report_six_lines(FILE *file, const struct histogram *service)
{
    (void)fprintf(file, "%" PRIu64 "\n%e\n%e\n%e\n%e\n%e\n", service->count, hist_mean(service) / 1e9,
                  (double)service->min / 1e9, (double)service->max / 1e9, (double)hist_percentile(service, 990) / 1e9,
                  (double)hist_percentile(service, 950) / 1e9);
}

static void report_fill_for_people(const struct fill_result *r)
{
    (void)fprintf(stderr, "solotest: filled %" PRIu64 " keys in %.3f seconds, %.0f per second\n", r->keys, r->seconds,
                  r->seconds > 0 ? (double)r->keys / r->seconds : 0);
}

void report(const struct settings *s, struct outcome *o)
{
    if (s->json)
        report_json(stdout, s, o);
    else if (o->test.done && o->test.measurement->service.count > 0)
        report_six_lines(stdout, &o->test.measurement->service);
    if (fflush(stdout) != 0 || ferror(stdout))
        (void)fail(&o->failure, EXIT_OUTPUT, "output", "cannot write the result: %s", strerror(errno));
    if (o->test.exchange.other_size > 0)
        (void)fprintf(stderr,
                      "solotest: warning: %" PRIu64 " of %" PRIu64 " GETs returned a value whose size is not "
                      "VALUE_SIZE, %" PRId64 " bytes: fill and test with the same size\n",
                      o->test.exchange.other_size, o->test.exchange.gets, s->value_size);
    if (!s->json && o->fill.done)
        report_fill_for_people(&o->fill);
    if (o->failure.exit_code != EXIT_OK)
        (void)fprintf(stderr, "solotest: %s%s\n", o->failure.message,
                      o->failure.exit_code > EXIT_SIGNAL ? "; the result is partial" : "");
}

void print_version(void)
{
    const char *tls = tls_library();
    (void)printf("solotest " SOLOTEST_VERSION " (hiredis " HIREDIS_VERSION ", %s, " COMPILER ")\n",
                 tls != NULL ? tls : "without TLS");
}
