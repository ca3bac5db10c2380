/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "server.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numbers.h"

/* Copies the value of the line "name:value\r\n" of INFO; an empty text if there is none. */
static void info_text(const char *info, const char *name, char *to, size_t size)
{
    size_t length = strlen(name);
    to[0] = '\0';
    for (const char *line = info; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && line[length] == ':') {
            const char *value = line + length + 1;
            (void)snprintf(to, size, "%.*s", (int)min_u64(strcspn(value, "\r\n"), size - 1), value);
            return;
        }
    }
}

static int64_t info_number(const char *info, const char *name)
{
    char text[32];
    int64_t value;
    info_text(info, name, text, sizeof text);
    return parse_integer(text, &value) && value >= 0 ? value : -1;
}

/* The sum of two figures in seconds; negative if INFO does not have both. */
static double info_seconds(const char *info, const char *user, const char *system)
{
    char text[32];
    double a, b;
    info_text(info, user, text, sizeof text);
    if (!parse_real(text, &a))
        return -1;
    info_text(info, system, text, sizeof text);
    return parse_real(text, &b) ? a + b : -1;
}

static double server_cpu_seconds(const char *info)
{
    double seconds = info_seconds(info, "used_cpu_user_main_thread", "used_cpu_sys_main_thread");
    return seconds >= 0 ? seconds : info_seconds(info, "used_cpu_user", "used_cpu_sys");
}

static bool server_ask(struct conn *c, const struct settings *s, struct server_state *state,
                       struct failure *f)
{
    const char *ask_info[] = {"INFO"}, *ask_size[] = {"DBSIZE"};
    redisReply *info = conn_command(c, s->timeout, f, 1, ask_info);
    redisReply *size = info != NULL ? conn_command(c, s->timeout, f, 1, ask_size) : NULL;
    if (size != NULL && info->str != NULL && info->type != REDIS_REPLY_ERROR) {
        state->known = true;
        info_text(info->str, "redis_version", state->version, sizeof state->version);
        state->process_id = info_number(info->str, "process_id");
        state->used_memory = info_number(info->str, "used_memory");
        state->used_memory_rss = info_number(info->str, "used_memory_rss");
        state->maxmemory = info_number(info->str, "maxmemory");
        state->evicted_keys = info_number(info->str, "evicted_keys");
        state->cpu_seconds = server_cpu_seconds(info->str);
        state->dbsize = size->type == REDIS_REPLY_INTEGER ? size->integer : -1;
    }
    bool answered = size != NULL;
    if (info != NULL)
        freeReplyObject(info);
    if (size != NULL)
        freeReplyObject(size);
    return answered;
}

bool server_look(const struct settings *s, const struct credentials *who,
                 struct server_state *state, struct failure *f)
{
    struct conn c = {0};
    bool answered = conn_connect(&c, s, f) && conn_authenticate(&c, who, s, f) &&
                    server_ask(&c, s, state, f);
    conn_close(&c);
    return answered;
}

bool is_canonical_number(const char *text, size_t length)
{
    if (length == 0 || length > 20 || (text[0] == '0' && length > 1))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]))
            return false;
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

static bool refuse(struct failure *f, const char *what, const char *detail)
{
    return fail(f, EXIT_REFUSED, "refused_foreign_data",
                "refused to empty this Redis: %s '%.60s'", what, detail);
}

static bool protect_databases(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *argv[] = {"INFO", "keyspace"};
    redisReply *reply = conn_command(c, s->timeout, f, 2, argv);
    if (reply == NULL)
        return false;
    bool safe = true;
    if (reply->str == NULL || reply->type == REDIS_REPLY_ERROR) {
        safe = refuse(f, "cannot inspect its data:", reply->str != NULL ? reply->str : "no text");
    } else {
        const char *line = find_foreign_database(reply->str);
        if (line != NULL) {
            char name[32];
            (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "\r\n,"), line);
            safe = refuse(f, "another database holds data:", name);
        }
    }
    freeReplyObject(reply);
    return safe;
}

#define PROTECT_SAMPLES 1000

/* The keys of a fill are numbers without leading zeros. If a thousand random keys all are,
 * little doubt is left; a single other key is enough to refuse. */
static bool protect_keys(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *argv[] = {"RANDOMKEY"};
    bool safe = true, more = true;
    for (int i = 0; safe && more && i < PROTECT_SAMPLES; i++) {
        redisReply *reply = conn_command(c, s->timeout, f, 1, argv);
        if (reply == NULL)
            return false;
        if (reply->type == REDIS_REPLY_NIL)
            more = false;
        else if (reply->type != REDIS_REPLY_STRING)
            safe = refuse(f, "cannot inspect its data:", reply->str != NULL ? reply->str : "no text");
        else if (!is_canonical_number(reply->str, reply->len))
            safe = refuse(f, "it holds a key that no fill wrote:", reply->str);
        freeReplyObject(reply);
    }
    return safe;
}

bool server_may_flush(struct conn *c, const struct settings *s, struct failure *f)
{
    return !s->protect || (protect_databases(c, s, f) && protect_keys(c, s, f));
}

#define FLUSH_TIMEOUT 600 /* seconds; freeing gigabytes of swapped memory is slow */

bool server_flush(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *argv[] = {"FLUSHALL"};
    redisReply *reply = conn_command(c, fmax(s->timeout, FLUSH_TIMEOUT), f, 1, argv);
    if (reply == NULL)
        return false;
    bool flushed = reply->type == REDIS_REPLY_STATUS;
    if (!flushed)
        (void)fail(f, EXIT_REQUESTS, "reply", "FLUSHALL failed: %s",
                   reply->str != NULL ? reply->str : "unexpected reply");
    freeReplyObject(reply);
    return flushed;
}

bool server_count_keys(struct conn *c, const struct settings *s, int64_t *keys, struct failure *f)
{
    const char *argv[] = {"DBSIZE"};
    redisReply *reply = conn_command(c, s->timeout, f, 1, argv);
    if (reply == NULL)
        return false;
    if (reply->type == REDIS_REPLY_INTEGER)
        *keys = reply->integer;
    freeReplyObject(reply);
    return true;
}
