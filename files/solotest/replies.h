/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Replies: turns the bytes from a server, split anywhere, into successes, errors by kind and
 * latencies.
 */
#ifndef SOLOTEST_REPLIES_H
#define SOLOTEST_REPLIES_H

#include <stdbool.h>
#include <stddef.h>

#include "exchange.h"

/* Takes the bytes of a read. Returns false if the load cannot go on. */
bool replies_consume(struct exchange *x, struct conn *c, const char *data, size_t size, const struct reading *r);

#endif
