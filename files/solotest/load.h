/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Load engine: keeps as many requests in flight as the schedule and the slots allow, and passes
 * each reply with its time stamps to the measurement. A fill uses the same engine without a
 * measurement.
 */
#ifndef SOLOTEST_LOAD_H
#define SOLOTEST_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "exchange.h"

#define OUTPUT_MAX 262144u /* output buffer of one connection */

/* Opens the connections and allocates everything that the run needs. */
bool load_open(struct exchange *x, size_t connections, size_t depth, const struct credentials *who);

/* Opens those of its connections that are not open, for --connect-timeout and --timeout of `s`. */
bool load_connect(struct exchange *x, const struct settings *s, const struct credentials *who, struct failure *f);

/* Forgets all of a run but its settings and resources. */
void load_reset(struct exchange *x);

/* Sends requests and receives replies until the end. Returns false if it could not end as
 * planned: `failure` holds the reason, and everything counted so far stays. */
bool load_run(struct exchange *x);

void load_close(struct exchange *x);

#endif
