/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Load engine: keeps as many requests in flight as the schedule and the slots allow, and passes
 * each reply with its time stamps to the measurement. A fill uses the same engine without a
 * measurement.
 */
#ifndef SOLOTEST_LOAD_H
#define SOLOTEST_LOAD_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chooser.h"
#include "connection.h"
#include "errors.h"
#include "measurement.h"
#include "options.h"
#include "pacer.h"
#include "values.h"

#define OUTPUT_MAX 262144u /* output buffer of one connection */

struct load {
    /* settings */
    const struct settings *settings;
    struct chooser *chooser;
    struct values values;
    struct pacer pacer;
    uint64_t planned; /* number of requests, with MSETs of keys; 0: until `stop_at` */
    uint64_t stop_at; /* send nothing after this time */
    uint32_t keys_each; /* above 1: every request is an MSET of so many keys, the last one of what is left of `planned` */
    bool stop_on_error;
    const char *name; /* for progress */
    struct measurement *measurement; /* NULL: do not measure */
    struct ideal_client ideal;
    struct server_bound bound;
    struct wall wall;
    struct failure *failure;
    /* resources */
    struct conn *conns;
    size_t conn_count, next_conn, slots;
    struct conn *staging; /* holds a command that waits for its due time */
    struct pollfd *polls;
    char *input;
    char value_head[32]; /* "$<value size>\r\n" */
    size_t value_head_size;
    /* results */
    uint64_t issued; /* of `planned` */
    uint64_t sent, gets, sets, ok, in_flight; /* requests */
    uint64_t more_keys; /* that successful MSETs wrote beyond one each */
    uint64_t not_sent; /* due when the time was over */
    uint64_t other_size; /* GETs that returned a value of another size */
    uint64_t first_due, last_due; /* of the requests that were sent */
    uint64_t first_sent, last_sent, last_reply;
    uint64_t timeout, next_timeout_check, next_progress;
    uint64_t unread_since; /* the first send since the client last looked for replies; 0: none */
    uint64_t looked;       /* the latest time at which no reply waited to be read, for certain */
    uint64_t yields, slow_yields, yielded_at; /* yielded_at: 0 unless the turn before this one yielded */
    struct errors errors;
};

static inline bool load_is_paced(const struct load *l)
{
    return l->pacer.mode != PACING_NONE;
}

/* Opens the connections and allocates everything that the run needs. */
bool load_open(struct load *l, size_t connections, size_t depth, const struct credentials *who);

/* Sends requests and receives replies until the end. Returns false if it could not end as
 * planned: `failure` holds the reason, and everything counted so far stays. */
bool load_run(struct load *l);

/* Fails if any request failed. */
bool load_fail_on_errors(struct load *l);

void load_close(struct load *l);

/* Each of these ends all requests in flight, counts them as failed, and returns false. */
bool load_abandon(struct load *l, const char *kind);
bool load_lost(struct load *l, const char *why);

/* The same for an error of a system call, which may be a lack of memory on this host. */
bool load_failed(struct load *l, int error);
bool load_protocol_error(struct load *l, const char *why);
bool load_wrong_size(struct load *l, int64_t size);

#endif
