/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A load engine without a Redis: a test passes replies to it as bytes. Shared by unit tests and fuzz targets.
 */
#ifndef OFFLINE_H
#define OFFLINE_H

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "solotest/load.h"
#include "solotest/replies.h"
#include "solotest/requests.h"
#include "solotest/resp.h"

struct offline {
    struct settings settings;
    struct failure failure;
    struct chooser chooser;
    struct measurement *measurement; /* NULL unless offline_measure() was called */
    struct conn conn;
    struct exchange exchange;
    int peer; /* receives what the engine sends */
};

/* One connection over a socket pair, in a closed loop, so that every request is due at once. */
static inline void offline_open(struct offline *o, int64_t value_size, int read_mix, size_t depth)
{
    int pair[2];
    memset(o, 0, sizeof *o);
    o->settings = default_settings;
    o->settings.value_size = value_size;
    o->settings.key_count = 1000;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    o->peer = pair[1];
    chooser_init(&o->chooser, 1, 1000, PATTERN_UNIFORM, 0, read_mix);
    o->exchange = (struct exchange){.settings = &o->settings,
                                    .chooser = &o->chooser,
                                    .planned = UINT64_MAX,
                                    .stop_at = NEVER,
                                    .values = {.rng = byte_rng_seeded(1, 0), .size = (size_t)value_size},
                                    .failure = &o->failure,
                                    .conns = &o->conn,
                                    .conn_count = 1,
                                    .pacer = {.mode = PACING_NONE, .start = now_ns()}};
    o->exchange.value_head_size =
        (size_t)(put_length(o->exchange.value_head, (size_t)value_size) - o->exchange.value_head);
    o->conn.fd = pair[0];
    if (!conn_allocate(&o->conn, depth, command_size(&o->settings), OUTPUT_MAX, &o->failure))
        abort();
}

static inline void offline_measure(struct offline *o)
{
    o->measurement = measurement_create(&o->settings, &o->failure);
    if (o->measurement == NULL)
        abort();
    o->measurement->series.interval = NS_PER_S;
    o->exchange.measurement = o->measurement;
}

/* Puts as many requests in flight as the connection holds. */
static inline void offline_send(struct offline *o)
{
    struct conn *c = request_pick(&o->exchange);
    if (c == NULL)
        return;
    request_stage(&o->exchange, c);
    o->exchange.staging = c;
    (void)requests_send(&o->exchange, c, now_ns());
}

/* Passes bytes of replies to the engine, as one read. */
static inline bool offline_consume(struct offline *o, const char *data, size_t size)
{
    struct reading r = {.at = now_ns()};
    return replies_consume(&o->exchange, &o->conn, data, size, &r);
}

static inline void offline_close(struct offline *o)
{
    (void)close(o->conn.fd);
    (void)close(o->peer);
    conn_close(&o->conn);
    measurement_free(o->measurement);
}

#endif
