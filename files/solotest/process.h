/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The process: prepares its standard streams, password, CPU, signals, timers and memory, so that the client
 * disturbs its own measurement as little as possible.
 */
#ifndef SOLOTEST_PROCESS_H
#define SOLOTEST_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "connection.h"
#include "failure.h"
#include "options.h"

/* Opens closed standard streams, so that no socket gets their number, and Redis none of the
 * output. */
void occupy_standard_streams(void);

/* Reads the password, and removes it from the environment, where any process of this user could
 * read it. */
bool read_credentials(struct credentials *who, const struct settings *s, struct failure *f);

bool pin_to_cpu(const struct settings *s, struct failure *f);

/* Catches signals, and lets sleeps end without the kernel's usual slack of 50 us. */
void prepare_process(void);

/* Loads every page of the process and keeps it in memory: on a host that is short of memory, page faults of the
 * client would appear as latency of Redis. Call it when everything is allocated: the load itself allocates
 * nothing; with TLS, OpenSSL may. Only current pages are locked, so that a small RLIMIT_MEMLOCK does not make a
 * later allocation fail. */
bool lock_memory(void);

/* Creates or empties a file to write to, also a pipe or device. What somebody else has put in its place is left as it is:
 * a link, a pipe, a file, or a second name of one. Returns NULL and sets errno if that fails. */
FILE *create_file(const char *path);

/* Reads the start of a small file, such as one in /proc; an empty text if that fails. */
void read_small_file(const char *path, char *to, size_t size);

#endif
