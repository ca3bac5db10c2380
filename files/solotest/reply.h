/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reply: finds the end of a reply of Redis (RESP) in bytes that may be split anywhere, and keeps what decides about
 * success: its type, the length of a value, the text of an error. Values are not stored, so that replies of any size
 * need no memory during the load.
 */
#ifndef SOLOTEST_REPLY_H
#define SOLOTEST_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_LINE 128 /* of a longer line the rest is dropped */

struct reply {
    uint64_t size; /* bytes so far; 0: it has not begun */
    char type;     /* '+', '-', ':', '$' or '*'; 0: not yet known */
    bool is_nil;
    bool complete;
    int64_t length;        /* of a '$', as soon as it is known; otherwise -1 */
    const char *problem;   /* why this is not a reply; NULL if it is one so far */
    char text[REPLY_LINE]; /* the first line without its type, such as the text of an error */
    /* where reading goes on */
    uint64_t elements; /* values still to come, with the present one; an array adds its own */
    uint64_t body;     /* bytes of a value still to come, with its line end */
    char line[REPLY_LINE];
    size_t line_size;
    bool after_return; /* the byte before was '\r' */
};

void reply_begin(struct reply *r);

/* Takes bytes until the reply is complete, or none are left. Returns how many it took. */
size_t reply_take(struct reply *r, const char *data, size_t size);

#endif
