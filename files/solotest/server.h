/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Server: what Redis reports about itself, and emptying it. All of these are control commands outside
 * of the load.
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
    char valkey_version
        [32];        /* empty unless it is Valkey, whose `version` is that of the Redis that it is compatible with */
    char run_id[48]; /* another one after each start of the server */
    int64_t process_id, dbsize, used_memory, used_memory_rss, maxmemory, evicted_keys; /* -1: unknown */
    double cpu_seconds; /* of the main thread (since Redis 6.2) or else of the process; < 0: unknown */
};

/* Uses a connection of its own. A user who may not call INFO gets no figures; that is not a
 * failure, unless a fill would then empty what may be a node of a cluster. A cluster and Sentinel are. */
bool server_look(const struct settings *s, const struct credentials *who, struct server_state *state,
                 struct failure *f);

/* The same on a connection that is open. */
bool server_ask(struct conn *c, const struct settings *s, struct server_state *state, struct failure *f);

/* How long a command that frees memory may take, in seconds: gigabytes that were swapped out are slow. */
double slow_timeout(const struct settings *s);

/* Deletes all data, also of others. */
bool server_flush(struct conn *c, const struct settings *s, struct failure *f);

#define NOTE_KEY "memstretch:fill" /* see ownership.h */

/* Counts the keys of database 0 without the note; -1 if the server does not tell. */
bool server_count_keys(struct conn *c, const struct settings *s, int64_t *keys, struct failure *f);

enum server_mode { MODE_UNKNOWN, MODE_ALONE, MODE_CLUSTER, MODE_SENTINEL };

/* What kind of server a reply to INFO is from. */
enum server_mode info_mode(const char *info);

/* Copies the value of the line "name:value\r\n" of INFO; an empty text if there is none. */
void info_text(const char *info, const char *name, char *to, size_t size);

/* Like info_text(), for a number; -1 if there is none. */
int64_t info_number(const char *info, const char *name);

#endif
