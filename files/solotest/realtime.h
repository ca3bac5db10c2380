/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Real time: while it sends requests, the client runs at the lowest real-time priority where it may, so that it never
 * waits for a CPU. It sleeps between requests then, since spinning would take the CPU from the Redis that it measures.
 */
#ifndef SOLOTEST_REALTIME_H
#define SOLOTEST_REALTIME_H

#include <stdbool.h>

#include "failure.h"
#include "options.h"

enum realtime { REALTIME_AUTO, REALTIME_REQUIRED, REALTIME_OFF };

/* What the client got. */
struct realtime_state {
    bool got;
    bool changed;      /* realtime_end() puts the priority back */
    char refused[160]; /* why not; empty if it was not asked for */
};

/* Asks for the priority; fails only if --realtime is `required`. */
bool realtime_begin(struct realtime_state *r, const struct settings *s, struct failure *f);
void realtime_end(struct realtime_state *r);

#endif
