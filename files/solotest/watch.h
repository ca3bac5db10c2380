/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Watch: a thread that ends the client, as SIGTERM does, when a file is removed. A program that nobody can reach
 * is stopped by that, also under load.
 */
#ifndef SOLOTEST_WATCH_H
#define SOLOTEST_WATCH_H

#include <stdbool.h>

#include "failure.h"

#define WATCH_EVERY_NS (100 * NS_PER_MS)

/* Begins to watch. The thread never takes a signal from the load, and inherits no real-time priority that comes
 * later. */
bool watch_file(const char *path, struct failure *f);

/* Five seconds, if this thread gets its CPU time. */
#define LEASE_LOOKS 50

/* The same when nobody has touched the file for so many looks, or it is removed. */
bool watch_lease(const char *path, struct failure *f);

/* True if it was the file, and no signal, that ended the client. */
bool watch_ended(void);

#endif
