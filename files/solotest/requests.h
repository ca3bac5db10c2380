/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Requests: chooses the connection of the next request, writes its command before it is due, and
 * sends it.
 */
#ifndef SOLOTEST_REQUESTS_H
#define SOLOTEST_REQUESTS_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "load.h"
#include "resp.h"

#define COMMAND_OVERHEAD 96u /* a SET without its value: 3 lengths, "SET", 20 digits, line ends */

static inline bool load_has_more(struct load *l)
{
    if (l->planned != 0 && l->issued >= l->planned)
        return false;
    if (l->stop_at == NEVER)
        return true;
    uint64_t next = load_is_paced(l) ? pacer_due(&l->pacer, l->issued) : l->last_reply;
    return max_u64(next, l->last_sent) < l->stop_at;
}

/* The next connection, in turn, that can take a command; NULL if all are busy. */
static inline struct conn *load_pick(struct load *l)
{
    for (size_t tried = 0; tried < l->conn_count; tried++) {
        struct conn *c = &l->conns[l->next_conn];
        if (++l->next_conn == l->conn_count)
            l->next_conn = 0;
        if (c->in_flight < c->depth && c->out_used == 0)
            return c;
    }
    return NULL;
}

/* Of a SET, and of each key of an MSET. */
static inline size_t command_size(const struct settings *s)
{
    return (size_t)s->value_size + COMMAND_OVERHEAD;
}

/* When the next request is due if it uses this slot. In a closed loop it is due as soon as the
 * slot is free. */
static inline uint64_t load_next_due(struct load *l, const struct slot *slot)
{
    if (load_is_paced(l))
        return pacer_due(&l->pacer, l->issued);
    return max_u64(slot->replied, l->pacer.start);
}

/* Writes a key and its next value. */
static inline char *load_put_pair(struct load *l, char *to, uint64_t key)
{
    to = put_bytes(put_key(to, key), l->value_head, l->value_head_size);
    values_take(&l->values, to);
    return put_text(to + l->settings->value_size, "\r\n");
}

/* Writes an MSET of the next keys, of which there are `planned`. */
static inline char *load_put_mset(struct load *l, char *to, struct slot *slot, uint64_t first_key)
{
    uint64_t keys = min_u64(l->keys_each, l->planned - l->issued), words = 1 + 2 * keys;
    *to++ = '*';
    to = put_text(put_digits(to, words, count_digits(words)), "\r\n$4\r\nMSET\r\n");
    to = load_put_pair(l, to, first_key);
    for (uint64_t i = 1; i < keys; i++)
        to = load_put_pair(l, to, chooser_next(l->chooser).key);
    slot->more_keys = (uint32_t)keys - 1;
    l->issued += slot->more_keys;
    return to;
}

/* Writes the next command behind those that are staged. All work on a request is done here,
 * before it is due. */
static inline void load_stage(struct load *l, struct conn *c)
{
    struct slot *slot = conn_slot(c, c->in_flight + c->staged);
    struct choice choice = chooser_next(l->chooser);
    slot->intended = load_next_due(l, slot);
    slot->is_set = choice.is_set;
    char *to = c->out + c->out_used;
    if (l->keys_each > 1)
        to = load_put_mset(l, to, slot, choice.key);
    else if (choice.is_set)
        to = load_put_pair(l, put_text(to, "*3\r\n$3\r\nSET\r\n"), choice.key);
    else
        to = put_key(put_text(to, "*2\r\n$3\r\nGET\r\n"), choice.key);
    size_t size = (size_t)(to - c->out) - c->out_used;
    c->out_used += c->tls != NULL ? tls_seal(c->tls, c->out + c->out_used, size) : size;
    c->staged++;
    l->issued++;
}

/* True if one more request can be sent together with those that are staged. */
static inline bool load_can_join(struct load *l, struct conn *c, uint64_t now)
{
    return c->in_flight + c->staged < c->depth &&
           c->out_size - c->out_used >= c->largest_command && load_has_more(l) &&
           load_next_due(l, conn_slot(c, c->in_flight + c->staged)) <= now;
}

/* Notes that the server may have had the requests from a place on only now. */
static inline void load_hand_over(struct conn *c, size_t first, uint64_t now)
{
    for (size_t i = first; i < c->in_flight; i++)
        conn_slot(c, i)->handed_over = now;
}

/* Writes the output buffer to the socket. What the socket does not accept is sent when it is
 * ready again, and the client may have been away until then. */
static inline bool load_flush(struct load *l, struct conn *c)
{
    while (c->out_sent < c->out_used) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_used - c->out_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            c->out_sent += (size_t)n;
        else if (errno == EAGAIN)
            return c->blocked = true;
        else if (errno != EINTR)
            return load_failed(l, errno);
    }
    if (c->blocked)
        load_hand_over(c, 0, now_ns());
    c->blocked = false;
    c->out_used = c->out_sent = 0;
    return true;
}

/* If sending took long, the client was away, perhaps before the kernel had the requests: the time
 * until now is not the server's for certain. */
static inline void load_check_sending(struct conn *c, size_t first, uint64_t sent)
{
    uint64_t now = now_ns();
    if (now - sent > OWN_DELAY_NS)
        load_hand_over(c, first, now);
}

/* Sends the staged command and all others that are due by now. */
static inline bool load_send(struct load *l, struct conn *c, uint64_t now)
{
    while (load_can_join(l, c, now))
        load_stage(l, c);
    if (c->staged > 1)
        now = now_ns(); /* staging took time that the server did not cause */
    if (l->in_flight == 0)
        l->looked = now; /* no reply can wait */
    for (size_t i = 0; i < c->staged; i++) {
        struct slot *slot = conn_slot(c, c->in_flight + i);
        slot->sent = slot->handed_over = now;
        slot->looked = l->looked;
        if (slot->is_set)
            l->sets++;
        else
            l->gets++;
    }
    if (l->sent == 0) {
        l->failure->under_load = true;
        l->first_sent = now;
        l->first_due = conn_slot(c, c->in_flight)->intended;
    }
    l->last_due = conn_slot(c, c->in_flight + c->staged - 1)->intended;
    if (l->in_flight == 0)
        l->next_timeout_check = now + l->timeout;
    if (l->unread_since == 0)
        l->unread_since = now;
    l->last_sent = now;
    l->sent += c->staged;
    l->in_flight += c->staged;
    size_t first = c->in_flight;
    c->in_flight += c->staged;
    c->staged = 0;
    l->staging = NULL;
    if (c->tls != NULL && tls_problem(c->tls) != NULL) /* a command could not be encrypted */
        return load_lost(l, tls_problem(c->tls));
    if (!load_flush(l, c))
        return false;
    if (c->stamped)
        load_check_sending(c, first, now);
    return true;
}

#endif
