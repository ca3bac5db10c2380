/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Errors by kind: the first word of an error reply, such as OOM, or a word in lower case for an
 * error that the client found itself, such as nil or timeout.
 */
#ifndef SOLOTEST_ERRORS_H
#define SOLOTEST_ERRORS_H

#include <stddef.h>
#include <stdint.h>

#define ERROR_KINDS 16
#define ERROR_KIND_SIZE 24

struct errors {
    uint64_t total;
    size_t used;
    struct {
        char kind[ERROR_KIND_SIZE];
        uint64_t count;
    } kinds[ERROR_KINDS];
    char first[128]; /* the text of the first error, for the message */
};

void errors_add(struct errors *e, const char *kind, uint64_t count);

/* The kind of "OOM command not allowed ..." is "OOM". Without such a word it is "ERR". */
void error_kind_of(const char *text, char kind[ERROR_KIND_SIZE]);

/* Writes a text such as "OOM 3, nil 1". */
void errors_describe(const struct errors *e, char *to, size_t size);

#endif
