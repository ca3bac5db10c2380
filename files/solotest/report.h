/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Report: the result of a run as one JSON object or as six lines, and messages on standard error.
 */
#ifndef SOLOTEST_REPORT_H
#define SOLOTEST_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "failure.h"
#include "health.h"
#include "hot_set.h"
#include "exchange.h"
#include "measurement.h"
#include "json.h"
#include "options.h"
#include "server.h"

struct fill_result {
    bool done;
    uint64_t keys, started, finished; /* wall clock */
    double seconds, flush_seconds;
    int64_t dbsize; /* -1: unknown */
};

struct test_result {
    bool done, complete, cut_off;      /* cut_off: --max-seconds ended it before its plan did */
    uint64_t ready, started, finished; /* wall clock; 0: not reached */
    struct exchange exchange;
    struct measurement *measurement;
    struct chooser initial; /* makes the same keys again */
    struct hot_set hot;
};

struct outcome {
    struct failure failure;
    struct fill_result fill;
    struct test_result test;
    struct health health;
    struct server_state before, after;
    uint64_t seed;
    uint64_t fixed_offset; /* wall clock less monotonic clock, for all stamps; 0: as of each stamp */
    const char *ended;     /* with --windows: "done", "signal" or "lease" */
    const char *phase;     /* of a schedule, and its number; NULL: not of a schedule */
    size_t index;
    uint64_t offset_at_end; /* wall clock less monotonic clock when the phase was over */
};

void report_json(FILE *file, const struct settings *s, const struct outcome *o);

/* Parts of the document, for others. */
void report_client(struct json *j);
void report_error(struct json *j, const struct failure *f);
void report_hot_set(struct json *j, const char *name, const struct hot_set *h, uint64_t value_size);
void report_server(struct json *j, const char *name, const struct server_state *state);

/* Prints one line with the bounds of the oldest window. `start` is when the first window began, by the wall clock. */
bool report_window(FILE *file, const struct windows *w, uint64_t start);

/* Prints the result, and a failure on standard error. */
void report(const struct settings *s, struct outcome *o);

void print_version(void);

#endif
