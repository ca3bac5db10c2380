/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The latencies of a request.
 *
 * A slot holds one request in flight; a connection has as many slots as its pipeline is deep. A
 * request waits for its intended start and for the previous reply of its slot. Then it is sent, and
 * its reply is read.
 *
 *   service   reply - send. What a client without a schedule sees, and what the brief measured.
 *   intended  reply - intended start. It includes every delay: the upper bound.
 *   response  what an ideal client, which never loses time itself, would have seen: Lindley's
 *             recursion from queueing theory, for all slots together, because they share one server.
 *             The server took time for a reply only from the later of two events, the sending of its
 *             request and the arrival of the reply before it. The ideal client's reply comes that long
 *             after max(intended start, its reply before). A stall of the server counts in every
 *             request that had to wait for it, a stall of the client in none, nor does the queue of
 *             all that the client sends at once to catch up.
 *   lateness  intended - response: what the client itself added, from its first late wake-up to the
 *             last request that had to catch up.
 *   wakeup    how long the reply had waited in the socket when it was read, by the kernel's receive
 *             time stamp.
 *   server    the lower bound: what the server and its platform caused for certain. See below.
 *
 * While the client keeps up, `response` counts from the intended start if the previous reply came
 * after it, otherwise from the actual send; `lateness` is the actual send minus the earliest possible
 * one. The recursion differs from this simple rule only after the client has lost time: requests that
 * queue behind that delay count it as `lateness`, where the simple rule would blame the server.
 *
 * In a closed loop the intended start is the slot's previous reply, so `response` is `service`.
 *
 * `response` takes a long wait in the socket out, because it proves that the client was away. A
 * short one stays in it, as every client has to be woken.
 */
#ifndef SOLOTEST_LATENCY_H
#define SOLOTEST_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

#define OWN_DELAY_NS NS_PER_MS /* a shorter delay is a wake-up, which every client has */
#define STALL_PERIODS 5        /* what a server takes for a request beyond that is a stall and not work */
#define CLAIMED_PERIODS 2      /* see server_bound_work() */

struct slot {
    uint64_t intended;
    uint64_t sent;
    uint64_t handed_over; /* `sent`, or later if the client may have been away before it sent */
    uint64_t looked;      /* when the client had last looked for replies and read all that were there */
    uint64_t replied;     /* of the slot's previous request */
    uint32_t more_keys;   /* that an MSET writes beyond its first one */
    bool is_set;
};

/* One read from a connection. */
struct reading {
    uint64_t at;     /* when it ended */
    uint64_t waited; /* how long its last byte had been in the socket then */
    bool stamped;    /* the kernel told `waited` */
    bool more;       /* bytes followed that are no plain text yet: the read did not end with a reply */
    bool full;       /* there was no room for more: bytes may be left in the socket */
};

/* The client that `response` is about, for all slots. */
struct ideal_client {
    uint64_t free;    /* when it has its latest reply */
    uint64_t arrived; /* when the latest reply did arrive, as far as the client's own absence shows */
};

/*
 * The lower bound, for all slots of a client together. It is the same recursion, with nothing in it but
 * the arrival of replies by the kernel's time stamps: an ideal client, served in the same order and with
 * these times alone, has the reply at `free`; `server` is that minus the intended start. A time stamp tells when the last reply of a read arrived. For those before it no
 * time is known, so they take none, and the time of all of them counts from where the first could
 * have started. Before each of the others was sent, the server may have been idle since the client had last
 * looked and not found the replies before it: that time does not count.
 *
 * An ideal client sends earlier than a real one, so it need not meet the same stall. Therefore:
 *
 *   - The time that the server takes for a request counts as 0 if the client sent it more than half a
 *     period later than the ideal one would. Yet if the times of all requests add up to the length
 *     of the schedule, the server was overloaded however late the client was: then the ideal client's
 *     reply comes as long after the start of the schedule as the server was busy. Stalls are left out
 *     of that sum: what exceeds STALL_PERIODS for each reply whose time is known together.
 *   - A request that meets a stall longer than a period counts one period of it. Only the requests
 *     behind it, which were due during the stall, have certainly met it.
 *
 * With these rules the average and the percentiles of `server` do not exceed those of an ideal client
 * (tests/programs/solotest/virtual/test_bounds.c).
 */
struct server_bound {
    uint64_t period;     /* ns between two requests of the schedule; 0: no time stamps, no bound */
    uint64_t free;       /* when the ideal client has its latest reply */
    uint64_t busy;       /* the sum of all times that the server took, without the rest of long ones */
    uint64_t left, left_at; /* the rest of a long one, and when it ended */
    uint64_t arrived;    /* the latest reply with a known time */
    uint64_t first_due, last_due; /* replies of several connections are read in another order */
    struct {
        bool open;
        uint64_t replies; /* so far */
        bool late;      /* see above */
        uint64_t begin; /* when the ideal client sends the first of them */
        uint64_t sent;  /* when the client sent it */
        uint64_t idle;  /* how long the server may have been idle since then */
        uint64_t asked; /* until when that is counted: the latest send */
        uint64_t read;  /* the latest read */
    } unknown;          /* the replies since then */
};

struct latencies {
    uint64_t service, response, intended, lateness, wakeup, server, server_if_overloaded;
    bool stamped; /* the last three are known. They are not if the client was away while it sent */
};

/* True if the server alone could not have kept up with the schedule. A single due time makes none. */
static inline bool server_is_overloaded(const struct server_bound *b)
{
    return b->last_due > b->first_due && b->busy >= b->last_due - b->first_due;
}

/* Adds a reply to a series. Those before it were certainly under way only until the client looked. */
static inline void server_bound_join(struct server_bound *b, const struct slot *s)
{
    uint64_t idle_from = max_u64(s->looked, max_u64(b->unknown.sent, b->arrived));
    if (s->handed_over >= b->unknown.asked) /* always so on one connection */
        idle_from = max_u64(idle_from, b->unknown.asked);
    b->unknown.idle += since(s->handed_over, idle_from);
    b->unknown.asked = max_u64(b->unknown.asked, s->handed_over);
}

/* Begins a series of replies of which only the last will have a known time. A request that was sent
 * after the latest read was not in flight then, so the server may have been idle in between. */
static inline void server_bound_open(struct server_bound *b, const struct slot *s)
{
    if (b->unknown.open && s->sent <= b->unknown.read) {
        server_bound_join(b, s);
        return;
    }
    b->unknown.open = true;
    b->unknown.replies = 0;
    b->unknown.begin = max_u64(s->intended, b->free);
    b->unknown.late = since(s->sent, b->unknown.begin) > b->period / 2;
    b->unknown.sent = b->unknown.asked = s->handed_over;
    b->unknown.idle = 0;
}

/* Counts as work what so many replies may have taken. The rest may be that of replies which were under way then and will
 * be read from other connections; what nobody claims was a stall. */
static inline void server_bound_work(struct server_bound *b, uint64_t took, uint64_t arrived)
{
    uint64_t most = STALL_PERIODS * b->period * b->unknown.replies;
    uint64_t left = b->unknown.sent <= b->left_at ? b->left : 0;
    uint64_t counted = min_u64(took, most);
    uint64_t claimed = min_u64(left, since(CLAIMED_PERIODS * b->period * b->unknown.replies, counted));
    b->busy += counted + claimed;
    b->left = took - counted + left - claimed;
    if (took > most)
        b->left_at = arrived;
}

static inline void server_bound_add(struct server_bound *b, const struct slot *s,
                                    const struct reading *r, bool is_last, struct latencies *l)
{
    if (b->first_due == 0)
        b->first_due = s->intended;
    b->last_due = max_u64(b->last_due, s->intended);
    server_bound_open(b, s);
    uint64_t begin = max_u64(s->intended, b->free);
    b->free = begin;
    b->unknown.read = r->at;
    b->unknown.replies++;
    if (is_last && r->stamped) {
        uint64_t arrived = since(r->at, r->waited);
        uint64_t took = since(since(arrived, max_u64(b->unknown.sent, b->arrived)), b->unknown.idle);
        server_bound_work(b, took, arrived);
        if (!b->unknown.late)
            b->free = max_u64(b->free, b->unknown.begin + took);
        b->arrived = max_u64(b->arrived, arrived);
    }
    if (is_last)
        b->unknown.open = false;
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

/* Ends a request of a schedule. */
static inline struct latencies slot_complete(struct slot *s, struct ideal_client *c, struct server_bound *b,
                                             const struct reading *r, bool is_last)
{
    struct latencies l = {.service = since(r->at, s->sent), .intended = since(r->at, s->intended),
                          .stamped = r->stamped && s->handed_over == s->sent};
    l.wakeup = min_u64(r->waited, l.service);
    l.response = ideal_response(c, s, r, l.wakeup);
    l.lateness = since(l.intended, l.response);
    if (b->period > 0)
        server_bound_add(b, s, r, is_last, &l);
    return l;
}

/* Ends a request of a closed loop. */
static inline struct latencies slot_complete_loop(struct slot *s, const struct reading *r)
{
    struct latencies l = {.service = since(r->at, s->sent), .intended = since(r->at, s->intended)};
    l.response = l.service;
    l.lateness = since(l.intended, l.service);
    s->replied = r->at;
    return l;
}

#endif
