/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "measurement.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pacer.h"
#include "signals.h"

/* A test that runs until it is stopped: its series is coarsened only after that time. */
#define UNPLANNED_NS (3600 * NS_PER_S)

/* The length of a schedule is known, so its series never has to be coarsened during the run. A closed loop of a number
 * of requests may be over in a fraction of a second: its series starts with the shortest interval, and is coarsened. */
uint64_t measurement_interval(const struct settings *s)
{
    if (s->pacing != PACING_NONE && planned_requests(s) == 0)
        return series_interval_for(UNPLANNED_NS);
    if (s->pacing != PACING_NONE)
        return series_interval_for(seconds_to_ns((double)planned_requests(s) / s->rate));
    if (s->duration > 0)
        return series_interval_for(seconds_to_ns(s->duration));
    return NS_PER_MS;
}

struct measurement *measurement_create(const struct settings *s, struct failure *f)
{
    struct measurement *m = calloc(1, sizeof *m);
    if (m != NULL) {
        if (s->windows > 0)
            m->windows = calloc(1, sizeof *m->windows);
        m->series.slots = calloc(SERIES_POINTS, sizeof *m->series.slots);
        m->raw_size = s->raw_file != NULL ? planned_requests(s) : 0;
        if (m->raw_size > 0)
            m->raw = calloc((size_t)m->raw_size, sizeof *m->raw);
    }
    if (m == NULL || m->series.slots == NULL || (s->windows > 0 && m->windows == NULL) ||
        (m->raw_size > 0 && m->raw == NULL)) {
        (void)fail_memory(f);
        measurement_free(m);
        return NULL;
    }
    if (m->windows != NULL)
        m->windows->length = seconds_to_ns(s->windows);
    m->series.interval = measurement_interval(s);
    return m;
}

void measurement_reset(struct measurement *m, const struct settings *s)
{
    struct latencies *raw = m->raw;
    uint64_t raw_size = m->raw_size;
    struct windows *windows = m->windows;
    uint32_t (*slots)[HIST_SLOTS] = m->series.slots;
    memset(m, 0, sizeof *m);
    m->raw = raw;
    m->raw_size = raw_size;
    m->windows = windows;
    m->series.slots = slots;
    memset(m->series.slots, 0, SERIES_POINTS * sizeof *m->series.slots);
    m->series.interval = measurement_interval(s);
}

void measurement_free(struct measurement *m)
{
    if (m == NULL)
        return;
    free(m->raw);
    free(m->windows);
    free(m->series.slots);
    free(m);
}

static void record_windows(struct windows *w, const struct batch *b)
{
    for (size_t i = 0; i < b->noted; i++) {
        struct window *window = windows_find(w, b->at[i]);
        if (window == NULL) {
            w->too_late++;
            continue;
        }
        hist_add_many(&window->intended, b->intended[i], 1);
        hist_add_many(&window->punctual, b->punctual[i], 1);
    }
    for (size_t i = 0; i < b->stamped; i++) {
        struct window *window = windows_find(w, b->stamped_at[i]);
        if (window != NULL)
            hist_add_many(&window->server, b->server[i], 1);
    }
}

void measurement_record(struct measurement *m)
{
    struct batch *b = &m->batch;
    hist_add_all(&m->service, b->service, b->noted);
    hist_add_all(&m->response, b->response, b->noted);
    hist_add_all(&m->intended, b->intended, b->noted);
    hist_add_all(&m->lateness, b->lateness, b->noted);
    hist_add_all(&m->punctual, b->punctual, b->noted);
    hist_add_all(&m->wakeup, b->wakeup, b->stamped);
    hist_add_all(&m->server, b->server, b->stamped);
    hist_add_all(&m->server_if_overloaded, b->server_if_overloaded, b->stamped);
    if (m->windows != NULL)
        record_windows(m->windows, b);
    for (size_t i = 0; i < b->noted; i++)
        series_add(&m->series, b->at[i], b->response[i]);
    b->noted = b->stamped = 0;
}

void measurement_finish(struct measurement *m, const struct server_bound *b)
{
    measurement_record(m);
    if (server_is_overloaded(b)) {
        m->server = m->server_if_overloaded;
        for (uint64_t i = 0; i < m->raw_used; i++)
            m->raw[i].server = m->raw[i].server_if_overloaded;
    }
    series_finish(&m->series);
}

bool measurement_write_raw(const struct measurement *m, FILE *file)
{
    for (uint64_t i = 0; i < m->raw_used && !interrupted && !ferror(file); i++) {
        const struct latencies *t = &m->raw[i];
        (void)fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, t->service, t->response, t->intended,
                      t->lateness);
        if (t->stamped)
            (void)fprintf(file, " %" PRIu64 " %" PRIu64 "\n", t->wakeup, t->server);
        else
            (void)fprintf(file, " - -\n");
    }
    return ferror(file) == 0;
}

inline void measurement_add(struct measurement *m, const struct slot *slot, struct latencies t, uint64_t start)
{
    struct batch *b = &m->batch;
    size_t i = b->noted++;
    b->at[i] = since(slot->intended, start);
    b->service[i] = t.service;
    b->response[i] = t.response;
    b->intended[i] = t.intended;
    b->lateness[i] = t.lateness;
    b->punctual[i] = t.punctual;
    if (t.stamped) {
        size_t k = b->stamped++;
        b->stamped_at[k] = b->at[i];
        b->wakeup[k] = t.wakeup;
        b->server[k] = t.server;
        b->server_if_overloaded[k] = t.server_if_overloaded;
    }
    if (m->raw_used < m->raw_size)
        m->raw[m->raw_used++] = t;
    if (b->noted == BATCH)
        measurement_record(m);
}

inline void measurement_add_lost(struct measurement *m, uint64_t age, uint64_t requests)
{
    hist_add_many(&m->intended, age, requests);
    hist_add_many(&m->punctual, age, requests);
    m->lost += requests;
}
