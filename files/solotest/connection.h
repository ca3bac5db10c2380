/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Connection to Redis, with TLS or without. hiredis formats control commands and parses their replies. The load does
 * without it, so that only send() and recv() run between two time stamps.
 */
#ifndef SOLOTEST_CONNECTION_H
#define SOLOTEST_CONNECTION_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "failure.h"
#include "latency.h"
#include "options.h"
#include "reply.h"
#include "transport.h"

#define REPLY_SLACK (1u << 20) /* a reply this much longer than expected is refused */

struct conn {
    redisReader *reader; /* of the replies to control commands */
    int fd;
    bool open;
    bool ready;                  /* the load can use it */
    struct transport *transport; /* NULL without TLS */
    bool stamped;                /* the kernel time-stamps incoming data */
    bool stamp_seen;
    struct slot *slots; /* a ring of `depth`: from `head` on those in flight, then those staged */
    size_t depth, head, in_flight, staged;
    size_t owed; /* replies that are still to come, but that nobody waits for now */
    char *out;   /* commands that are staged, or that the socket has not yet accepted */
    size_t out_size, out_used, out_sent, largest_command;
    bool blocked;       /* the socket has not accepted all of it at once */
    struct reply reply; /* that is being received */
};

struct credentials {
    const char *user;
    char password[1024];
    bool present;
};

static inline struct slot *conn_slot(struct conn *c, size_t place)
{
    size_t i = c->head + place;
    return &c->slots[i < c->depth ? i : i - c->depth];
}

/* A reader that refuses large arrays, which no control command returns: for the 13 bytes "*2147483647" hiredis would
 * allocate 16 GB, and freeing those takes longer than any time-out. NULL if there is not enough memory. */
redisReader *conn_reader(void);

/* With TLS, includes the handshake. --connect-timeout holds for everything. */
bool conn_connect(struct conn *c, const struct settings *s, struct failure *f);
bool conn_authenticate(struct conn *c, const struct credentials *who, const struct settings *s, struct failure *f);

/* Asks the kernel to time-stamp incoming data. That costs about 2 % of a closed loop's
 * throughput, so only schedules do it, where it matters who was late. Unix sockets do not
 * support it. */
void conn_stamp(struct conn *c);

/* Waits until stamps come, since the kernel begins with them for the whole machine, and later where it is busy.
 * Gives up after STAMP_WAIT seconds: a run without them has no lower bound and is still valid. */
#define STAMP_WAIT 2.0
bool conn_await_stamp(struct conn *c, const struct settings *s, struct failure *f);

bool conn_allocate(struct conn *c, size_t depth, size_t largest_command, size_t share, struct failure *f);

/* Closes the connection and forgets what was under way. What conn_allocate() allocated stays. */
void conn_disconnect(struct conn *c);
void conn_close(struct conn *c);

/* What is known about a read. */
struct arrival {
    bool whole;     /* it ended with text */
    bool full;      /* there was no room for more: bytes may be left in the socket */
    bool stamped;   /* the kernel told when its last byte arrived */
    uint64_t stamp; /* then: by the wall clock */
};

/* Like recv() into READ_SIZE bytes; -1 with EAGAIN also if what came is not text yet. */
ssize_t conn_receive(struct conn *c, char *to, int flags, struct arrival *a);

/* Why the last conn_receive() failed, by `errno`. */
const char *conn_problem(const struct conn *c);

/* Receives the replies that are still owed, until a time. */
bool conn_settle(struct conn *c, uint64_t deadline, const char *name, struct failure *f);

/* Takes bytes of replies that are owed. Returns how many it took. */
size_t conn_discard(struct conn *c, const char *data, size_t size);

/* Stops waiting for the replies to the requests of the load: they are owed. Returns false if the connection is useless,
 * because a request was sent only in part. */
bool conn_leave(struct conn *c);

/* Sends control commands that are formatted already, and receives one reply for each. The caller frees those that are
 * not NULL, also after a failure. `name` is for messages. Replies that do not come in time are owed: the connection can
 * be used further. After any other failure nothing is owed. */
bool conn_exchange(struct conn *c, double timeout, struct failure *f, const char *name, const char *commands,
                   size_t size, redisReply **replies, size_t count);

/* Sends one control command and returns the reply, which the caller frees; NULL on failure.
 * Unlike redisCommand() it has one deadline for the whole exchange, and ends if a signal asks
 * the program to stop. */
redisReply *conn_command(struct conn *c, double timeout, struct failure *f, int argc, const char **argv);

#endif
