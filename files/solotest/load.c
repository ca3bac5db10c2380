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

#define LOST_STEPS 1000000 /* more requests that were not sent are counted in groups */

bool load_abandon(struct load *l, const char *kind)
{
    errors_add(&l->errors, kind, l->in_flight);
    l->in_flight = 0;
    return false;
}

bool load_lost(struct load *l, const char *why)
{
    (void)fail_server(l->failure, "lost", "connection lost after %" PRIu64 " replies: %s",
               l->ok, why);
    return load_abandon(l, "lost");
}

bool load_failed(struct load *l, int error)
{
    if (error != ENOMEM && error != ENOBUFS)
        return load_lost(l, strerror(error));
    (void)fail_resources(l->failure, "%s after %" PRIu64 " replies", strerror(error), l->ok);
    return load_abandon(l, "resources");
}

bool load_protocol_error(struct load *l, const char *why)
{
    (void)fail_server(l->failure, "protocol", "protocol error after %" PRIu64 " replies: %s",
               l->ok, why);
    return load_abandon(l, "protocol");
}

bool load_wrong_size(struct load *l, int64_t size)
{
    (void)fail(l->failure, EXIT_REQUESTS, "value_size",
               "a value has %" PRId64 " bytes, and VALUE_SIZE is %" PRId64 ": fill and test with the same size", size,
               l->settings->value_size);
    return load_abandon(l, "value_size");
}

static bool load_timed_out(struct load *l)
{
    (void)fail_server(l->failure, "timeout", "no reply for %g seconds, after %" PRIu64 " replies",
               l->settings->timeout, l->ok);
    return load_abandon(l, "timeout");
}

/* Adds how long the last byte had been in the socket, by the kernel's time stamp. Stamps are of the
 * wall clock, so it is read right after the monotonic one: a delay between the two makes the wait too
 * long, and the lower bound smaller. A wall clock that was set since the previous read makes the stamp
 * unknown. */
static void reading_stamp(struct reading *r, struct msghdr *message, struct wall *wall)
{
    struct cmsghdr *header = stamp_in(message);
    if (header == NULL)
        return;
    struct timespec t;
    memcpy(&t, CMSG_DATA(header), sizeof t);
    uint64_t now = clock_ns(CLOCK_REALTIME);
    r->stamped = wall_is_steady(wall, r->at, now);
    if (r->stamped)
        r->waited = since(now, (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec);
}

/* Like conn_receive(); also fills in `r`. With TLS, the read ends when its text is there. */
static ssize_t conn_read(struct conn *c, char *to, int flags, struct reading *r, struct wall *wall)
{
    bool whole = true;
    *r = (struct reading){0};
    if (!c->stamped) {
        ssize_t n = c->tls == NULL ? recv(c->fd, to, READ_SIZE, flags) : conn_receive(c, to, flags);
        r->at = now_ns();
        return n;
    }
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = c->tls != NULL ? tls_room(c->tls) : (struct iovec){.iov_base = to, .iov_len = READ_SIZE};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->fd, &message, flags);
    bool full = n > 0 && (size_t)n == part.iov_len;
    if (n > 0 && c->tls != NULL)
        n = tls_open(c->tls, (size_t)n, to, &whole);
    r->at = now_ns();
    r->more = !whole || full;
    r->full = full;
    if (n > 0)
        reading_stamp(r, &message, wall);
    return n;
}

static bool load_receive_from(struct load *l, struct conn *c, int flags, struct reading *r)
{
    ssize_t n = conn_read(c, l->input, flags, r, &l->wall);
    if (n > 0) {
        if (flags == 0 && !r->full && r->stamped == c->stamped)
            l->looked = max_u64(l->looked, since(r->at, r->waited)); /* it took all that had arrived until then */
        return load_consume(l, c, l->input, (size_t)n, r);
    }
    if (n == 0)
        return load_lost(l, "closed by the server");
    return errno == EINTR || errno == EAGAIN || load_lost(l, conn_problem(c));
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
 * stopped does not take its own absence for the server's. */
static bool load_check_timeouts(struct load *l, uint64_t looked)
{
    bool unread = false;
    if (looked < l->next_timeout_check)
        return true;
    for (size_t i = 0; i < l->conn_count; i++) {
        struct conn *c = &l->conns[i];
        if (c->in_flight == 0 || since(looked, conn_slot(c, 0)->sent) <= l->timeout)
            continue;
        if (!is_readable(c))
            return load_timed_out(l);
        unread = true;
    }
    if (!unread)
        l->next_timeout_check = looked + l->timeout / 8 + NS_PER_MS;
    return true;
}

/* Beside a program that never sleeps, to yield costs the whole of its turn. How long one took shows when the time is
 * read next, which every turn of the load does anyway. */
static void load_judge_yield(struct load *l, uint64_t now)
{
    if (l->yielded_at != 0 && since(now, l->yielded_at) > SLOW_YIELD_NS)
        l->slow_yields++;
    l->yielded_at = 0;
}

static bool load_may_yield(const struct load *l)
{
    return l->slow_yields < SLOW_YIELDS || l->slow_yields * 4 < l->yields;
}

/* Waits for the due time if nothing else can happen. Returns the time. */
static uint64_t load_wait(struct load *l, uint64_t due)
{
    uint64_t now = l->in_flight == 0 ? l->last_reply : now_ns();
    load_judge_yield(l, now);
    return l->in_flight == 0 ? pacer_wait(&l->pacer, due) : now;
}

/* Reads from every connection that had data when the client looked, which was at `looked` or later. */
static bool load_receive_ready(struct load *l, uint64_t looked)
{
    struct reading r;
    bool left = false;
    for (size_t i = 0; i < l->conn_count; i++) {
        if ((l->polls[i].revents & POLLOUT) != 0 && !load_flush(l, &l->conns[i]))
            return false;
        if ((l->polls[i].revents & ~POLLOUT) != 0) {
            if (!load_receive_from(l, &l->conns[i], MSG_DONTWAIT, &r))
                return false;
            left = left || r.full;
        }
    }
    if (!left)
        l->looked = looked;
    return true;
}

/* Reads from every connection that has data, and waits for data until `deadline` at most.
 * Shortly before a deadline it polls without waiting, as pacer_wait() does, and yields the CPU
 * each time: a Redis on the same CPU has a request to answer. Where that is expensive it waits
 * until the deadline: who sleeps is woken before who always runs. */
static bool load_receive_any(struct load *l, uint64_t deadline)
{
    for (size_t i = 0; i < l->conn_count; i++) {
        struct conn *c = &l->conns[i];
        bool pending = c->out_used > 0 && c->staged == 0;
        l->polls[i] = (struct pollfd){.fd = c->fd,
                                      .events = (short)(POLLIN | (pending ? POLLOUT : 0))};
    }
    uint64_t now = now_ns(), looked = now;
    uint64_t wake = deadline == NEVER ? NEVER : since(deadline, l->pacer.spin);
    if (wake <= now && now < deadline && load_may_yield(l)) {
        l->yielded_at = now;
        l->yields++;
        (void)sched_yield();
    } else if (wake <= now) {
        wake = deadline;
    }
    uint64_t until = min_u64(wake, l->next_timeout_check);
    struct timespec left = to_timespec(since(until, now));
    int ready = ppoll(l->polls, l->conn_count, &left, NULL);
    if (ready == 0 && until == wake && wake > now) {
        now = now_ns();
        pacer_learn(&l->pacer, since(now, wake), since(deadline, now));
    }
    if (ready < 0)
        return errno == EINTR || load_failed(l, errno);
    /* A wait that nothing ended has looked once more at its end. */
    return load_receive_ready(l, ready == 0 ? max_u64(looked, until) : looked) && load_check_timeouts(l, looked);
}

/* A single connection that can only wait for its reply needs no poll: it blocks in the read
 * itself, which a heartbeat ends. */
static bool load_receive(struct load *l, uint64_t deadline)
{
    struct reading r;
    l->unread_since = 0;
    if (!load_is_paced(l) && l->sets > 0)
        values_make_ahead(&l->values);
    if (l->conn_count == 1 && deadline == NEVER && l->conns[0].out_used == 0 && !heartbeat)
        return load_receive_from(l, &l->conns[0], 0, &r);
    heartbeat = 0;
    return load_receive_any(l, deadline);
}

static void load_progress(struct load *l)
{
    uint64_t now = max_u64(l->last_reply, l->last_sent);
    if (now < l->next_progress)
        return;
    l->next_progress = now + NS_PER_S;
    double elapsed = (double)since(now, l->first_sent) / 1e9;
    uint64_t ok = l->ok + l->more_keys, done = ok + l->errors.total;
    (void)fprintf(stderr, "%s: %" PRIu64, l->name, done);
    if (l->planned != 0)
        (void)fprintf(stderr, " of %" PRIu64 " (%.1f %%)", l->planned, 100.0 * (double)done / (double)l->planned);
    (void)fprintf(stderr, ", %.0f per second", elapsed > 0 ? (double)ok / elapsed : 0);
    if (l->measurement != NULL)
        measurement_record(l->measurement);
    if (l->measurement != NULL && l->ok > 0)
        (void)fprintf(stderr, ", response average %.1f us, p99 %.1f us",
                      hist_mean(&l->measurement->response) / 1e3,
                      (double)hist_percentile(&l->measurement->response, 990) / 1e3);
    if (l->errors.total > 0)
        (void)fprintf(stderr, ", %" PRIu64 " failed", l->errors.total);
    (void)fputc('\n', stderr);
}

/* Stages the next request, unless one is staged already. Returns its connection; NULL if nothing can be sent now. */
static struct conn *load_prepare(struct load *l)
{
    if (l->staging == NULL && load_has_more(l)) {
        l->staging = load_pick(l);
        if (l->staging != NULL)
            load_stage(l, l->staging);
    }
    return l->staging;
}

/* True if replies may have waited for too long: a client that catches up must not send all that it is late
 * with before it reads again. On a schedule it reads even before the first of it, if that connection waits for others: a
 * reply from before the client was away would be read together with one from after, and its time stamp be lost. */
static bool load_should_read(const struct load *l, const struct conn *c, uint64_t now)
{
    if (load_is_paced(l) && c->in_flight > 0 && since(now, l->looked) > READ_EVERY_NS)
        return true;
    return l->unread_since != 0 && l->in_flight > 0 && since(now, l->unread_since) > READ_EVERY_NS;
}

static bool load_loop(struct load *l)
{
    for (;;) {
        if (interrupted) {
            (void)fail_interrupted(l->failure);
            return load_abandon(l, "interrupted");
        }
        load_progress(l);
        struct conn *c = load_prepare(l);
        if (c == NULL && l->in_flight == 0)
            return true;
        uint64_t due = NEVER;
        if (c != NULL) {
            due = conn_slot(c, c->in_flight)->intended;
            uint64_t now = load_wait(l, due);
            if (now >= due && !load_should_read(l, c, now)) {
                if (!load_send(l, c, now))
                    return false;
                if (l->in_flight < l->slots)
                    continue;
                due = NEVER; /* every slot waits for its reply */
            }
        }
        if (l->in_flight > 0 && !load_receive(l, due))
            return false;
    }
}

/* Counts the requests that were due at `end` and not sent. They wait in the order of the schedule, so
 * the oldest has waited since its due time and the others, on average, one period less each. */
static void load_count_not_sent(struct load *l, uint64_t end)
{
    struct conn *c = l->staging;
    uint64_t due = c != NULL ? conn_slot(c, c->in_flight)->intended : pacer_due(&l->pacer, l->issued);
    if (l->sent == l->planned || due >= end)
        return;
    long double waiting = floorl((long double)(end - due) / l->pacer.period) + 1;
    l->not_sent = min_u64((uint64_t)waiting, l->planned - l->sent);
    uint64_t step = l->not_sent / LOST_STEPS + 1;
    for (uint64_t i = 0; i < l->not_sent; i += step)
        measurement_add_lost(l->measurement,
                             since(end, due + (uint64_t)((long double)i * l->pacer.period)),
                             min_u64(step, l->not_sent - i));
}

/* Nobody knows how long the requests without a reply would have taken, but each has waited until now:
 * without them the upper bound would be too low. */
static void load_count_lost(struct load *l)
{
    uint64_t now = now_ns();
    for (size_t i = 0; i < l->conn_count; i++)
        for (size_t k = 0; k < l->conns[i].in_flight; k++)
            measurement_add_lost(l->measurement, since(now, conn_slot(&l->conns[i], k)->intended), 1);
    if (load_is_paced(l))
        load_count_not_sent(l, min_u64(now, l->stop_at));
}

/* A Redis that went away while the client waited for the start was not lost under the load. */
static bool load_is_connected(struct load *l)
{
    for (size_t i = 0; i < l->conn_count; i++) {
        struct conn *c = &l->conns[i];
        ssize_t n = conn_receive(c, l->input, MSG_DONTWAIT);
        if (n > 0)
            return load_protocol_error(l, "a reply without a request");
        if (n == 0)
            return load_lost(l, "closed by the server");
        if (errno != EAGAIN && errno != EINTR)
            return load_lost(l, conn_problem(c));
    }
    return true;
}

bool load_run(struct load *l)
{
    l->next_progress = l->settings->progress ? now_ns() + NS_PER_S : NEVER;
    l->timeout = seconds_to_ns(l->settings->timeout);
    l->slots = l->conn_count * l->conns[0].depth;
    l->bound.period = l->conns[0].stamped ? (uint64_t)l->pacer.period : 0;
    heartbeat_every(fmin(l->settings->timeout / 4, HEARTBEAT_MAX));
    bool complete = load_is_connected(l) && load_loop(l);
    heartbeat_every(0);
    if (l->measurement != NULL)
        load_count_lost(l);
    return complete;
}

bool load_open(struct load *l, size_t connections, size_t depth,
               const struct credentials *who)
{
    const struct settings *s = l->settings;
    l->conns = calloc(connections, sizeof *l->conns);
    l->polls = calloc(connections, sizeof *l->polls);
    l->input = malloc(READ_SIZE);
    /* load_prepare() makes one request ahead anyway. */
    size_t keys_each = l->keys_each > 1 ? l->keys_each : 1;
    size_t ahead = load_is_paced(l) ? 0 : connections * depth * keys_each - 1;
    if (l->conns == NULL || l->polls == NULL || l->input == NULL || !values_reserve(&l->values, ahead))
        return fail_memory(l->failure);
    l->failure->under_load = false; /* a fill may have come before */
    l->value_head_size = (size_t)(put_length(l->value_head, (size_t)s->value_size) - l->value_head);
    size_t share = (size_t)min_u64(OUTPUT_MAX, OUTPUT_BUDGET / connections);
    while (l->conn_count < connections) {
        struct conn *c = &l->conns[l->conn_count++];
        if (!conn_connect(c, s, l->failure) || !conn_authenticate(c, who, s, l->failure) ||
            !conn_allocate(c, depth, keys_each * command_size(s), share, l->failure))
            return false;
        if (load_is_paced(l) && s->socket == NULL)
            conn_stamp(c);
    }
    return conn_await_stamp(&l->conns[0], s, l->failure); /* the others are stamped from then on, too */
}

void load_close(struct load *l)
{
    for (size_t i = 0; i < l->conn_count; i++)
        conn_close(&l->conns[i]);
    free(l->conns);
    free(l->polls);
    free(l->input);
    values_free(&l->values);
    l->conns = NULL;
    l->polls = NULL;
    l->input = NULL;
    l->conn_count = 0;
}

bool load_fail_on_errors(struct load *l)
{
    if (l->errors.total == 0)
        return true;
    char kinds[256] = "";
    errors_describe(&l->errors, kinds, sizeof kinds);
    return fail(l->failure, EXIT_REQUESTS, "reply",
                "%" PRIu64 " of %" PRIu64 " requests failed (%s); first: %s", l->errors.total, l->sent,
                kinds, l->errors.first);
}
