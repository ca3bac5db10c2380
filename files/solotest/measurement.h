/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measurement: the histograms of the four latencies, the time series of `response` and, if wanted,
 * the raw samples. All memory is allocated before the load starts.
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

struct raw_sample {
    uint64_t service, response, intended, lateness;
};

struct measurement {
    struct histogram service, response, intended, lateness;
    struct series series;
    struct raw_sample *raw; /* NULL unless wanted */
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
    series_add(&m->series, since(slot->intended, start), t.response);
    if (m->raw_used < m->raw_size)
        m->raw[m->raw_used++] =
            (struct raw_sample){t.service, t.response, t.intended, t.lateness};
}

bool measurement_write_raw(const struct measurement *m, FILE *file);

#endif
