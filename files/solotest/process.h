/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The process: its standard streams, password, CPU and memory, prepared so that the client disturbs its own
 * measurement as little as possible.
 */
#ifndef SOLOTEST_PROCESS_H
#define SOLOTEST_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

#include "connection.h"
#include "failure.h"
#include "options.h"

/* A closed standard stream would hand its number to our socket, and our output to Redis. */
void occupy_standard_streams(void);

/* Takes the password out of the environment, where any process of this user could read it. */
bool read_credentials(struct credentials *who, const struct settings *s, struct failure *f);

bool pin_to_cpu(const struct settings *s, struct failure *f);

void prepare_process(void);

/* Brings every page we have into memory and keeps it there: on a host that is short of memory our
 * own page-ins would be measured as latency of Redis. Called when everything is allocated; what
 * hiredis may still want comes from a heap that has room. Only current pages are locked, so that a
 * small RLIMIT_MEMLOCK does not turn a later allocation into a failure. */
bool lock_memory(size_t largest_reply);

/* The beginning of a small file of the kernel's; empty when it cannot be read. */
void read_small_file(const char *path, char *to, size_t size);

#endif
