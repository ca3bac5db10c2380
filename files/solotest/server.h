/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Server: what Redis reports about itself, whether a fill may empty it, and emptying it. All of
 * these are control commands outside of the load.
 */
#ifndef SOLOTEST_SERVER_H
#define SOLOTEST_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connection.h"
#include "failure.h"
#include "options.h"

struct server_state {
    bool known;
    char version[32];
    int64_t process_id, dbsize, used_memory, used_memory_rss, maxmemory, evicted_keys; /* -1: unknown */
    double cpu_seconds; /* of the main thread (since Redis 6.2) or else of the process; < 0: unknown */
};

/* Uses a connection of its own. A user who may not call INFO gets no figures; that is not a
 * failure. */
bool server_look(const struct settings *s, const struct credentials *who,
                 struct server_state *state, struct failure *f);

/* Fails if --protect is given and Redis holds data that no fill wrote. */
bool server_may_flush(struct conn *c, const struct settings *s, struct failure *f);

bool server_flush(struct conn *c, const struct settings *s, struct failure *f);

/* Asks for DBSIZE. `keys` stays as it is if the reply is not a number. */
bool server_count_keys(struct conn *c, const struct settings *s, int64_t *keys, struct failure *f);

/* A decimal number without leading zeros, as the keys of a fill are. */
bool is_canonical_number(const char *text, size_t length);

/* Finds "db3:keys=5,..." for any database but 0 that holds a key; NULL if there is none. */
const char *find_foreign_database(const char *keyspace);

#endif
