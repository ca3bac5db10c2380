/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Failures: the reason for an exit status other than 0. The first failure wins, because later ones
 * are usually its consequence. Messages are safe to print: they hold valid UTF-8 and no control
 * characters.
 */
#ifndef SOLOTEST_FAILURE_H
#define SOLOTEST_FAILURE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    EXIT_OK = 0,
    EXIT_REQUESTS = 1, /* finished, but some requests failed */
    EXIT_USAGE = 2,
    EXIT_CONNECT = 3,
    EXIT_LOST = 4, /* connection lost, time-out or protocol error during the run */
    EXIT_REFUSED = 5,
    EXIT_OUTPUT = 6,
    EXIT_RESOURCES = 7, /* this machine lacks memory or open files for the client */
    EXIT_SIGNAL = 128,
};

struct failure {
    int exit_code;
    const char *kind;
    bool under_load; /* a request of the load was sent */
    char message[512];
};

/* Returns the length of the valid UTF-8 sequence at the start of `s`, or 0 if there is none. */
size_t utf8_length(const unsigned char *s);

/* True if the valid UTF-8 sequence at the start of `s` is a control character, which a terminal obeys. */
bool is_control(const unsigned char *s);

/* Records the failure unless there is one already. Returns false, so that a caller can write
 * `return fail(...)`. */
__attribute__((format(printf, 4, 5))) bool fail(struct failure *f, int exit_code, const char *kind, const char *format,
                                                ...);

#define fail_usage(failure, ...) fail(failure, EXIT_USAGE, "usage", __VA_ARGS__)

/* The server broke off, sent nonsense or did not answer. Whether it did so under the load or before its first request
 * decides what the result means, so the kinds `lost`, `protocol` and `timeout` are of a server under load only. */
#define fail_server(failure, kind, ...)                                                                                \
    fail(failure, EXIT_LOST, (failure)->under_load ? (kind) : "not_ready", __VA_ARGS__)

#define fail_resources(failure, ...) fail(failure, EXIT_RESOURCES, "resources", __VA_ARGS__)
bool fail_memory(struct failure *f);

/* The value of an option or argument is not allowed; the message names what is. */
bool fail_not_allowed(struct failure *f, const char *name, const char *value, const char *allowed);

#endif
