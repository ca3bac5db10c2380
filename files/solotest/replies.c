/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "replies.h"

#include <inttypes.h>

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

/* Refuses a reply that is damaged, that nobody asked for, or that is too large to wait for its end. */
static bool check_reply(struct load *l, const struct conn *c)
{
    const struct reply *reply = &c->reply;
    uint64_t most = (uint64_t)l->settings->value_size + REPLY_SLACK;
    if (reply->problem != NULL)
        return load_protocol_error(l, reply->problem);
    if (c->in_flight == 0 && reply->complete)
        return load_protocol_error(l, "a reply without a request");
    if (reply->length > 0 && (uint64_t)reply->length > most)
        return load_wrong_size(l, reply->length);
    return reply->complete || reply->size <= most || load_protocol_error(l, "endless reply");
}

bool load_take_reply(struct load *l, struct conn *c, const char *data, size_t size, const struct reading *r,
                     size_t *taken)
{
    char kind[ERROR_KIND_SIZE];
    *taken = reply_take(&c->reply, data, size);
    if (!check_reply(l, c))
        return false;
    if (!c->reply.complete)
        return true;
    l->other_size += c->reply.type == '$' && !c->reply.is_nil && c->reply.length != l->settings->value_size &&
                     !conn_slot(c, 0)->is_set;
    bool goes_on = load_complete(l, c, r, *taken == size && !r->more, reply_error(conn_slot(c, 0), &c->reply, kind));
    reply_begin(&c->reply);
    return goes_on;
}
