/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The four latencies of a request.
 *
 * A slot holds one request in flight; a connection has as many slots as its pipeline is deep. A
 * request waits for its intended start and for the previous reply of its slot. Then it is sent, and
 * its reply is read.
 *
 *   service   reply - send. What a client without a schedule sees, and what the brief measured.
 *   intended  reply - intended start. It includes every delay: the upper bound.
 *   response  what an ideal client, which never loses time itself, would have seen. It sends at
 *             max(intended start, ideal reply of the slot's previous request), and its reply comes
 *             one service time later: Lindley's recursion from queueing theory. A stall of the
 *             server counts in every request that had to wait for it, a stall of the client in none.
 *   lateness  intended - response: what the client itself added, from its first late wake-up to the
 *             last request that had to catch up.
 *
 * While the client keeps up, `response` counts from the intended start if the previous reply came
 * after it, otherwise from the actual send; `lateness` is the actual send minus the earliest possible
 * one. The recursion differs from this simple rule only after the client has lost time: requests that
 * queue behind that delay count it as `lateness`, where the simple rule would blame the server.
 *
 * `read_delay` is how long a reply waited in the socket, if the kernel's receive time stamp proves
 * that the client was away. The client caused it, so it counts as `lateness` too.
 */
#ifndef SOLOTEST_LATENCY_H
#define SOLOTEST_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

struct slot {
    uint64_t intended;
    uint64_t sent;
    uint64_t replied;    /* of the slot's previous request */
    uint64_t ideal_free; /* the same for the ideal client */
    bool is_set;
};

struct latencies {
    uint64_t service, response, intended, lateness;
};

static inline struct latencies slot_complete(struct slot *s, uint64_t replied, uint64_t read_delay)
{
    struct latencies l;
    uint64_t ideal_sent = max_u64(s->intended, s->ideal_free);
    l.service = since(replied, s->sent);
    s->ideal_free = ideal_sent + since(l.service, read_delay);
    l.response = s->ideal_free - s->intended;
    l.intended = since(replied, s->intended);
    l.lateness = since(l.intended, l.response);
    s->replied = replied;
    return l;
}

#endif
