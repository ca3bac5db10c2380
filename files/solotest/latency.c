/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "latency.h"

inline bool server_is_overloaded(const struct server_bound *b)
{
    return b->last_due > b->first_due && b->busy >= b->last_due - b->first_due;
}

/* Adds a reply to a series. Those before it were certainly under way only until the client looked. */
static inline void server_bound_join(struct server_bound *b, const struct slot *s)
{
    uint64_t idle_from = max_u64(s->looked, max_u64(b->group.sent, b->arrived));
    if (s->handed_over >= b->group.asked) /* always so on one connection */
        idle_from = max_u64(idle_from, b->group.asked);
    b->group.idle += since(s->handed_over, idle_from);
    b->group.asked = max_u64(b->group.asked, s->handed_over);
}

/* Begins a series of replies of which only the last will have a known time. A request that was sent
 * after the latest read was not in flight then, so the server may have been idle in between. */
static inline void server_bound_open(struct server_bound *b, const struct slot *s)
{
    if (b->group.open && s->sent <= b->group.read) {
        server_bound_join(b, s);
        return;
    }
    b->group.open = true;
    b->group.replies = 0;
    b->group.begin = max_u64(s->intended, b->free);
    b->group.late = since(s->sent, b->group.begin) > b->period / 2;
    b->group.sent = b->group.asked = s->handed_over;
    b->group.idle = 0;
}

/* Counts as work the time that this many replies may have taken. The rest may be that of replies which were
 * under way then and will be read from other connections; what nobody claims was a stall. */
static inline void server_bound_work(struct server_bound *b, uint64_t took, uint64_t arrived)
{
    uint64_t most = STALL_PERIODS * b->period * b->group.replies;
    uint64_t left = b->group.sent <= b->left_at ? b->left : 0;
    uint64_t counted = min_u64(took, most);
    uint64_t claimed = min_u64(left, since(b->period * b->group.replies, counted));
    b->busy += counted + claimed;
    b->left = took - counted + left - claimed;
    if (took > most)
        b->left_at = arrived;
}

static inline void server_bound_add(struct server_bound *b, const struct slot *s, const struct reading *r, bool is_last,
                                    struct latencies *l)
{
    if (b->first_due == 0)
        b->first_due = s->intended;
    b->last_due = max_u64(b->last_due, s->intended);
    server_bound_open(b, s);
    uint64_t begin = max_u64(s->intended, b->free);
    b->free = begin;
    b->group.read = r->at;
    b->group.replies++;
    if (is_last && r->stamped) {
        uint64_t arrived = since(r->at, r->waited);
        uint64_t took = since(since(arrived, max_u64(b->group.sent, b->arrived)), b->group.idle);
        server_bound_work(b, took, arrived);
        if (!b->group.late)
            b->free = max_u64(b->free, b->group.begin + took);
        b->arrived = max_u64(b->arrived, arrived);
    }
    if (is_last)
        b->group.open = false;
    l->server = min_u64(b->free, begin + b->period) - b->last_due;
    l->server_if_overloaded = max_u64(l->server, since(b->first_due + b->busy, b->last_due));
}

static inline uint64_t ideal_response(struct ideal_client *c, const struct slot *s, const struct reading *r,
                                      uint64_t wakeup)
{
    uint64_t arrived = r->at - (wakeup > OWN_DELAY_NS ? wakeup : 0);
    c->free = max_u64(s->intended, c->free) + since(arrived, max_u64(s->sent, c->arrived));
    c->arrived = max_u64(c->arrived, arrived);
    return c->free - s->intended;
}

/* The reply arrived when the kernel stamped it, if that is known, or else when it was read. */
static inline uint64_t punctual_latency(const struct slot *s, const struct reading *r, bool is_last)
{
    if (s->handed_over != s->sent || since(s->sent, s->intended) > PUNCTUAL_NS)
        return since(r->at, s->intended);
    uint64_t arrived = is_last && r->stamped ? since(r->at, r->waited) : r->at;
    return since(max_u64(arrived, s->sent), s->behind ? s->intended : s->sent);
}

inline struct latencies slot_complete(struct slot *s, struct ideal_client *c, struct server_bound *b,
                                      const struct reading *r, bool is_last)
{
    struct latencies l = {.service = since(r->at, s->sent),
                          .intended = since(r->at, s->intended),
                          .stamped = r->stamped && s->handed_over == s->sent};
    l.wakeup = min_u64(r->waited, l.service);
    l.response = ideal_response(c, s, r, l.wakeup);
    l.lateness = since(l.intended, l.response);
    l.punctual = punctual_latency(s, r, is_last);
    if (b->period > 0)
        server_bound_add(b, s, r, is_last, &l);
    return l;
}

inline struct latencies slot_complete_loop(struct slot *s, const struct reading *r)
{
    struct latencies l = {.service = since(r->at, s->sent), .intended = since(r->at, s->intended)};
    l.response = l.punctual = l.service;
    l.lateness = since(l.intended, l.service);
    s->replied = r->at;
    return l;
}
