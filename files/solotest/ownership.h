/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Ownership: which data of a Redis this client wrote. A fill replaces that, and --protect makes sure that there is
 * nothing else.
 *
 * The proof does not sample. Before a fill writes its first key, it writes a note, a key of its own, with the names and
 * the sizes of the values that it will use; a test that writes others extends the note first. So all that this client
 * ever wrote has one of those names, however it was interrupted. The proof asks for the length of each of them until
 * as many are found as the Redis counts keys. Any other key is one too many, and a key of another type or length, or
 * with a time to live, is not a fill's.
 *
 * A protected fill then deletes its own keys by their names. It sends no FLUSHALL, so a key that somebody adds after
 * the check is not lost either. It looks at each name again, and Redis deletes those names in a transaction only if none
 * has changed since: a value that somebody writes under one of our names in between ends the fill.
 */
#ifndef SOLOTEST_OWNERSHIP_H
#define SOLOTEST_OWNERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "connection.h"
#include "failure.h"
#include "options.h"

#define NOTE_SIZE 128

struct note {
    int64_t keys;              /* names 0 to keys - 1; 0: there is no note */
    int64_t smallest, largest; /* values in bytes */
};

/* What a protected fill may delete. */
struct holdings {
    struct note note;
    int64_t found; /* keys below those names */
};

/* Fails if the Redis holds anything that this client did not write, or is more than one Redis. */
bool ownership_prove(struct conn *c, const struct settings *s, struct holdings *own, struct failure *f);

/* Deletes the keys that ownership_prove() found. Fails if one of them is another program's by now. */
bool ownership_delete(struct conn *c, const struct settings *s, const struct holdings *own, struct failure *f);

/* Writes the note of a fill. With --protect, fails unless it is now the only key. */
bool ownership_claim(struct conn *c, const struct settings *s, struct failure *f);

/* Extends the note by what a test will write. A Redis without a note gets none: it may hold foreign data. */
bool ownership_extend(struct conn *c, const struct settings *s, struct failure *f);

void note_write(const struct note *note, char text[NOTE_SIZE]);

/* False if this is not, to the byte, what note_write() writes. */
bool note_read(struct note *note, const char *text, size_t length);

/* Finds "db3:keys=5,..." for any database but 0 that holds a key; NULL if there is none. */
const char *find_foreign_database(const char *keyspace);

/* Finds "db0:keys=5,expires=1,..." for a database with keys that expire; NULL if there is none. */
const char *find_expiring_keys(const char *keyspace);

#endif
