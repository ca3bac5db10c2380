/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "server.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "numbers.h"

void info_text(const char *info, const char *name, char *to, size_t size)
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

int64_t info_number(const char *info, const char *name)
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

/* Asks for a number; -1 if the reply is none. */
static bool ask_number(struct conn *c, const struct settings *s, int argc, const char **argv, int64_t *number,
                       struct failure *f)
{
    redisReply *reply = conn_command(c, s->timeout, f, argc, argv);
    if (reply == NULL)
        return false;
    *number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return true;
}

bool server_count_keys(struct conn *c, const struct settings *s, int64_t *keys, struct failure *f)
{
    const char *ask_size[] = {"DBSIZE"}, *ask_note[] = {"EXISTS", NOTE_KEY};
    int64_t notes;
    if (!ask_number(c, s, 1, ask_size, keys, f) || !ask_number(c, s, 2, ask_note, &notes, f))
        return false;
    if (*keys > 0 && notes > 0)
        *keys -= 1;
    return true;
}

enum server_mode info_mode(const char *info)
{
    char mode[32];
    info_text(info, "redis_mode", mode, sizeof mode);
    if (mode[0] == '\0')
        info_text(info, "server_mode", mode, sizeof mode); /* Valkey */
    if (strcmp(mode, "sentinel") == 0)
        return MODE_SENTINEL;
    if (strcmp(mode, "cluster") == 0 || info_number(info, "cluster_enabled") == 1)
        return MODE_CLUSTER;
    return mode[0] == '\0' ? MODE_UNKNOWN : MODE_ALONE;
}

/* A cluster or Sentinel answers PING, and would then fail in ways that look like a broken Redis. A fill would empty
 * one node of a cluster, so it wants to know. */
static bool check_mode(const struct settings *s, const redisReply *info, struct failure *f)
{
    bool told = info->str != NULL && info->type != REDIS_REPLY_ERROR;
    switch (told ? info_mode(info->str) : MODE_UNKNOWN) {
    case MODE_CLUSTER:
        return fail(f, EXIT_CONNECT, "unsupported",
                    "this Redis is a node of a cluster; measure one without cluster-enabled");
    case MODE_SENTINEL:
        return fail(f, EXIT_CONNECT, "unsupported", "this is a Sentinel; connect to the Redis that it watches");
    case MODE_UNKNOWN:
        return !s->fill || fail(f, EXIT_REFUSED, "refused_foreign_data",
                                "refused to empty this Redis: cannot inspect its data, nor tell if it is a node of a "
                                "cluster: %.100s",
                                told || info->str == NULL ? "INFO has no mode" : info->str);
    default:
        return true;
    }
}

bool server_ask(struct conn *c, const struct settings *s, struct server_state *state, struct failure *f)
{
    const char *ask_info[] = {"INFO"};
    int64_t keys = -1;
    redisReply *info = conn_command(c, s->timeout, f, 1, ask_info);
    bool answered = info != NULL && server_count_keys(c, s, &keys, f);
    answered = answered && check_mode(s, info, f);
    if (answered && info->str != NULL && info->type != REDIS_REPLY_ERROR) {
        state->known = true;
        info_text(info->str, "redis_version", state->version, sizeof state->version);
        info_text(info->str, "valkey_version", state->valkey_version, sizeof state->valkey_version);
        info_text(info->str, "run_id", state->run_id, sizeof state->run_id);
        state->process_id = info_number(info->str, "process_id");
        state->used_memory = info_number(info->str, "used_memory");
        state->used_memory_rss = info_number(info->str, "used_memory_rss");
        state->maxmemory = info_number(info->str, "maxmemory");
        state->evicted_keys = info_number(info->str, "evicted_keys");
        state->cpu_seconds = server_cpu_seconds(info->str);
        state->dbsize = keys;
    }
    if (info != NULL)
        freeReplyObject(info);
    return answered;
}

bool server_look(const struct settings *s, const struct credentials *who, struct server_state *state, struct failure *f)
{
    struct conn c = {0};
    bool answered = conn_connect(&c, s, f) && conn_authenticate(&c, who, s, f) && server_ask(&c, s, state, f);
    conn_close(&c);
    return answered;
}

double slow_timeout(const struct settings *s)
{
    return fmax(s->timeout, 600);
}

bool server_flush(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *argv[] = {"FLUSHALL"};
    redisReply *reply = conn_command(c, slow_timeout(s), f, 1, argv);
    if (reply == NULL)
        return false;
    bool flushed = reply->type == REDIS_REPLY_STATUS;
    if (!flushed)
        (void)fail(f, EXIT_REQUESTS, "reply", "FLUSHALL failed: %s",
                   reply->str != NULL ? reply->str : "unexpected reply");
    freeReplyObject(reply);
    return flushed;
}
