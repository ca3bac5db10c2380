/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Replies: turns the bytes from a server, split anywhere, into successes, errors by kind and
 * latencies.
 */
#ifndef SOLOTEST_REPLIES_H
#define SOLOTEST_REPLIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "load.h"

/* Counts one complete reply; `error` is its kind, or NULL for a success. The kernel's time stamp
 * belongs to the last byte of a read, so only the reply that `is_last` in it has a known time. */
static inline bool load_complete(struct load *l, struct conn *c, const struct reading *r,
                                 bool is_last, const char *error)
{
    struct slot *slot = conn_slot(c, 0);
    struct latencies t = load_is_paced(l) ? slot_complete(slot, &l->ideal, &l->bound, r, is_last)
                                          : slot_complete_loop(slot, r);
    if (++c->head == c->depth)
        c->head = 0;
    c->in_flight--;
    l->in_flight--;
    l->last_reply = r->at;
    if (error == NULL) {
        l->ok++;
        l->more_keys += slot->more_keys;
        if (l->measurement != NULL)
            measurement_add(l->measurement, slot, t, l->pacer.start);
        return true;
    }
    errors_add(&l->errors, error, 1);
    if (l->measurement != NULL)
        measurement_add_lost(l->measurement, t.intended, 1);
    if (l->errors.first[0] == '\0')
        (void)snprintf(l->errors.first, sizeof l->errors.first, "%s",
                       c->reply.type == '-' ? c->reply.text : error);
    return !l->stop_on_error || load_abandon(l, "abandoned");
}

/* Returns the length of the reply if `data` begins with the one that a successful request gets,
 * otherwise 0. */
static inline size_t expected_reply(const struct load *l, const struct slot *slot, const char *data,
                                    size_t size)
{
    if (slot->is_set)
        return size >= 5 && memcmp(data, "+OK\r\n", 5) == 0 ? 5 : 0;
    size_t body = l->value_head_size + (size_t)l->settings->value_size;
    if (size < body + 2 || memcmp(data, l->value_head, l->value_head_size) != 0)
        return 0;
    return data[body] == '\r' && data[body + 1] == '\n' ? body + 2 : 0;
}

/* Takes bytes that do not begin with the expected reply, up to the end of a reply, and stores how many. */
bool load_take_reply(struct load *l, struct conn *c, const char *data, size_t size, const struct reading *r,
                     size_t *taken);

/* Takes the bytes of a read. Returns false if the load cannot go on. */
static inline bool load_consume(struct load *l, struct conn *c, const char *data, size_t size,
                                const struct reading *r)
{
    while (size > 0) {
        size_t n = 0;
        if (c->in_flight > 0 && c->reply.size == 0)
            n = expected_reply(l, conn_slot(c, 0), data, size);
        if (!(n > 0 ? load_complete(l, c, r, n == size && !r->more, NULL) : load_take_reply(l, c, data, size, r, &n)))
            return false;
        data += n;
        size -= n;
    }
    return true;
}

#endif
