/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Network: connects to a TCP endpoint or a Unix socket, and waits for sockets. One time limit holds for everything,
 * also for the resolution of a name.
 */
#ifndef SOLOTEST_NETWORK_H
#define SOLOTEST_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "failure.h"
#include "options.h"

/* Returns a connected socket, or -1. */
int network_connect(const struct settings *s, uint64_t deadline, struct failure *f);

/* Waits until the socket is ready; false after the deadline or a signal that asks the program to stop. */
bool wait_ready(int fd, short events, uint64_t deadline);

#endif
