/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Failures: why the program ends with another status than 0. The first failure wins, because what follows it
 * is usually its consequence. Messages are safe to print: no control characters, no invalid UTF-8.
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
    EXIT_LOST = 4, /* connection lost, time-out or protocol error in the middle */
    EXIT_REFUSED = 5,
    EXIT_OUTPUT = 6,
    EXIT_SIGNAL = 128,
};

struct failure {
    int exit_code;
    const char *kind;
    char message[512];
};

/* The length of the valid UTF-8 sequence that `s` begins with, 0 if it is none. */
size_t utf8_length(const unsigned char *s);

/* Always false, so that a caller can write `return fail(...)`. */
__attribute__((format(printf, 4, 5))) bool fail(struct failure *f, int exit_code, const char *kind,
                                                const char *format, ...);

#define fail_usage(failure, ...) fail(failure, EXIT_USAGE, "usage", __VA_ARGS__)

bool fail_memory(struct failure *f);

/* A value that an option or argument does not allow. */
bool fail_not_allowed(struct failure *f, const char *name, const char *value, const char *allowed);

#endif
