/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "requests.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "resp.h"

#define COMMAND_OVERHEAD 96u /* a SET without its value: 3 lengths, "SET", 20 digits, line ends */

inline bool requests_left(struct exchange *x)
{
    if (x->planned != 0 && x->issued >= x->planned)
        return false;
    if (x->stop_at == NEVER)
        return true;
    uint64_t next = exchange_is_paced(x) ? pacer_due(&x->pacer, x->issued) : x->last_reply;
    return max_u64(next, x->last_sent) < x->stop_at;
}

inline struct conn *request_pick(struct exchange *x)
{
    for (size_t tried = 0; tried < x->conn_count; tried++) {
        struct conn *c = &x->conns[x->next_conn];
        if (++x->next_conn == x->conn_count)
            x->next_conn = 0;
        if (c->in_flight < c->depth && c->out_used == 0)
            return c;
    }
    return NULL;
}

inline size_t command_size(const struct settings *s)
{
    return (size_t)s->value_size + COMMAND_OVERHEAD;
}

inline uint64_t request_next_due(struct exchange *x, const struct slot *slot)
{
    if (exchange_is_paced(x))
        return pacer_due(&x->pacer, x->issued);
    return max_u64(slot->replied, x->pacer.start);
}

/* Writes a key and its next value. */
static inline char *put_pair(struct exchange *x, char *to, uint64_t key)
{
    to = put_bytes(put_key(to, key), x->value_head, x->value_head_size);
    values_take(&x->values, to);
    return put_text(to + x->settings->value_size, "\r\n");
}

/* Writes an MSET of the next keys, of which there are `planned`. */
static inline char *put_mset(struct exchange *x, char *to, struct slot *slot, uint64_t first_key)
{
    uint64_t keys = min_u64(x->keys_each, x->planned - x->issued), words = 1 + 2 * keys;
    *to++ = '*';
    to = put_text(put_digits(to, words, count_digits(words)), "\r\n$4\r\nMSET\r\n");
    to = put_pair(x, to, first_key);
    for (uint64_t i = 1; i < keys; i++)
        to = put_pair(x, to, chooser_next(x->chooser).key);
    slot->more_keys = (uint32_t)keys - 1;
    x->issued += slot->more_keys;
    return to;
}

inline void request_stage(struct exchange *x, struct conn *c)
{
    struct slot *slot = conn_slot(c, c->in_flight + c->staged);
    struct choice choice = chooser_next(x->chooser);
    slot->intended = request_next_due(x, slot);
    slot->is_set = choice.is_set;
    char *to = c->out + c->out_used;
    if (x->keys_each > 1)
        to = put_mset(x, to, slot, choice.key);
    else if (choice.is_set)
        to = put_pair(x, put_text(to, "*3\r\n$3\r\nSET\r\n"), choice.key);
    else
        to = put_key(put_text(to, "*2\r\n$3\r\nGET\r\n"), choice.key);
    size_t size = (size_t)(to - c->out) - c->out_used;
    c->out_used += transport_seal(c->transport, c->out + c->out_used, size);
    c->staged++;
    x->issued++;
}

/* True if one more request can be sent together with those that are staged. */
static inline bool request_can_join(struct exchange *x, struct conn *c, uint64_t now)
{
    return c->in_flight + c->staged < c->depth && c->out_size - c->out_used >= c->largest_command && requests_left(x) &&
           request_next_due(x, conn_slot(c, c->in_flight + c->staged)) <= now;
}

/* Notes that the server may have had the requests from a place on only now. */
static inline void hand_over(struct conn *c, size_t first, uint64_t now)
{
    for (size_t i = first; i < c->in_flight; i++)
        conn_slot(c, i)->handed_over = now;
}

inline bool requests_flush(struct exchange *x, struct conn *c)
{
    while (c->out_sent < c->out_used) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_used - c->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            c->out_sent += (size_t)n;
        else if (errno == EAGAIN)
            return c->blocked = true;
        else if (errno != EINTR)
            return exchange_failed(x, errno);
    }
    if (c->blocked)
        hand_over(c, 0, now_ns());
    c->blocked = false;
    c->out_used = c->out_sent = 0;
    return true;
}

/* If sending took long, the client was away, perhaps before the kernel had the requests: the time
 * until now may not be the server's. */
static inline void check_sending(struct conn *c, size_t first, uint64_t sent)
{
    uint64_t now = now_ns();
    if (now - sent > OWN_DELAY_NS)
        hand_over(c, first, now);
}

inline bool requests_send(struct exchange *x, struct conn *c, uint64_t now)
{
    while (request_can_join(x, c, now))
        request_stage(x, c);
    if (c->staged > 1)
        now = now_ns(); /* staging took time that the server did not cause */
    if (x->in_flight == 0)
        x->looked = now; /* no reply can wait */
    for (size_t i = 0; i < c->staged; i++) {
        struct slot *slot = conn_slot(c, c->in_flight + i);
        slot->sent = slot->handed_over = now;
        slot->looked = x->looked;
        slot->behind = x->in_flight > 0 || i > 0 || x->last_reply > slot->intended;
        if (slot->is_set)
            x->sets++;
        else
            x->gets++;
    }
    if (x->sent == 0) {
        x->failure->under_load = true;
        x->first_sent = now;
        x->first_due = conn_slot(c, c->in_flight)->intended;
    }
    x->last_due = conn_slot(c, c->in_flight + c->staged - 1)->intended;
    if (x->in_flight == 0)
        x->next_timeout_check = now + x->timeout;
    if (x->unread_since == 0)
        x->unread_since = now;
    x->last_sent = now;
    x->sent += c->staged;
    x->in_flight += c->staged;
    size_t first = c->in_flight;
    c->in_flight += c->staged;
    c->staged = 0;
    x->staging = NULL;
    const char *problem = transport_problem(c->transport);
    if (problem != NULL) /* a command could not be encrypted */
        return exchange_lost(x, problem);
    if (!requests_flush(x, c))
        return false;
    check_sending(c, first, now);
    return true;
}
