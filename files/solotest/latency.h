/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The four latencies.
 *
 * A slot is the place of one request in flight: one per connection, or as many as the depth of the
 * pipeline. A request waits for its intended start and for the slot's previous reply, then it is
 * sent, then its reply is read.
 *
 *   service   reply - send. What a client without a schedule sees, and what the brief measured.
 *   intended  reply - intended start. Nothing is left out: the upper bound.
 *   response  what a client that never loses time itself would have seen. Its send time `ideal` is
 *             max(intended start, ideal reply of the slot's previous request), and its reply comes
 *             one service later: Lindley's recursion of queueing theory. So a stalled server charges
 *             every request that had to wait for it, and a stalled client charges none.
 *   lateness  intended - response: what the client itself added, from its first late wake-up to the
 *             last request that still had to catch up.
 *
 * While the client keeps up, this is "response counts from the intended start if the previous reply
 * came after it, else from the actual send", and lateness is "actual send minus the earliest
 * possible send". It differs only after the client itself lost time: then the requests that queue
 * behind that loss are charged to `lateness`, where the simple rule would charge the server.
 *
 * `read_delay` is the time a reply lay in the socket before we read it, when the kernel's receive
 * time stamp proves that it was the client who was away. It belongs to the client as well.
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
