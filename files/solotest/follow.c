/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "follow.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "failure.h"
#include "json.h"
#include "load.h"
#include "ownership.h"
#include "process.h"
#include "report.h"
#include "signals.h"
#include "test.h"
#include "watch.h"

#define ARM_FOR (5 * NS_PER_S)         /* how long an unreachable server is tried again */
#define ASK_AGAIN (200 * NS_PER_MS)    /* and after which pauses, also between phases */
#define PING_EVERY NS_PER_S            /* while the client waits, since a server closes idle connections */
#define LOOK_EVERY (100 * NS_PER_MS)   /* for connections that the server has closed */
#define RELEASE_EVERY (20 * NS_PER_MS) /* for the file with the start */
#define TRY_FOR (2 * NS_PER_S)         /* limit of an attempt to connect before the start is known */
#define READY_BEFORE (100 * NS_PER_MS) /* a phase: from then on only the pacer runs, and rehearses */
#define END_BEFORE (50 * NS_PER_MS)    /* the next phase: from then on no reply is waited for */
#define LATE (5 * NS_PER_MS)           /* a phase that would begin later than this is not loaded */
#define HOT_SETS_FOR (2 * NS_PER_S)    /* of CPU */
#define HOT_STEP_NS 15                 /* of CPU, to replay one access */

struct follower {
    const struct settings *settings;
    const struct schedule *plan;
    struct credentials *who;
    struct outcome outcome;
    struct server_state armed;  /* the server that the client was armed with */
    struct failure unreachable; /* why the latest attempt to connect failed */
    bool connected, restarted;
    uint64_t start; /* of the schedule, monotonic */
    uint64_t next_ping, next_try;
    int status;
    struct done { /* what the hot set of a phase needs */
        bool complete;
        uint64_t seed, sent;
    } *done;
};

/* --- output ---------------------------------------------------------------------------------------------------- */

/* Writes a line at once, so that a reader sees all of it or nothing. */
static void write_line(struct follower *w, const char *line, size_t size)
{
    struct failure f = {0};
    while (size > 0) {
        ssize_t n = write(STDOUT_FILENO, line, size);
        if (n >= 0) {
            line += n;
            size -= (size_t)n;
        } else if (errno != EINTR) {
            (void)fail(&f, EXIT_OUTPUT, "output", "cannot write the result: %s", strerror(errno));
            (void)fprintf(stderr, "solotest: %s\n", f.message);
            w->status = EXIT_OUTPUT;
            interrupted = SIGTERM;
            return;
        }
    }
}

struct line {
    char *text;
    size_t size;
    struct json json;
};

static bool line_begin(struct line *l)
{
    *l = (struct line){0};
    l->json.file = open_memstream(&l->text, &l->size);
    if (l->json.file == NULL)
        return false;
    json_open(&l->json, "{");
    json_key_u64(&l->json, "schema", 1);
    return true;
}

static void line_end(struct follower *w, struct line *l)
{
    json_close(&l->json, '}');
    (void)fputc('\n', l->json.file);
    if (fclose(l->json.file) == 0)
        write_line(w, l->text, l->size);
    free(l->text);
}

static void keep_status(struct follower *w, const struct failure *f)
{
    if (f->exit_code == EXIT_OK)
        return;
    if (w->status == EXIT_OK)
        w->status = f->exit_code;
    (void)fprintf(stderr, "solotest: %s%s%s\n", w->outcome.phase != NULL ? w->outcome.phase : "",
                  w->outcome.phase != NULL ? ": " : "", f->message);
}

static void write_armed(struct follower *w, const struct failure *f)
{
    struct line l;
    if (!line_begin(&l))
        return;
    json_key_bool(&l.json, "armed", f->exit_code == EXIT_OK);
    if (f->exit_code == EXIT_OK) {
        json_key_epoch(&l.json, "ready_at", clock_ns(CLOCK_REALTIME));
        json_key_u64(&l.json, "process_id", (uint64_t)getpid());
        report_client(&l.json);
        report_server(&l.json, "server", &w->armed);
    } else {
        report_error(&l.json, f);
    }
    line_end(w, &l);
}

static void write_ended(struct follower *w, const char *how)
{
    struct line l;
    if (!line_begin(&l))
        return;
    json_key_text(&l.json, "ended", how);
    line_end(w, &l);
}

static void write_phase(struct follower *w, const struct settings *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    if (file == NULL)
        return;
    report_json(file, s, &w->outcome);
    if (fclose(file) == 0)
        write_line(w, text, size);
    free(text);
}

/* --- the connections ------------------------------------------------------------------------------------------- */

/* The settings with limits that do not reach beyond a time. */
static struct settings hurried(const struct settings *s, uint64_t until)
{
    struct settings h = *s;
    double left = (double)max_u64(since(until, now_ns()), NS_PER_MS) / 1e9;
    h.timeout = fmin(h.timeout, left);
    h.connect_timeout = fmin(h.connect_timeout, left);
    return h;
}

static void disconnect(struct follower *w)
{
    struct exchange *x = &w->outcome.test.exchange;
    for (size_t i = 0; i < x->conn_count; i++)
        conn_disconnect(&x->conns[i]);
    w->connected = false;
}

static bool is_same_server(const struct server_state *a, const struct server_state *b)
{
    if (!a->known || !b->known)
        return true; /* it does not say */
    if (a->run_id[0] != '\0' && b->run_id[0] != '\0')
        return strcmp(a->run_id, b->run_id) == 0;
    return a->process_id == b->process_id;
}

/* True if the server has not answered in time, but every connection is open: it may be slow, but it is not dead. */
static bool is_slow(const struct follower *w)
{
    const struct exchange *x = &w->outcome.test.exchange;
    for (size_t i = 0; i < x->conn_count; i++)
        if (!x->conns[i].ready)
            return false;
    return x->conns[0].owed > 0;
}

/* A server that was restarted has lost its data. */
static void check_server(struct follower *w, const struct server_state *now)
{
    if (is_same_server(&w->armed, now))
        return;
    w->restarted = true;
    w->unreachable = (struct failure){0};
    (void)fail(&w->unreachable, EXIT_LOST, "lost",
               "Redis was restarted (process %" PRId64 " instead of %" PRId64 "), so its data may be gone",
               now->process_id, w->armed.process_id);
}

/* Opens what is not open. */
static void reconnect(struct follower *w, uint64_t until)
{
    struct exchange *x = &w->outcome.test.exchange;
    struct settings s = hurried(w->settings, until);
    struct server_state state = {0};
    struct failure f = {0};
    w->connected = (load_connect(x, &s, w->who, &f) && server_ask(&x->conns[0], &s, &state, &f)) || is_slow(w);
    if (!w->connected)
        disconnect(w);
    w->unreachable = f;
    if (w->connected)
        check_server(w, &state);
}

/* Shows the server on each connection that it is not idle. */
static void ping(struct follower *w, uint64_t until)
{
    struct exchange *x = &w->outcome.test.exchange;
    struct settings s = hurried(w->settings, min_u64(until, now_ns() + LOOK_EVERY));
    const char *command = "PING";
    for (size_t i = 0; i < x->conn_count; i++) {
        struct failure f = {0};
        redisReply *reply = conn_command(&x->conns[i], s.timeout, &f, 1, &command);
        freeReplyObject(reply);
        if (reply != NULL || x->conns[i].owed > 0)
            continue;
        conn_disconnect(&x->conns[i]);
        w->connected = false;
        w->unreachable = f;
    }
    w->next_ping = now_ns() + PING_EVERY;
}

/* Finds connections that the server has closed. Text that answers no request is just as bad. */
static void look_for_closed(struct follower *w)
{
    struct exchange *x = &w->outcome.test.exchange;
    for (size_t i = 0; i < x->conn_count && w->connected; i++) {
        struct failure f = {0};
        char byte;
        if (x->conns[i].owed > 0 && !conn_settle(&x->conns[i], 0, "PING", &f) && x->conns[i].owed > 0)
            continue;
        ssize_t n = f.exit_code != EXIT_OK ? 0 : recv(x->conns[i].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n > 0 ? x->conns[i].transport != NULL : n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        conn_disconnect(&x->conns[i]);
        w->connected = false;
        w->unreachable = (struct failure){0};
        (void)fail(&w->unreachable, EXIT_CONNECT, "connect", "the server closed the connection while it was idle");
    }
}

/* Keeps the connections open until a time. `limit` is the longest that an attempt may take. Returns early only if a signal
 * asks the program to stop. */
static void wait_connected(struct follower *w, uint64_t until, uint64_t limit)
{
    for (;;) {
        uint64_t now = now_ns();
        if (interrupted || now >= until)
            return;
        if (w->connected)
            look_for_closed(w);
        if (!w->connected && !w->restarted && now >= w->next_try) {
            w->next_try = now + ASK_AGAIN;
            reconnect(w, limit);
        } else if (w->connected && now >= w->next_ping) {
            ping(w, limit);
        }
        sleep_until(CLOCK_MONOTONIC,
                    min_u64(until, max_u64(w->connected ? now + LOOK_EVERY : w->next_try, now + NS_PER_MS)));
    }
}

/* --- before the start ------------------------------------------------------------------------------------------ */

static bool writes(const struct schedule *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->phases[i].settings.read_mix < 100)
            return true;
    return false;
}

/* A server that cannot be reached, or that has no connection left, may have one soon. */
static bool is_worth_another_try(const struct failure *f)
{
    return !interrupted &&
           (strcmp(f->kind, "connect") == 0 || strcmp(f->kind, "no_client") == 0 || strcmp(f->kind, "not_ready") == 0);
}

static bool arm_once(struct follower *w, struct failure *f)
{
    const struct settings *s = w->settings;
    struct exchange *x = &w->outcome.test.exchange;
    bool open = x->conns == NULL ? load_open(x, (size_t)s->connections, (size_t)s->pipeline, w->who)
                                 : load_connect(x, s, w->who, f);
    return open && server_ask(&x->conns[0], s, &w->armed, f) &&
           (!writes(w->plan) || ownership_extend(&x->conns[0], s, f));
}

static bool arm(struct follower *w, struct failure *f)
{
    struct test_result *t = &w->outcome.test;
    uint64_t give_up = now_ns() + ARM_FOR;
    t->measurement = measurement_create(w->settings, f);
    w->done = calloc(w->plan->count, sizeof *w->done);
    if (t->measurement == NULL || w->done == NULL)
        return fail_memory(f);
    test_plan(t, w->settings, 0, f);
    while (!arm_once(w, f)) {
        if (now_ns() >= give_up || !is_worth_another_try(f))
            return interrupted ? fail_interrupted(f) : false;
        if (t->exchange.conns != NULL)
            disconnect(w);
        sleep_until(CLOCK_MONOTONIC, now_ns() + ASK_AGAIN);
        *f = (struct failure){0};
    }
    w->connected = true;
    w->outcome.health.memory_locked = lock_memory();
    w->outcome.after = w->armed;
    return true;
}

bool start_parse(const char *text, uint64_t *wall)
{
    char line[64];
    size_t size = strcspn(text, "\n");
    double seconds;
    if (size >= sizeof line || text[size] != '\n')
        return false;
    memcpy(line, text, size);
    line[size] = '\0';
    if (!parse_real(line, &seconds) || seconds <= 0 || seconds > MAX_EPOCH_SECONDS)
        return false;
    *wall = seconds_to_ns(seconds);
    return true;
}

uint64_t start_on_monotonic(uint64_t wall, uint64_t *offset)
{
    *offset = wall_offset();
    return since(wall, *offset);
}

/* Waits for FILE.start. Returns how the client ends, or NULL if it was released. */
static const char *await_release(struct follower *w)
{
    char path[PATH_MAX], text[64];
    uint64_t wall, give_up = now_ns() + seconds_to_ns(w->plan->release_within);
    (void)snprintf(path, sizeof path, "%s.start", w->settings->schedule);
    w->next_ping = now_ns() + PING_EVERY;
    while (!interrupted && now_ns() < give_up) {
        read_small_file(path, text, sizeof text);
        if (start_parse(text, &wall)) {
            w->start = start_on_monotonic(wall, &w->outcome.fixed_offset);
            return NULL;
        }
        wait_connected(w, now_ns() + RELEASE_EVERY, now_ns() + TRY_FOR);
    }
    return interrupted ? "" : "not_released";
}

/* --- the phases ------------------------------------------------------------------------------------------------ */

static uint64_t phase_begin(const struct follower *w, size_t i)
{
    return i < w->plan->count ? w->start + w->plan->phases[i].at : NEVER;
}

/* True if the phase can be loaded; otherwise the failure says why not. */
static bool may_begin(const struct follower *w, const char *name, uint64_t begin, struct failure *f)
{
    uint64_t late = since(now_ns(), begin);
    if (interrupted)
        return fail_interrupted(f);
    if (w->restarted)
        return fail(f, EXIT_LOST, "lost", "%s", w->unreachable.message);
    if (late > LATE)
        return fail(f, EXIT_REQUESTS, "late", "phase %s should have begun %.3f s ago", name, (double)late / 1e9);
    if (w->connected)
        return true;
    return fail(f, EXIT_CONNECT, w->unreachable.kind != NULL ? w->unreachable.kind : "connect", "%s",
                w->unreachable.message[0] != '\0' ? w->unreachable.message
                                                  : "the connection was not open again in time");
}

/* Keeps the connections whose replies did not come before the end of the phase. */
static bool leave(struct follower *w)
{
    struct exchange *x = &w->outcome.test.exchange;
    bool left = w->outcome.failure.exit_code == EXIT_OK;
    for (size_t i = 0; i < x->conn_count && left; i++)
        left = conn_leave(&x->conns[i]);
    return left;
}

static void run_phase(struct follower *w, size_t i)
{
    const struct settings *s = &w->plan->phases[i].settings;
    struct outcome *o = &w->outcome;
    struct test_result *t = &o->test;
    uint64_t begin = phase_begin(w, i), next = phase_begin(w, i + 1);
    measurement_reset(t->measurement, s);
    test_plan(t, s, o->seed, &o->failure);
    t->exchange.end_at = next == NEVER ? 0 : next - END_BEFORE;
    t->ready = now_ns() + o->fixed_offset;
    t->done = may_begin(w, o->phase, begin, &o->failure);
    if (!t->done)
        return;
    test_perform(t, o, begin);
    measurement_finish(t->measurement, &t->exchange.bound);
    w->done[i] = (struct done){t->complete && o->failure.exit_code == EXIT_OK, o->seed, t->exchange.sent};
    if (!t->complete && !leave(w))
        disconnect(w);
    w->next_ping = now_ns() + PING_EVERY;
}

/* Asks the server about itself, for the end of this phase and the beginning of the next. What it does not tell in time
 * stays unknown. */
static void look_at_server(struct follower *w, uint64_t until)
{
    struct settings s = hurried(w->settings, until);
    struct failure f = {0};
    struct exchange *x = &w->outcome.test.exchange;
    w->outcome.after = (struct server_state){0};
    if (!w->connected && !w->restarted)
        reconnect(w, until);
    if (!w->connected || w->restarted)
        return;
    if (server_ask(&x->conns[0], &s, &w->outcome.after, &f)) {
        check_server(w, &w->outcome.after); /* unless it was seen at the new connection, which may be before the load */
        if (w->restarted)
            (void)fail(&w->outcome.failure, EXIT_LOST, "lost", "%s", w->unreachable.message);
    } else if (!is_slow(w)) {
        disconnect(w);
        w->unreachable = f;
    }
}

static void follow_phase(struct follower *w, size_t i)
{
    struct outcome *o = &w->outcome;
    const struct phase *phase = &w->plan->phases[i];
    struct settings s = phase->settings;
    uint64_t begin = phase_begin(w, i), next = phase_begin(w, i + 1);
    wait_connected(w, since(begin, READY_BEFORE), since(begin, READY_BEFORE));
    if (interrupted)
        return;
    struct server_state before = o->after;
    bool locked = o->health.memory_locked;
    o->failure = (struct failure){0};
    o->health = (struct health){.memory_locked = locked};
    o->seed = choose_seed(&s);
    o->phase = phase->name;
    o->index = i;
    o->test.started = o->test.finished = 0;
    o->test.cut_off = o->test.complete = false;
    run_phase(w, i);
    o->offset_at_end = wall_offset();
    o->before = before;
    if (!interrupted)
        look_at_server(w, next == NEVER ? now_ns() + NS_PER_S : since(next, READY_BEFORE));
    s.start_at = (double)(begin + o->fixed_offset) / 1e9;
    write_phase(w, &s);
    keep_status(w, &o->failure);
}

/* True if an earlier phase had the same influence, and was complete. */
static bool is_known(const struct follower *w, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (w->done[k].complete && !(w->plan->phases[k].settings.influence < w->plan->phases[i].settings.influence) &&
            !(w->plan->phases[k].settings.influence > w->plan->phases[i].settings.influence))
            return true;
    return false;
}

/* Replays the accesses of the first phase of each influence, as far as the time allows. */
static void write_hot_sets(struct follower *w)
{
    struct line l;
    uint64_t spent = 0, capacity = SERIES_POINTS * HIST_SLOTS;
    if (!line_begin(&l))
        return;
    json_key(&l.json, "hot_sets");
    json_open(&l.json, "{");
    for (size_t i = 0; i < w->plan->count && !interrupted; i++) {
        const struct settings *s = &w->plan->phases[i].settings;
        uint64_t passes = ((uint64_t)s->key_count + capacity - 1) / capacity;
        if (!w->done[i].complete || is_known(w, i) || (spent += w->done[i].sent * passes * HOT_STEP_NS) > HOT_SETS_FOR)
            continue;
        struct hot_set hot;
        struct chooser chooser;
        chooser_init(&chooser, w->done[i].seed, (uint64_t)s->key_count, (enum pattern)s->pattern, s->influence,
                     (int)s->read_mix);
        hot_set_measure(&hot, &chooser, w->done[i].sent, w->outcome.test.measurement->series.slots[0], capacity);
        report_hot_set(&l.json, w->plan->phases[i].name, &hot, (uint64_t)s->value_size);
    }
    json_close(&l.json, '}');
    line_end(w, &l);
}

static const char *follow_all(struct follower *w)
{
    const char *how = await_release(w);
    if (how != NULL)
        return how;
    for (size_t i = 0; i < w->plan->count && !interrupted; i++)
        follow_phase(w, i);
    if (!interrupted)
        write_hot_sets(w);
    return "done";
}

int follow(const struct settings *s, struct schedule *plan, struct credentials *who)
{
    static struct follower w;
    struct failure f = {0};
    w.settings = s;
    w.plan = plan;
    w.who = who;
    bool armed = watch_file(s->schedule, &f) && arm(&w, &f);
    write_armed(&w, &f);
    keep_status(&w, &f);
    if (armed) {
        const char *how = follow_all(&w);
        w.outcome.phase = NULL;
        if (interrupted && w.status != EXIT_OUTPUT) {
            w.status = EXIT_SIGNAL + (int)interrupted;
            how = watch_ended() ? "removed" : "signal";
        } else if (w.status == EXIT_OK && strcmp(how, "not_released") == 0) {
            w.status = EXIT_SIGNAL + SIGTERM;
        }
        ignore_signals();
        write_ended(&w, how);
    }
    explicit_bzero(who->password, sizeof who->password);
    load_close(&w.outcome.test.exchange);
    measurement_free(w.outcome.test.measurement);
    free(w.done);
    schedule_free(plan);
    return w.status;
}
