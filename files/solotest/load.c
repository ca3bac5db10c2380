/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "replies.h"
#include "requests.h"
#include "resp.h"
#include "signals.h"

#define OUTPUT_BUDGET (8u << 20) /* output buffers of all connections together */

#define HEARTBEAT_MAX 1.0 /* seconds */

enum { SLOW_YIELD_NS = 500000, SLOW_YIELDS = 8 };

#define READ_EVERY_NS (100 * NS_PER_US) /* while the client catches up */

/* This close to its end the client no longer relies on a heartbeat to look at the clock. */
#define END_NEAR_NS (2 * NS_PER_S)

#define QUIET_NS NS_PER_MS /* a window is written if no request is due for this long */
#define STOP_NS NS_PER_S

#define LOST_STEPS 1000000 /* more requests that were not sent are counted in groups */

/* Adds how long the last byte had been in the socket, by the kernel's time stamp. Stamps are of the
 * wall clock, so it is read right after the monotonic one: a delay between the two makes the wait too
 * long, and the lower bound smaller. A wall clock that was set since the previous read makes the stamp
 * unknown. */
static void reading_stamp(struct reading *r, const struct arrival *a, struct wall *wall)
{
    if (!a->stamped)
        return;
    uint64_t now = clock_ns(CLOCK_REALTIME);
    r->stamped = wall_is_steady(wall, r->at, now);
    if (r->stamped)
        r->waited = since(now, a->stamp);
}

/* Like conn_receive(); also fills in `r`. With TLS, the read ends when its text is there. */
static ssize_t conn_read(struct conn *c, char *to, int flags, struct reading *r, struct wall *wall)
{
    struct arrival a;
    ssize_t n = conn_receive(c, to, flags, &a);
    *r = (struct reading){.at = now_ns(), .more = !a.whole || a.full, .full = a.full};
    if (n > 0)
        reading_stamp(r, &a, wall);
    return n;
}

static bool load_receive_from(struct exchange *x, struct conn *c, int flags, struct reading *r)
{
    ssize_t n = conn_read(c, x->input, flags, r, &x->wall);
    if (n > 0) {
        if (flags == 0 && !r->full && r->stamped == c->stamped)
            x->looked =
                max_u64(x->looked, since(r->at, r->waited)); /* it took everything that had arrived until then */
        size_t old = conn_discard(c, x->input, (size_t)n);
        return old == (size_t)n || replies_consume(x, c, x->input + old, (size_t)n - old, r);
    }
    if (n == 0)
        return exchange_lost(x, "closed by the server");
    return errno == EINTR || errno == EAGAIN || exchange_lost(x, conn_problem(c));
}

/* True if data, or the end of the connection, waits to be read. */
static bool is_readable(const struct conn *c)
{
    char first;
    return recv(c->fd, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* A time-out of the socket would cost each request a kernel timer, 1 % of the CPU of a closed
 * loop, and would start again with every byte. So the client checks by itself. Only a request counts that was overdue
 * at the time `looked`, and only if all data that had arrived at that time has been read since: a client that was
 * stopped does not take its own absence for the server's, also if it was stopped while it sent. */
static bool load_check_timeouts(struct exchange *x, uint64_t looked)
{
    bool unread = false;
    if (looked < x->next_timeout_check)
        return true;
    for (size_t i = 0; i < x->conn_count; i++) {
        struct conn *c = &x->conns[i];
        if (c->in_flight == 0 || since(looked, conn_slot(c, 0)->handed_over) <= x->timeout)
            continue;
        if (!is_readable(c))
            return exchange_timed_out(x);
        unread = true;
    }
    if (!unread)
        x->next_timeout_check = looked + x->timeout / 8 + NS_PER_MS;
    return true;
}

/* Next to a program that never sleeps, a yield costs that program's whole turn. How long one took shows when
 * the time is read next, which every turn of the load does anyway. */
static void load_judge_yield(struct exchange *x, uint64_t now)
{
    if (x->yielded_at != 0 && since(now, x->yielded_at) > SLOW_YIELD_NS)
        x->slow_yields++;
    x->yielded_at = 0;
}

static bool load_may_yield(const struct exchange *x)
{
    return x->slow_yields < SLOW_YIELDS || x->slow_yields * 4 < x->yields;
}

/* Waits for the due time if nothing else can happen. Returns the time. */
static uint64_t load_wait(struct exchange *x, uint64_t due)
{
    uint64_t now = x->in_flight == 0 ? x->last_reply : now_ns();
    load_judge_yield(x, now);
    return x->in_flight == 0 ? pacer_wait(&x->pacer, due) : now;
}

/* Reads from every connection that had data when the client looked, which was at `looked` or later. */
static bool load_receive_ready(struct exchange *x, uint64_t looked)
{
    struct reading r;
    bool left = false;
    for (size_t i = 0; i < x->conn_count; i++) {
        if ((x->polls[i].revents & POLLOUT) != 0 && !requests_flush(x, &x->conns[i]))
            return false;
        if ((x->polls[i].revents & ~POLLOUT) != 0) {
            if (!load_receive_from(x, &x->conns[i], MSG_DONTWAIT, &r))
                return false;
            left = left || r.full;
        }
    }
    if (!left)
        x->looked = looked;
    return true;
}

/* Reads from every connection that has data, and waits for data until `deadline` at most.
 * Shortly before a deadline it polls without waiting, as pacer_wait() does, and yields the CPU
 * each time: a Redis on the same CPU has a request to answer. Where that is expensive it waits
 * until the deadline: a thread that wakes is scheduled before one that always runs. */
static bool load_receive_any(struct exchange *x, uint64_t deadline)
{
    for (size_t i = 0; i < x->conn_count; i++) {
        struct conn *c = &x->conns[i];
        bool pending = c->out_used > 0 && c->staged == 0;
        x->polls[i] = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | (pending ? POLLOUT : 0))};
    }
    uint64_t now = now_ns(), looked = now;
    uint64_t wake = deadline == NEVER ? NEVER : since(deadline, x->pacer.spin);
    if (wake <= now && now < deadline && load_may_yield(x)) {
        x->yielded_at = now;
        x->yields++;
        (void)sched_yield();
    } else if (wake <= now) {
        wake = deadline;
    }
    uint64_t until = min_u64(min_u64(wake, x->next_timeout_check), x->end_at);
    struct timespec left = to_timespec(since(until, now));
    int ready = ppoll(x->polls, x->conn_count, &left, NULL);
    if (ready == 0 && until == wake && wake > now) {
        now = now_ns();
        pacer_learn(&x->pacer, since(now, wake), since(deadline, now));
    }
    if (ready < 0)
        return errno == EINTR || exchange_failed(x, errno);
    /* A wait that nothing ended has looked again at its end. */
    return load_receive_ready(x, ready == 0 ? max_u64(looked, until) : looked) && load_check_timeouts(x, looked);
}

/* A single connection that can only wait for its reply needs no poll: it blocks in the read
 * itself, which a heartbeat ends. */
static bool load_receive(struct exchange *x, uint64_t deadline)
{
    struct reading r;
    x->unread_since = 0;
    if (!exchange_is_paced(x) && x->sets > 0)
        values_make_ahead(&x->values);
    if (x->conn_count == 1 && deadline == NEVER && x->conns[0].out_used == 0 && !heartbeat &&
        x->last_sent + END_NEAR_NS < x->end_at)
        return load_receive_from(x, &x->conns[0], 0, &r);
    heartbeat = 0;
    return load_receive_any(x, deadline);
}

static void load_progress(struct exchange *x)
{
    uint64_t now = max_u64(x->last_reply, x->last_sent);
    if (now < x->next_progress)
        return;
    x->next_progress = now + NS_PER_S;
    double elapsed = (double)since(now, x->first_sent) / 1e9;
    uint64_t ok = x->ok + x->more_keys, done = ok + x->errors.total;
    (void)fprintf(stderr, "%s: %" PRIu64, x->name, done);
    if (x->planned != 0)
        (void)fprintf(stderr, " of %" PRIu64 " (%.1f %%)", x->planned, 100.0 * (double)done / (double)x->planned);
    (void)fprintf(stderr, ", %.0f per second", elapsed > 0 ? (double)ok / elapsed : 0);
    if (x->measurement != NULL)
        measurement_record(x->measurement);
    if (x->measurement != NULL && x->ok > 0)
        (void)fprintf(stderr, ", response average %.1f us, p99 %.1f us", hist_mean(&x->measurement->response) / 1e3,
                      (double)hist_percentile(&x->measurement->response, 990) / 1e3);
    if (x->errors.total > 0)
        (void)fprintf(stderr, ", %" PRIu64 " failed", x->errors.total);
    (void)fputc('\n', stderr);
}

/* Stages the next request, unless one is staged already. Returns its connection; NULL if nothing can be sent now. */
static struct conn *load_prepare(struct exchange *x)
{
    if (x->staging == NULL && requests_left(x)) {
        x->staging = request_pick(x);
        if (x->staging != NULL)
            request_stage(x, x->staging);
    }
    return x->staging;
}

/* True if replies may have waited for too long: a client that catches up must not send all that it is late with
 * before it reads again. On a schedule it reads even before the first of it, if that connection waits for
 * others: a reply from before the client was away would be read together with one from after, and its time
 * stamp be lost. */
static bool load_should_read(const struct exchange *x, const struct conn *c, uint64_t now)
{
    if (exchange_is_paced(x) && c->in_flight > 0 && since(now, x->looked) > READ_EVERY_NS)
        return true;
    return x->unread_since != 0 && x->in_flight > 0 && since(now, x->unread_since) > READ_EVERY_NS;
}

/* Returns when the next request that was not sent is due; NEVER if there is none. */
static uint64_t next_unsent(struct exchange *x)
{
    if (x->staging != NULL)
        return conn_slot(x->staging, x->staging->in_flight)->intended;
    return requests_left(x) ? pacer_due(&x->pacer, x->issued) : NEVER;
}

/* Returns when the oldest unanswered request was due, sent or not. */
static uint64_t oldest_due(struct exchange *x)
{
    uint64_t oldest = next_unsent(x);
    for (size_t i = 0; i < x->conn_count; i++)
        if (x->conns[i].in_flight > 0)
            oldest = min_u64(oldest, conn_slot(&x->conns[i], 0)->intended);
    return oldest;
}

/* Counts the unanswered requests of the window that ended at `end`: each has waited until now. */
static void count_unanswered(struct exchange *x, uint64_t end, uint64_t now)
{
    struct windows *w = x->measurement->windows;
    uint64_t begin = end - w->length;
    for (size_t i = 0; i < x->conn_count; i++)
        for (size_t k = 0; k < x->conns[i].in_flight; k++) {
            uint64_t due = conn_slot(&x->conns[i], k)->intended;
            if (due >= begin && due < end)
                windows_add_unanswered(w, since(now, due), 1);
        }
    uint64_t next = next_unsent(x);
    if (next >= end)
        return;
    /* Those of the schedule from `next` on, evenly spaced, that are due in the window. */
    uint64_t left = x->planned == 0 ? UINT64_MAX : x->planned - x->sent;
    uint64_t until = min_u64((uint64_t)ceill((long double)(end - next) / x->pacer.period), left);
    for (uint64_t i = (uint64_t)ceill((long double)since(begin, next) / x->pacer.period); i < until; i++)
        windows_add_unanswered(w, since(now, next + (uint64_t)((long double)i * x->pacer.period)), 1);
}

/* Closes the windows that are over, as soon as that delays no request, and in any case after a while. */
static void load_windows(struct exchange *x)
{
    struct windows *w = x->measurement != NULL ? x->measurement->windows : NULL;
    if (w == NULL)
        return;
    for (uint64_t now = now_ns();; now = now_ns()) {
        uint64_t end = x->pacer.start + windows_end(w), oldest = oldest_due(x);
        bool complete = oldest >= end, over = now >= end + w->length;
        if (now < end || (!complete && !over) || (oldest < now + QUIET_NS && now < end + w->length / 4))
            return;
        measurement_record(x->measurement);
        if (!complete)
            count_unanswered(x, end, now);
        windows_close(w);
    }
}

/* Sends nothing more that is not due yet, and waits for STOP_NS at most for what was sent. */
static void load_stop(struct exchange *x)
{
    uint64_t now = now_ns();
    x->stopped = interrupted;
    interrupted = 0;
    x->stop_at = now;
    x->end_at = now + STOP_NS;
    struct conn *c = x->staging;
    if (c == NULL || conn_slot(c, c->in_flight)->intended < now)
        return;
    c->staged = 0;
    c->out_used = 0;
    x->issued--;
    x->staging = NULL;
}

static bool load_loop(struct exchange *x)
{
    for (;;) {
        if (interrupted && x->may_be_stopped && x->stopped == 0)
            load_stop(x);
        if (interrupted) {
            (void)fail_interrupted(x->failure);
            return exchange_abandon(x, "interrupted");
        }
        load_progress(x);
        load_windows(x);
        struct conn *c = load_prepare(x);
        if (c == NULL && x->in_flight == 0)
            return true;
        uint64_t due = NEVER;
        if (c != NULL) {
            due = conn_slot(c, c->in_flight)->intended;
            uint64_t now = load_wait(x, due);
            if (now >= due && !load_should_read(x, c, now)) {
                if (!requests_send(x, c, now))
                    return false;
                if (x->in_flight < x->slots)
                    continue;
                due = NEVER; /* every slot waits for its reply */
            }
        }
        if (x->in_flight > 0 && !load_receive(x, due))
            return false;
        if (x->end_at != NEVER && now_ns() >= x->end_at)
            return exchange_abandon(x, "unanswered");
    }
}

/* Counts the requests that were due at `end` and not sent. They wait in the order of the schedule, so
 * the oldest has waited since its due time and the others, on average, one period less each. */
static void load_count_not_sent(struct exchange *x, uint64_t end)
{
    struct conn *c = x->staging;
    uint64_t due = c != NULL ? conn_slot(c, c->in_flight)->intended : pacer_due(&x->pacer, x->issued);
    if (x->sent == x->planned || due >= end)
        return;
    long double waiting = floorl((long double)(end - due) / x->pacer.period) + 1;
    x->not_sent = x->planned == 0 ? (uint64_t)waiting : min_u64((uint64_t)waiting, x->planned - x->sent);
    uint64_t step = x->not_sent / LOST_STEPS + 1;
    for (uint64_t i = 0; i < x->not_sent; i += step)
        measurement_add_lost(x->measurement, since(end, due + (uint64_t)((long double)i * x->pacer.period)),
                             min_u64(step, x->not_sent - i));
}

/* Nobody knows how long the requests without a reply would have taken, but each has waited until now:
 * without them the upper bound would be too low. */
static void load_count_lost(struct exchange *x)
{
    uint64_t now = now_ns();
    for (size_t i = 0; i < x->conn_count; i++)
        for (size_t k = 0; k < x->conns[i].in_flight; k++)
            measurement_add_lost(x->measurement, since(now, conn_slot(&x->conns[i], k)->intended), 1);
    if (exchange_is_paced(x))
        load_count_not_sent(x, min_u64(now, x->stop_at));
}

/* A Redis that went away while the client waited for the start was not lost under the load. */
static bool load_is_connected(struct exchange *x)
{
    for (size_t i = 0; i < x->conn_count; i++) {
        struct conn *c = &x->conns[i];
        struct arrival a;
        ssize_t n = conn_receive(c, x->input, MSG_DONTWAIT, &a);
        if (n > 0 && conn_discard(c, x->input, (size_t)n) < (size_t)n)
            return exchange_protocol_error(x, "a reply without a request");
        if (n == 0)
            return exchange_lost(x, "closed by the server");
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return exchange_lost(x, conn_problem(c));
    }
    return true;
}

bool load_run(struct exchange *x)
{
    x->next_progress = x->settings->progress ? now_ns() + NS_PER_S : NEVER;
    x->timeout = seconds_to_ns(x->settings->timeout);
    if (x->end_at == 0)
        x->end_at = NEVER;
    x->slots = x->conn_count * x->conns[0].depth;
    x->bound.period = x->conns[0].stamped ? (uint64_t)x->pacer.period : 0;
    heartbeat_every(fmin(x->settings->timeout / 4, HEARTBEAT_MAX));
    bool complete = load_is_connected(x) && load_loop(x);
    heartbeat_every(0);
    if (x->measurement != NULL)
        load_count_lost(x);
    return complete;
}

bool load_connect(struct exchange *x, const struct settings *s, const struct credentials *who, struct failure *f)
{
    size_t keys_each = x->keys_each > 1 ? x->keys_each : 1;
    size_t share = (size_t)min_u64(OUTPUT_MAX, OUTPUT_BUDGET / x->conn_count);
    for (size_t i = 0; i < x->conn_count; i++) {
        struct conn *c = &x->conns[i];
        if (c->ready)
            continue;
        conn_disconnect(c);
        if (!conn_connect(c, s, f) || !conn_authenticate(c, who, s, f) ||
            !conn_allocate(c, x->depth, keys_each * command_size(s), share, f))
            return false;
        if (exchange_is_paced(x) && s->socket == NULL)
            conn_stamp(c);
        c->ready = true;
    }
    return conn_await_stamp(&x->conns[0], s, f); /* the others are stamped from then on, too */
}

bool load_open(struct exchange *x, size_t connections, size_t depth, const struct credentials *who)
{
    const struct settings *s = x->settings;
    x->conns = calloc(connections, sizeof *x->conns);
    x->polls = calloc(connections, sizeof *x->polls);
    x->input = malloc(READ_SIZE);
    /* load_prepare() makes one request ahead anyway. */
    size_t keys_each = x->keys_each > 1 ? x->keys_each : 1;
    size_t ahead = exchange_is_paced(x) ? 0 : connections * depth * keys_each - 1;
    if (x->conns == NULL || x->polls == NULL || x->input == NULL || !values_reserve(&x->values, ahead))
        return fail_memory(x->failure);
    x->conn_count = connections;
    x->depth = depth;
    x->failure->under_load = false; /* a fill may have come before */
    x->value_head_size = (size_t)(put_length(x->value_head, (size_t)s->value_size) - x->value_head);
    return load_connect(x, s, who, x->failure);
}

void load_reset(struct exchange *x)
{
    struct exchange fresh = {.settings = x->settings,
                             .conns = x->conns,
                             .conn_count = x->conn_count,
                             .depth = x->depth,
                             .polls = x->polls,
                             .input = x->input,
                             .value_head_size = x->value_head_size,
                             .values = {.ahead = x->values.ahead, .room = x->values.room},
                             .end_at = NEVER};
    memcpy(fresh.value_head, x->value_head, sizeof fresh.value_head);
    *x = fresh;
}

void load_close(struct exchange *x)
{
    for (size_t i = 0; i < x->conn_count; i++)
        conn_close(&x->conns[i]);
    free(x->conns);
    free(x->polls);
    free(x->input);
    values_free(&x->values);
    x->conns = NULL;
    x->polls = NULL;
    x->input = NULL;
    x->conn_count = 0;
}
