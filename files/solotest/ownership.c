/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "ownership.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "numbers.h"
#include "resp.h"
#include "server.h"
#include "signals.h"

#define NOTE_FORMAT "solotest 1: keys 0 to %" PRId64 ", values of %" PRId64 " to %" PRId64 " bytes"
#define NOTE_SCAN "solotest 1: keys 0 to %13" SCNd64 ", values of %13" SCNd64 " to %13" SCNd64 " bytes"

/* Keys of one exchange: enough that the round trip does not matter, few enough for a socket's buffers. */
#define BATCH 512
#define KEYS_SIZE (32 + BATCH * 24) /* the head of a command, and keys with their lengths */

/* A watched key may change once in a while because Redis evicts it. */
#define TRIES 3

void note_write(const struct note *note, char text[NOTE_SIZE])
{
    (void)snprintf(text, NOTE_SIZE, NOTE_FORMAT, note->keys - 1, note->smallest, note->largest);
}

bool note_read(struct note *note, const char *text, size_t length)
{
    struct note read = {0};
    char again[NOTE_SIZE];
    int64_t last = 0;
    if (length >= NOTE_SIZE || sscanf(text, NOTE_SCAN, &last, &read.smallest, &read.largest) != 3 || last < 0 ||
        (double)last >= MAX_KEYS || read.smallest < 1 || read.largest < read.smallest)
        return false;
    read.keys = last + 1;
    note_write(&read, again);
    if (strlen(again) != length || memcmp(again, text, length) != 0)
        return false;
    *note = read;
    return true;
}

const char *find_foreign_database(const char *keyspace)
{
    for (const char *line = keyspace; line != NULL; line = strchr(line, '\n')) {
        unsigned database;
        unsigned long long keys;
        line += *line == '\n';
        if (sscanf(line, "db%9u:keys=%18llu", &database, &keys) == 2 && database != 0 && keys > 0)
            return line;
    }
    return NULL;
}

const char *find_expiring_keys(const char *keyspace)
{
    for (const char *line = keyspace; line != NULL; line = strchr(line, '\n')) {
        unsigned database;
        unsigned long long keys, expiring;
        line += *line == '\n';
        if (sscanf(line, "db%9u:keys=%18llu,expires=%18llu", &database, &keys, &expiring) == 3 && expiring > 0)
            return line;
    }
    return NULL;
}

__attribute__((format(printf, 2, 3))) static bool refuse(struct failure *f, const char *format, ...)
{
    char why[320];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return fail(f, EXIT_REFUSED, "refused_foreign_data", "refused to empty this Redis: %s", why);
}

static bool refuse_reply(struct failure *f, const redisReply *reply)
{
    return refuse(f, "cannot inspect its data: %.100s", reply->str != NULL ? reply->str : "unexpected reply");
}

static bool refuse_line(struct failure *f, const char *what, const char *line)
{
    return refuse(f, "%s: %.*s", what, (int)min_u64(strcspn(line, "\r\n"), 60), line);
}

/* Asks for a section of INFO; NULL if that failed or was refused. The caller frees the reply. */
static redisReply *ask_info(struct conn *c, const struct settings *s, const char *section, struct failure *f)
{
    const char *argv[] = {"INFO", section};
    redisReply *reply = conn_command(c, s->timeout, f, COUNT_OF(argv), argv);
    if (reply == NULL || (reply->type != REDIS_REPLY_ERROR && reply->str != NULL))
        return reply;
    (void)refuse_reply(f, reply);
    freeReplyObject(reply);
    return NULL;
}

static bool check_keyspace(struct conn *c, const struct settings *s, struct failure *f)
{
    redisReply *reply = ask_info(c, s, "keyspace", f);
    if (reply == NULL)
        return false;
    const char *foreign = find_foreign_database(reply->str), *expiring = find_expiring_keys(reply->str);
    bool ours = true;
    if (foreign != NULL)
        ours = refuse_line(f, "another database holds data", foreign);
    else if (expiring != NULL)
        ours = refuse_line(f, "it holds keys that expire, which no fill wrote", expiring);
    freeReplyObject(reply);
    return ours;
}

static bool check_replication(struct conn *c, const struct settings *s, struct failure *f)
{
    redisReply *reply = ask_info(c, s, "replication", f);
    if (reply == NULL)
        return false;
    char role[32];
    info_text(reply->str, "role", role, sizeof role);
    int64_t replicas = info_number(reply->str, "connected_slaves");
    freeReplyObject(reply);
    if (strcmp(role, "master") != 0)
        return refuse(f, "its role is '%s', not 'master'", role);
    if (replicas != 0)
        return refuse(
            f, replicas > 0 ? "it has %" PRId64 " replicas" : "its number of replicas is not known (%" PRId64 ")",
            replicas);
    return true;
}

static bool count_keys(struct conn *c, const struct settings *s, int64_t *keys, struct failure *f)
{
    if (!server_count_keys(c, s, keys, f))
        return false;
    return *keys >= 0 || refuse(f, "cannot count its keys");
}

/* Asks for the note. `note->keys` is 0 if there is none, or a key of that name that is not ours. */
static bool ask_note(struct conn *c, const struct settings *s, struct note *note, struct failure *f)
{
    const char *argv[] = {"GETRANGE", NOTE_KEY, "0", "127"};
    redisReply *reply = conn_command(c, s->timeout, f, COUNT_OF(argv), argv);
    *note = (struct note){0};
    if (reply == NULL)
        return false;
    if (reply->type == REDIS_REPLY_STRING)
        (void)note_read(note, reply->str, reply->len);
    freeReplyObject(reply);
    return true;
}

/* Without a note, every key is foreign. One of them shows the user whose data this is. */
static bool check_empty(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *argv[] = {"RANDOMKEY"};
    redisReply *reply = conn_command(c, s->timeout, f, COUNT_OF(argv), argv);
    if (reply == NULL)
        return false;
    bool empty = reply->type == REDIS_REPLY_NIL;
    if (reply->type == REDIS_REPLY_STRING)
        (void)refuse(f, "it holds keys such as '%.60s' and no note of a fill (%s)", reply->str, NOTE_KEY);
    else if (!empty)
        (void)refuse_reply(f, reply);
    freeReplyObject(reply);
    return empty;
}

static bool is_ours(const struct note *note, int64_t name, const redisReply *reply, int64_t *found, struct failure *f)
{
    if (reply->type != REDIS_REPLY_INTEGER)
        return refuse(f, "its key %" PRId64 ": %.100s", name, reply->str != NULL ? reply->str : "unexpected reply");
    if (reply->integer == 0)
        return true; /* absent, or empty: then it is one key too many */
    if (reply->integer < note->smallest || reply->integer > note->largest)
        return refuse(f, "no fill wrote its key %" PRId64 " (a value of %lld bytes)", name, reply->integer);
    *found += 1;
    return true;
}

static void free_replies(redisReply **replies, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (replies[i] != NULL)
            freeReplyObject(replies[i]);
}

/* Writes the head of a command with `count` keys, and the keys from `first` on. */
static char *put_keys(char *to, const char *name, int64_t first, size_t count)
{
    char *end = put_text(to, "*");
    end = put_digits(end, 1 + count, count_digits(1 + count));
    end = put_text(end, "\r\n");
    end = put_length(end, strlen(name));
    end = put_text(put_text(end, name), "\r\n");
    for (size_t i = 0; i < count; i++)
        end = put_key(end, (uint64_t)first + i);
    return end;
}

static bool expect(const redisReply *reply, int type, const char *name, struct failure *f)
{
    return reply->type == type || refuse(f, "%s: %.100s", name, reply->str != NULL ? reply->str : "unexpected reply");
}

/* Asks for the lengths of `count` keys, in one exchange. With `watch`, the next EXEC does nothing if one of them has
 * changed since. */
static bool find_batch(struct conn *c, const struct settings *s, const struct note *note, int64_t first, size_t count,
                       bool watch, int64_t *found, struct failure *f)
{
    static char commands[KEYS_SIZE + BATCH * 48]; /* "*2\r\n$6\r\nSTRLEN\r\n", a length and 13 digits, line ends */
    redisReply *replies[1 + BATCH] = {NULL};
    size_t before = watch ? 1 : 0;
    char *end = watch ? put_keys(commands, "WATCH", first, count) : commands;
    for (size_t i = 0; i < count; i++)
        end = put_key(put_text(end, "*2\r\n$6\r\nSTRLEN\r\n"), (uint64_t)first + i);
    bool ours = conn_exchange(c, s->timeout, f, "STRLEN", commands, (size_t)(end - commands), replies, before + count);
    ours = ours && (!watch || expect(replies[0], REDIS_REPLY_STATUS, "WATCH", f));
    for (size_t i = 0; i < count; i++)
        ours = ours && is_ours(note, first + (int64_t)i, replies[before + i], found, f);
    free_replies(replies, before + count);
    return ours;
}

/* Counts our keys. Once `wanted` are found, no other key can exist. */
static bool find_own_keys(struct conn *c, const struct settings *s, struct holdings *own, int64_t wanted,
                          struct failure *f)
{
    for (int64_t first = 0; first < own->note.keys && own->found < wanted; first += BATCH) {
        size_t count = (size_t)min_u64(BATCH, (uint64_t)(own->note.keys - first));
        if (interrupted)
            return fail_interrupted(f);
        if (!find_batch(c, s, &own->note, first, count, false, &own->found, f))
            return false;
    }
    return true;
}

bool ownership_prove(struct conn *c, const struct settings *s, struct holdings *own, struct failure *f)
{
    int64_t keys;
    *own = (struct holdings){0};
    if (!check_replication(c, s, f) || !check_keyspace(c, s, f) || !count_keys(c, s, &keys, f) ||
        !ask_note(c, s, &own->note, f))
        return false;
    if (own->note.keys == 0)
        return check_empty(c, s, f);
    /* The second look is for what another client did during the first. */
    if (!find_own_keys(c, s, own, keys, f) || !check_replication(c, s, f) || !check_keyspace(c, s, f) ||
        !count_keys(c, s, &keys, f))
        return false;
    int64_t foreign = keys - own->found;
    return foreign == 0 || refuse(f, "it holds %" PRId64 " key%s that no fill wrote", foreign, foreign == 1 ? "" : "s");
}

/* Begins a transaction. What follows is sent only if Redis has begun one: it would be executed at once otherwise. */
static bool begin_transaction(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *argv[] = {"MULTI"};
    redisReply *reply = conn_command(c, s->timeout, f, COUNT_OF(argv), argv);
    if (reply == NULL)
        return false;
    bool begun = expect(reply, REDIS_REPLY_STATUS, "MULTI", f);
    freeReplyObject(reply);
    return begun;
}

/* Reads the reply of EXEC: how many keys DEL has deleted, or -1 if a watched one had changed. */
static bool read_deleted(const redisReply *reply, int64_t *deleted, struct failure *f)
{
    if (reply->type == REDIS_REPLY_NIL) {
        *deleted = -1;
        return true;
    }
    if (!expect(reply, REDIS_REPLY_ARRAY, "EXEC", f))
        return false;
    if (reply->elements != 1 || reply->element[0]->type != REDIS_REPLY_INTEGER)
        return refuse(f, "EXEC: unexpected reply");
    *deleted = reply->element[0]->integer;
    return true;
}

/* Deletes `count` names unless one of them has changed since it was watched: then `deleted` is -1. */
static bool delete_watched(struct conn *c, const struct settings *s, int64_t first, size_t count, int64_t *deleted,
                           struct failure *f)
{
    static char commands[KEYS_SIZE + 32];
    redisReply *replies[2] = {NULL};
    if (!begin_transaction(c, s, f))
        return false;
    char *end = put_text(put_keys(commands, "DEL", first, count), "*1\r\n$4\r\nEXEC\r\n");
    bool done =
        conn_exchange(c, slow_timeout(s), f, "DEL", commands, (size_t)(end - commands), replies, COUNT_OF(replies)) &&
        expect(replies[0], REDIS_REPLY_STATUS, "DEL", f) && read_deleted(replies[1], deleted, f);
    free_replies(replies, COUNT_OF(replies));
    return done;
}

/* Looks at `count` names again and deletes them, and adds the number of keys that existed to `deleted`. */
static bool delete_batch(struct conn *c, const struct settings *s, const struct note *note, int64_t first, size_t count,
                         int64_t *deleted, struct failure *f)
{
    for (int i = 0; i < TRIES; i++) {
        int64_t found = 0, gone = 0;
        if (!find_batch(c, s, note, first, count, true, &found, f) || !delete_watched(c, s, first, count, &gone, f))
            return false;
        if (gone >= 0) {
            *deleted += gone;
            return true;
        }
    }
    return refuse(f, "another client changes its keys %" PRId64 " to %" PRId64, first, first + (int64_t)count - 1);
}

bool ownership_delete(struct conn *c, const struct settings *s, const struct holdings *own, struct failure *f)
{
    int64_t deleted = 0;
    for (int64_t first = 0; first < own->note.keys && deleted < own->found; first += BATCH) {
        size_t count = (size_t)min_u64(BATCH, (uint64_t)(own->note.keys - first));
        if (interrupted)
            return fail_interrupted(f);
        if (!delete_batch(c, s, &own->note, first, count, &deleted, f))
            return false;
    }
    return true;
}

static bool write_note(struct conn *c, const struct settings *s, const struct note *note, struct failure *f)
{
    char text[NOTE_SIZE];
    const char *argv[] = {"SET", NOTE_KEY, text};
    note_write(note, text);
    redisReply *reply = conn_command(c, s->timeout, f, COUNT_OF(argv), argv);
    if (reply == NULL)
        return false;
    bool written = reply->type == REDIS_REPLY_STATUS;
    if (!written)
        (void)fail(f, EXIT_REQUESTS, "reply", "cannot write the note %s: %.100s", NOTE_KEY,
                   reply->str != NULL ? reply->str : "unexpected reply");
    freeReplyObject(reply);
    return written;
}

bool ownership_claim(struct conn *c, const struct settings *s, struct failure *f)
{
    struct note note = {.keys = s->key_count, .smallest = s->value_size, .largest = s->value_size};
    int64_t keys;
    if (!write_note(c, s, &note, f))
        return false;
    if (!s->protect)
        return true;
    return count_keys(c, s, &keys, f) &&
           (keys == 0 ||
            refuse(f, "another client has just written %" PRId64 " key%s to it", keys, keys == 1 ? "" : "s"));
}

bool ownership_extend(struct conn *c, const struct settings *s, struct failure *f)
{
    struct note note;
    if (!ask_note(c, s, &note, f))
        return false;
    struct note wider = {.keys = (int64_t)max_u64((uint64_t)note.keys, (uint64_t)s->key_count),
                         .smallest = (int64_t)min_u64((uint64_t)note.smallest, (uint64_t)s->value_size),
                         .largest = (int64_t)max_u64((uint64_t)note.largest, (uint64_t)s->value_size)};
    return note.keys == 0 || memcmp(&note, &wider, sizeof note) == 0 || write_note(c, s, &wider, f);
}
