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
    struct latencies t = slot_complete(slot, &l->bound, r, is_last);
    if (++c->head == c->depth)
        c->head = 0;
    c->in_flight--;
    c->unfinished = 0;
    l->in_flight--;
    l->last_reply = r->at;
    if (error == NULL) {
        l->ok++;
        if (l->measurement != NULL)
            measurement_add(l->measurement, slot, t, l->pacer.start);
        return true;
    }
    errors_add(&l->errors, error, 1);
    if (l->measurement != NULL)
        measurement_add_lost(l->measurement, t.intended, 1);
    if (l->errors.first[0] == '\0')
        (void)snprintf(l->errors.first, sizeof l->errors.first, "%s",
                       c->error_text[0] != '\0' ? c->error_text : error);
    return !l->stop_on_error || load_abandon(l, "abandoned");
}

/* Returns the length of the reply if `data` begins with the one that a successful request gets,
 * otherwise 0: then hiredis parses it. This avoids copying every value into the buffer of
 * hiredis. */
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

/* The kind of error that a reply of this type is to its request; NULL for a success. */
static inline const char *reply_error(const struct slot *slot, int type, const char *text,
                                      char kind[ERROR_KIND_SIZE])
{
    if (type == (slot->is_set ? REDIS_REPLY_STATUS : REDIS_REPLY_STRING))
        return NULL;
    if (type == REDIS_REPLY_NIL)
        return "nil";
    if (type != REDIS_REPLY_ERROR)
        return "type";
    error_kind_of(text, kind);
    return kind;
}

static inline bool reader_is_idle(const redisReader *r)
{
    return r->ridx < 0 && r->pos == r->len;
}

/* Takes bytes that do not begin with the expected reply. */
static inline bool load_parse(struct load *l, struct conn *c, const char *data, size_t size,
                              const struct reading *r)
{
    if (redisReaderFeed(c->reader, data, size) != REDIS_OK)
        return load_protocol_error(l, "not enough memory for the reply");
    c->unfinished += size;
    for (;;) {
        void *reply = NULL;
        char kind[ERROR_KIND_SIZE];
        c->error_text[0] = '\0';
        if (redisReaderGetReply(c->reader, &reply) != REDIS_OK)
            return load_protocol_error(l, c->reader->errstr);
        if (reply == NULL)
            break;
        if (c->in_flight == 0)
            return load_protocol_error(l, "a reply without a request");
        const char *error =
            reply_error(conn_slot(c, 0), (int)(uintptr_t)reply, c->error_text, kind);
        if (!load_complete(l, c, r, reader_is_idle(c->reader), error))
            return false;
    }
    if (c->unfinished > (uint64_t)l->settings->value_size + REPLY_SLACK)
        return load_protocol_error(l, "endless reply");
    return true;
}

/* Takes the bytes of a read. Returns false if the load cannot go on. */
static inline bool load_consume(struct load *l, struct conn *c, const char *data, size_t size,
                                const struct reading *r)
{
    while (size > 0 && c->in_flight > 0 && reader_is_idle(c->reader)) {
        size_t n = expected_reply(l, conn_slot(c, 0), data, size);
        if (n == 0)
            break;
        if (!load_complete(l, c, r, n == size, NULL))
            return false;
        data += n;
        size -= n;
    }
    return size == 0 || load_parse(l, c, data, size, r);
}

#endif
