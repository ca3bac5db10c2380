/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Follow: one client for all phases of a schedule. It connects, reports that it is armed, waits for the file that holds
 * the common start, and runs each phase at its time by the monotonic clock, so that the wall clock may be set later. Its
 * output is one JSON document a line. It ends after the last phase, by a signal, and when the schedule is removed.
 *
 * Between phases it keeps its connections, and opens those again that the server has closed. A server that cannot be
 * reached is asked again until its phase begins, and then the phase says why it could not.
 */
#ifndef SOLOTEST_FOLLOW_H
#define SOLOTEST_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "connection.h"
#include "options.h"
#include "schedule.h"

/* Returns the exit status: that of the first failure. Frees the plan. */
int follow(const struct settings *s, struct schedule *plan, struct credentials *who);

/* Reads the text of a start: seconds since the epoch. */
bool start_parse(const char *text, uint64_t *wall);

/* The monotonic time of a start, and the offset of the wall clock that it was computed with, which all stamps use. */
uint64_t start_on_monotonic(uint64_t wall, uint64_t *offset);

#endif
