/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Schedule: the file that says when each phase begins, and with which load. Its first line is "solotest-schedule 1".
 * Then come "release_within SECONDS" and one line for each phase:
 *
 *     phase NAME at=SECONDS requests=N [rate= influence= read_mix= max_seconds= seed= arrivals=]
 *
 * `at` counts from the common start. What a line leaves out is as on the command line.
 */
#ifndef SOLOTEST_SCHEDULE_H
#define SOLOTEST_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"
#include "options.h"

#define PHASE_NAME_SIZE 65
#define MOST_PHASES 10000
#define SCHEDULE_BYTES (1u << 20)

struct phase {
    char name[PHASE_NAME_SIZE];
    uint64_t at; /* ns after the start */
    struct settings settings;
};

struct schedule {
    double release_within; /* seconds */
    size_t count;
    struct phase *phases;
};

/* Reads the file that --schedule names. The caller frees it, also after a failure. */
bool schedule_read(struct schedule *plan, const struct settings *s, struct failure *f);
void schedule_free(struct schedule *plan);

/* The same from a text, which it changes. `file` is for messages. */
bool schedule_parse(struct schedule *plan, const struct settings *s, const char *file, char *text, struct failure *f);

#endif
