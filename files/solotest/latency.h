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
 *   punctual  what a client would have seen that is never late by a little: from the send to the arrival of the reply,
 *             if the request was sent up to PUNCTUAL_NS late, and by the client's own fault. If an earlier reply was
 *             missing when it was due, it counts from the intended start, and a request that was sent later than that
 *             counts with all its delay, as `intended`. So it is at most PUNCTUAL_NS below what an ideal client saw.
 *   server    the lower bound: what the server and its platform demonstrably caused. See below.
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

#define PUNCTUAL_NS (100 * NS_PER_US) /* later than that, a request is not punctual */
#define OWN_DELAY_NS NS_PER_MS        /* a shorter delay is a wake-up, which every client has */
/* What the server takes for a request beyond this many periods is a stall and not work. A server at the limit
 * takes one period on average; if its times are exponential, less than 1 % of its work is in what exceeds five
 * (exp(-5)). Two would take 14 % for stalls, and miss an overload of as much. */
#define STALL_PERIODS 5

struct slot {
    uint64_t intended;
    uint64_t sent;
    uint64_t handed_over; /* `sent`, or later if the client may have been away before it sent */
    uint64_t looked;      /* when the client had last looked for replies and read all that were there */
    uint64_t replied;     /* of the slot's previous request */
    uint32_t more_keys;   /* that an MSET writes beyond its first one */
    bool is_set;
    bool behind; /* an earlier reply was missing when it was due */
};

/* One read from a connection. */
struct reading {
    uint64_t at;     /* when it ended */
    uint64_t waited; /* how long its last byte had been in the socket then */
    bool stamped;    /* the kernel told `waited` */
    bool more;       /* bytes followed that are not decrypted yet: the read did not end with a reply */
    bool full;       /* there was no room for more: bytes may be left in the socket */
};

/* The client that `response` is about, for all slots. */
struct ideal_client {
    uint64_t free;    /* when it has its latest reply */
    uint64_t arrived; /* when the latest reply did arrive, as far as the client's own absence shows */
};

/* Replies that were read one after the other and of which only the last has a known time of arrival. */
struct reply_group {
    bool open;
    uint64_t replies; /* so far */
    bool late;        /* the client sent the first of them too late, see struct server_bound */
    uint64_t begin;   /* when the ideal client sends the first of them */
    uint64_t sent;    /* when the client sent it */
    uint64_t idle;    /* how long the server may have been idle since then */
    uint64_t asked;   /* until when that is counted: the latest send */
    uint64_t read;    /* the latest read */
};

/*
 * The lower bound, for all slots of a client together. It is the same recursion, with nothing in it but the
 * arrival of replies by the kernel's time stamps: an ideal client, served in the same order and with these
 * times alone, has the reply at `free`; `server` is that minus the intended start. A time stamp tells when the
 * last reply of a read arrived. For those before it no time is known, so they take none, and the time of all of
 * them counts from where the first could have started. Before each of the others was sent, the server may have
 * been idle since the client had last looked and not found the replies before it: that time does not count.
 *
 * An ideal client sends earlier than a real one, so it need not meet the same stall. Therefore:
 *
 *   - The time that the server takes for a request counts as 0 if the client sent it more than half a
 *     period later than the ideal one would. Yet if the times of all requests add up to the length
 *     of the schedule, the server was overloaded however late the client was: then the ideal client's
 *     reply comes as long after the start of the schedule as the server was busy. Stalls are left out
 *     of that sum: what exceeds STALL_PERIODS for each reply of a group.
 *   - A request that meets a stall longer than a period counts one period of it. Only the requests
 *     behind it, which were due during the stall, have certainly met it.
 *
 * With these rules the average and the percentiles of `server` do not exceed those of an ideal client
 * (tests/programs/solotest/virtual/test_bounds.c).
 */
struct server_bound {
    uint64_t period;              /* ns between two requests of the schedule; 0: no time stamps, no bound */
    uint64_t free;                /* when the ideal client has its latest reply */
    uint64_t busy;                /* the sum of all times that the server took, without the rest of long ones */
    uint64_t left, left_at;       /* the rest of a long one, and when it ended */
    uint64_t arrived;             /* the latest reply with a known time */
    uint64_t first_due, last_due; /* replies of several connections are read in another order */
    struct reply_group group;
};

struct latencies {
    uint64_t service, response, intended, lateness, punctual, wakeup, server, server_if_overloaded;
    bool stamped; /* the last three are known. They are not if the client was away while it sent */
};

/* True if the server alone could not have kept up with the schedule. A single due time makes none. */
bool server_is_overloaded(const struct server_bound *b);

/* Ends a request of a schedule. */
struct latencies slot_complete(struct slot *s, struct ideal_client *c, struct server_bound *b, const struct reading *r,
                               bool is_last);

/* Ends a request of a closed loop. */
struct latencies slot_complete_loop(struct slot *s, const struct reading *r);

#endif
