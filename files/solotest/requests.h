/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests: chooses the connection of the next request, writes its command before it is due, and
 * sends it.
 */
#ifndef SOLOTEST_REQUESTS_H
#define SOLOTEST_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exchange.h"

/* True unless all of the plan was issued, or its time is over. */
bool requests_left(struct exchange *x);

/* The next connection, in turn, that can take a command; NULL if all are busy. */
struct conn *request_pick(struct exchange *x);

/* The size of a SET, and of each key of an MSET. */
size_t command_size(const struct settings *s);

/* When the next request is due if it uses this slot. In a closed loop it is due as soon as the
 * slot is free. */
uint64_t request_next_due(struct exchange *x, const struct slot *slot);

/* Writes the next command behind those that are staged. All work on a request is done here,
 * before it is due. */
void request_stage(struct exchange *x, struct conn *c);

/* Writes the output buffer to the socket. What the socket does not accept is sent when it is
 * ready again, and the client may have been away until then. */
bool requests_flush(struct exchange *x, struct conn *c);

/* Sends the staged command and all others that are due by now. */
bool requests_send(struct exchange *x, struct conn *c, uint64_t now);

#endif
