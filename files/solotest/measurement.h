/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Measurement: the histograms of the latencies, the time series of `response` and, if wanted, the
 * raw samples. All memory is allocated before the load starts.
 *
 * A reply is only noted. Every BATCH replies, all that was noted is recorded at once: what that takes, code and
 * histograms, then is in the CPU's caches, from where the kernel and a Redis on the same CPU drive it each time.
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
#include "windows.h"

#define BATCH 64

/* The replies that were noted. Fewer have a time stamp. */
struct batch {
    size_t noted, stamped;
    uint64_t stamped_at[BATCH]; /* the same of those with a time stamp */
    uint64_t at[BATCH];         /* intended start, since the start of the load */
    uint64_t service[BATCH], response[BATCH], intended[BATCH], lateness[BATCH], punctual[BATCH];
    uint64_t wakeup[BATCH], server[BATCH], server_if_overloaded[BATCH];
};

struct measurement {
    struct batch batch;
    struct histogram service, response, intended, lateness, punctual;
    struct histogram wakeup, server;       /* empty without the kernel's time stamps */
    struct histogram server_if_overloaded; /* what measurement_finish() may choose */
    uint64_t lost; /* requests without a successful reply: they are in `intended` and `punctual` alone */
    struct series series;
    struct windows *windows; /* NULL unless wanted */
    struct latencies *raw;   /* NULL unless wanted */
    uint64_t raw_used, raw_size;
};

/* NULL if there is not enough memory. */
struct measurement *measurement_create(const struct settings *s, struct failure *f);

/* Forgets what was measured, for a test with other settings. */
void measurement_reset(struct measurement *m, const struct settings *s);
void measurement_free(struct measurement *m);

/* The interval of the time series. */
uint64_t measurement_interval(const struct settings *s);

/* Records what was noted. Only then is it in the histograms. */
void measurement_record(struct measurement *m);

void measurement_add(struct measurement *m, const struct slot *slot, struct latencies t, uint64_t start);

/* Adds requests that failed, were never answered, or were due and not sent: each has taken at least
 * `age`. */
void measurement_add_lost(struct measurement *m, uint64_t age, uint64_t requests);

/* Ends the measurement: records the rest, and chooses the lower bound. */
void measurement_finish(struct measurement *m, const struct server_bound *b);

/* Ends early if a signal asks the program to stop, or if writing fails. */
bool measurement_write_raw(const struct measurement *m, FILE *file);

#endif
