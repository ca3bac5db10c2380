/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Connection to Redis. hiredis connects, formats control commands and parses replies; the hot path sends
 * preformatted commands itself, so that nothing but a send() stands between two time stamps.
 */
#ifndef SOLOTEST_CONNECTION_H
#define SOLOTEST_CONNECTION_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"
#include "latency.h"
#include "options.h"

#define REPLY_SLACK (1u << 20)

struct conn {
    redisContext *context;
    redisReader *reader; /* reports types only: no allocation per reply */
    int fd;
    bool stamped; /* the kernel time-stamps what arrives */
    struct slot *slots; /* a ring of `depth`: in flight from `head` on, then staged */
    size_t depth, head, in_flight, staged;
    char *out; /* commands that are staged, or not yet taken by the socket */
    size_t out_size, out_used, out_sent;
    uint64_t unfinished; /* bytes since the last whole reply */
    char error_text[128];
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

bool conn_connect(struct conn *c, const struct settings *s, struct failure *f);
bool conn_authenticate(struct conn *c, const struct credentials *who, const struct settings *s,
                       struct failure *f);

/* Asks the kernel to note when data arrives. It costs about 2 % of the closed loop's throughput, so
 * only schedules do it: only there does it matter who was late. Unix sockets do not offer it. */
void conn_stamp(struct conn *c);

bool conn_allocate(struct conn *c, size_t depth, size_t largest_command, size_t share, struct failure *f);
void conn_close(struct conn *c);

/* One control command and its reply, which the caller frees. Unlike redisCommand() it obeys a
 * deadline as a whole and stops when a signal asks us to. */
redisReply *conn_command(struct conn *c, double timeout, struct failure *f, int argc, const char **argv);

#endif
