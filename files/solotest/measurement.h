/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measurement: the histograms of the latencies, the time series of `response` and, if wanted, the
 * raw samples. All memory is allocated before the load starts.
 */
#ifndef SOLOTEST_MEASUREMENT_H
#define SOLOTEST_MEASUREMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "failure.h"
#include "latency.h"
#include "options.h"
#include "series.h"

struct measurement {
    struct histogram service, response, intended, lateness;
    struct histogram wakeup, server; /* empty without the kernel's time stamps */
    struct histogram server_if_overloaded; /* what measurement_finish() may choose */
    uint64_t lost; /* requests without a successful reply: they are in `intended` alone */
    struct series series;
    struct latencies *raw; /* NULL unless wanted */
    uint64_t raw_used, raw_size;
};

/* NULL if there is not enough memory. */
struct measurement *measurement_create(const struct settings *s, struct failure *f);
void measurement_free(struct measurement *m);

/* The interval of the time series. */
uint64_t measurement_interval(const struct settings *s);

static inline void measurement_add(struct measurement *m, const struct slot *slot,
                                   struct latencies t, uint64_t start)
{
    hist_add(&m->service, t.service);
    hist_add(&m->response, t.response);
    hist_add(&m->intended, t.intended);
    hist_add(&m->lateness, t.lateness);
    if (t.stamped) {
        hist_add(&m->wakeup, t.wakeup);
        hist_add(&m->server, t.server);
        hist_add(&m->server_if_overloaded, t.server_if_overloaded);
    }
    series_add(&m->series, since(slot->intended, start), t.response);
    if (m->raw_used < m->raw_size)
        m->raw[m->raw_used++] = t;
}

/* Requests that failed, were never answered, or were due and not sent: whoever waited for them has
 * waited for at least `age`. */
static inline void measurement_add_lost(struct measurement *m, uint64_t age, uint64_t requests)
{
    hist_add_many(&m->intended, age, requests);
    m->lost += requests;
}

/* Ends the measurement: chooses the lower bound. */
void measurement_finish(struct measurement *m, const struct server_bound *b);

bool measurement_write_raw(const struct measurement *m, FILE *file);

#endif
