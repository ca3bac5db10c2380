/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Exchange: the requests and replies of one phase between this client and its Redis, and the ways in which that can end
 * before its plan does. requests.h and replies.h are its two directions, load.h drives them.
 */
#ifndef SOLOTEST_EXCHANGE_H
#define SOLOTEST_EXCHANGE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chooser.h"
#include "connection.h"
#include "errors.h"
#include "latency.h"
#include "measurement.h"
#include "options.h"
#include "pacer.h"
#include "values.h"

struct exchange {
    /* settings */
    const struct settings *settings;
    struct chooser *chooser;
    struct values values;
    struct pacer pacer;
    uint64_t planned; /* number of requests, with MSETs of keys; 0: until `stop_at` */
    uint64_t stop_at; /* send nothing after this time */
    uint64_t end_at;  /* wait for no reply after this time, and call those that are missing unanswered; 0: wait */
    uint32_t
        keys_each; /* above 1: every request is an MSET of this many keys, the last one of what is left of `planned` */
    bool stop_on_error;
    bool may_be_stopped;             /* a request to stop the program ends the load as planned */
    const char *name;                /* for progress */
    struct measurement *measurement; /* NULL: do not measure */
    struct ideal_client ideal;
    struct server_bound bound;
    struct wall wall;
    struct failure *failure;
    /* resources */
    struct conn *conns;
    size_t conn_count, depth, next_conn, slots;
    struct conn *staging; /* holds a command that waits for its due time */
    struct pollfd *polls;
    char *input;
    char value_head[32]; /* "$<value size>\r\n" */
    size_t value_head_size;
    /* results */
    uint64_t issued;                          /* of `planned` */
    uint64_t sent, gets, sets, ok, in_flight; /* requests */
    uint64_t more_keys;                       /* that successful MSETs wrote beyond one each */
    int stopped;                              /* the signal that ended it as planned, or 0 */
    uint64_t not_sent;                        /* due when the time was over */
    uint64_t other_size;                      /* GETs that returned a value of another size */
    uint64_t first_due, last_due;             /* of the requests that were sent */
    uint64_t first_sent, last_sent, last_reply;
    uint64_t timeout, next_timeout_check, next_progress;
    uint64_t unread_since;                    /* the first send since the client last looked for replies; 0: none */
    uint64_t looked;                          /* the latest time at which surely no reply waited to be read */
    uint64_t yields, slow_yields, yielded_at; /* yielded_at: 0 unless the turn before this one yielded */
    struct errors errors;
};

static inline bool exchange_is_paced(const struct exchange *x)
{
    return x->pacer.mode != PACING_NONE;
}

/* Each of these ends all requests in flight, counts them as failed, and returns false. */
bool exchange_abandon(struct exchange *x, const char *kind);
bool exchange_lost(struct exchange *x, const char *why);

/* The same for an error of a system call, which may be a lack of memory on this host. */
bool exchange_failed(struct exchange *x, int error);
bool exchange_protocol_error(struct exchange *x, const char *why);
bool exchange_wrong_size(struct exchange *x, int64_t size);
bool exchange_timed_out(struct exchange *x);

/* Fails if any request failed. */
bool exchange_fail_on_errors(struct exchange *x);

#endif
