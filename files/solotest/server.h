/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Server: what Redis says of itself, whether a fill may empty it, and emptying it. All of it by control
 * commands outside of the load.
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
    int64_t process_id, dbsize, used_memory, used_memory_rss, maxmemory, evicted_keys; /* -1: not told */
    double cpu_seconds; /* of the main thread where Redis tells it (since 6.2), else of the process; below 0: not told */
};

/* Asks on a connection of its own. A user who may not call INFO learns less, but that is no failure. */
bool server_look(const struct settings *s, const struct credentials *who, struct server_state *state,
                 struct failure *f);

bool server_may_flush(struct conn *c, const struct settings *s, struct failure *f);
bool server_flush(struct conn *c, const struct settings *s, struct failure *f);

/* DBSIZE; `keys` stays as it is where the server does not tell. */
bool server_count_keys(struct conn *c, const struct settings *s, int64_t *keys, struct failure *f);

bool is_canonical_number(const char *text, size_t length);

/* "db3:keys=5,..." for any database but 0 that holds a key; NULL if there is none. */
const char *find_foreign_database(const char *keyspace);

#endif
