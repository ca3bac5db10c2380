/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "replies.h"

#include <stdio.h>
#include <string.h>

/* The kind of error that a reply is to its request; NULL for a success. */
static const char *reply_error(const struct slot *slot, const struct reply *reply, char kind[ERROR_KIND_SIZE])
{
    if (reply->is_nil)
        return "nil";
    if (reply->type == (slot->is_set ? '+' : '$'))
        return NULL;
    if (reply->type != '-')
        return "type";
    error_kind_of(reply->text, kind);
    return kind;
}

/* Refuses a reply that is damaged, that answers no request, or that is too large to wait for its end. */
static bool check_reply(struct exchange *x, const struct conn *c)
{
    const struct reply *reply = &c->reply;
    uint64_t most = (uint64_t)x->settings->value_size + REPLY_SLACK;
    if (reply->problem != NULL)
        return exchange_protocol_error(x, reply->problem);
    if (c->in_flight == 0 && reply->complete)
        return exchange_protocol_error(x, "a reply without a request");
    if (reply->length > 0 && (uint64_t)reply->length > most)
        return exchange_wrong_size(x, reply->length);
    return reply->complete || reply->size <= most || exchange_protocol_error(x, "endless reply");
}

/* Counts one complete reply; `error` is its kind, or NULL for a success. The kernel's time stamp
 * belongs to the last byte of a read, so only the reply that `is_last` in it has a known time. */
static inline bool reply_complete(struct exchange *x, struct conn *c, const struct reading *r, bool is_last,
                                  const char *error)
{
    struct slot *slot = conn_slot(c, 0);
    struct latencies t =
        exchange_is_paced(x) ? slot_complete(slot, &x->ideal, &x->bound, r, is_last) : slot_complete_loop(slot, r);
    if (++c->head == c->depth)
        c->head = 0;
    c->in_flight--;
    x->in_flight--;
    x->last_reply = r->at;
    if (error == NULL) {
        x->ok++;
        x->more_keys += slot->more_keys;
        if (x->measurement != NULL)
            measurement_add(x->measurement, slot, t, x->pacer.start);
        return true;
    }
    errors_add(&x->errors, error, 1);
    if (x->measurement != NULL)
        measurement_add_lost(x->measurement, t.intended, 1);
    if (x->errors.first[0] == '\0')
        (void)snprintf(x->errors.first, sizeof x->errors.first, "%s", c->reply.type == '-' ? c->reply.text : error);
    return !x->stop_on_error || exchange_abandon(x, "abandoned");
}

/* Takes bytes that do not begin with the expected reply, up to the end of a reply, and stores how many. */
static bool take_reply(struct exchange *x, struct conn *c, const char *data, size_t size, const struct reading *r,
                       size_t *taken)
{
    char kind[ERROR_KIND_SIZE];
    *taken = reply_take(&c->reply, data, size);
    if (!check_reply(x, c))
        return false;
    if (!c->reply.complete)
        return true;
    x->other_size += c->reply.type == '$' && !c->reply.is_nil && c->reply.length != x->settings->value_size &&
                     !conn_slot(c, 0)->is_set;
    bool goes_on = reply_complete(x, c, r, *taken == size && !r->more, reply_error(conn_slot(c, 0), &c->reply, kind));
    reply_begin(&c->reply);
    return goes_on;
}

/* Returns the length of the reply if `data` begins with the one that a successful request gets,
 * otherwise 0. */
static inline size_t expected_reply(const struct exchange *x, const struct slot *slot, const char *data, size_t size)
{
    if (slot->is_set)
        return size >= 5 && memcmp(data, "+OK\r\n", 5) == 0 ? 5 : 0;
    size_t body = x->value_head_size + (size_t)x->settings->value_size;
    if (size < body + 2 || memcmp(data, x->value_head, x->value_head_size) != 0)
        return 0;
    return data[body] == '\r' && data[body + 1] == '\n' ? body + 2 : 0;
}

inline bool replies_consume(struct exchange *x, struct conn *c, const char *data, size_t size, const struct reading *r)
{
    while (size > 0) {
        size_t n = 0;
        if (c->in_flight > 0 && c->reply.size == 0)
            n = expected_reply(x, conn_slot(c, 0), data, size);
        if (!(n > 0 ? reply_complete(x, c, r, n == size && !r->more, NULL) : take_reply(x, c, data, size, r, &n)))
            return false;
        data += n;
        size -= n;
    }
    return true;
}
