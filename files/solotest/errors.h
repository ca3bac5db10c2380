/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Errors by kind: the first word of an error reply, or a word of our own in lower case.
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
    char first[128]; /* the first reply in full, for the message */
};

void errors_add(struct errors *e, const char *kind, uint64_t count);

/* "OOM command not allowed ..." -> "OOM". A text that has no such word is "ERR". */
void error_kind_of(const char *text, char kind[ERROR_KIND_SIZE]);

/* "OOM 3, nil 1" */
void errors_describe(const struct errors *e, char *to, size_t size);

#endif
