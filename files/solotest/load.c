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

#define INPUT_SIZE 65536
#define OUTPUT_BUDGET (8u << 20) /* output buffers of all connections together */

#define OWN_DELAY_NS NS_PER_MS /* a shorter delay is a wake-up, which every client has */

#define HEARTBEAT_MAX 1.0 /* seconds */

bool load_abandon(struct load *l, const char *kind)
{
    errors_add(&l->errors, kind, l->in_flight);
    l->in_flight = 0;
    return false;
}

bool load_lost(struct load *l, const char *why)
{
    (void)fail(l->failure, EXIT_LOST, "lost", "connection lost after %" PRIu64 " replies: %s",
               l->ok, why);
    return load_abandon(l, "lost");
}

bool load_protocol_error(struct load *l, const char *why)
{
    (void)fail(l->failure, EXIT_LOST, "protocol", "protocol error after %" PRIu64 " replies: %s",
               l->ok, why);
    return load_abandon(l, "protocol");
}

static bool load_timed_out(struct load *l)
{
    (void)fail(l->failure, EXIT_LOST, "timeout", "no reply for %g seconds, after %" PRIu64 " replies",
               l->settings->timeout, l->ok);
    return load_abandon(l, "timeout");
}

/* How long the data waited in the socket before it was read at `now`. A short wait counts as 0: only
 * a long one proves that the client was away (stopped, or without a CPU). */
static uint64_t own_read_delay(struct msghdr *message, uint64_t now)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (header == NULL || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_TIMESTAMPNS)
        return 0;
    struct timespec t;
    memcpy(&t, CMSG_DATA(header), sizeof t);
    uint64_t arrived = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
    uint64_t delay = since(now + wall_offset(), arrived);
    return delay > OWN_DELAY_NS ? delay : 0;
}

/* Like recv(). Also returns the time of reading, and how long the data waited for the client. */
static ssize_t conn_read(struct conn *c, char *to, int flags, uint64_t *now, uint64_t *read_delay)
{
    *read_delay = 0;
    if (!c->stamped) {
        ssize_t n = recv(c->fd, to, INPUT_SIZE, flags);
        *now = now_ns();
        return n;
    }
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = {.iov_base = to, .iov_len = INPUT_SIZE};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->fd, &message, flags);
    *now = now_ns();
    if (n > 0 && c->in_flight > 0 && *now - conn_slot(c, 0)->sent > OWN_DELAY_NS)
        *read_delay = own_read_delay(&message, *now);
    return n;
}

static bool load_receive_from(struct load *l, struct conn *c, int flags)
{
    uint64_t now, read_delay;
    ssize_t n = conn_read(c, l->input, flags, &now, &read_delay);
    if (n > 0)
        return load_consume(l, c, l->input, (size_t)n, now, read_delay);
    if (n == 0)
        return load_lost(l, "closed by the server");
    return errno == EINTR || errno == EAGAIN || load_lost(l, strerror(errno));
}

/* A time-out of the socket would cost each request a kernel timer, 1 % of the CPU of a closed
 * loop, and would start again with every byte. So the client checks by itself. All data that had
 * arrived at the time `looked` has been read since, and only a request that was overdue at that
 * time counts: a client that was stopped does not take its own absence for the server's. */
static bool load_check_timeouts(struct load *l, uint64_t looked)
{
    uint64_t limit = seconds_to_ns(l->settings->timeout);
    if (looked < l->next_timeout_check)
        return true;
    for (size_t i = 0; i < l->conn_count; i++)
        if (l->conns[i].in_flight > 0 && since(looked, conn_slot(&l->conns[i], 0)->sent) > limit)
            return load_timed_out(l);
    l->next_timeout_check = looked + limit / 8 + NS_PER_MS;
    return true;
}

/* Reads from every connection that has data, and waits for data until `deadline` at most.
 * Shortly before a deadline it polls without waiting, as pacer_wait() does, and yields the CPU
 * each time: a Redis on the same CPU has a request to answer. */
static bool load_receive_any(struct load *l, uint64_t deadline)
{
    for (size_t i = 0; i < l->conn_count; i++) {
        struct conn *c = &l->conns[i];
        bool pending = c->out_used > 0 && c->staged == 0;
        l->polls[i] = (struct pollfd){.fd = c->fd,
                                      .events = (short)(POLLIN | (pending ? POLLOUT : 0))};
    }
    uint64_t now = now_ns();
    uint64_t wake = deadline == NEVER ? NEVER : since(deadline, l->pacer.spin);
    if (wake <= now)
        (void)sched_yield();
    uint64_t until = min_u64(wake, l->next_timeout_check);
    struct timespec left = to_timespec(since(until, now));
    int ready = ppoll(l->polls, l->conn_count, &left, NULL);
    if (ready == 0 && until == wake && wake > now)
        pacer_learn(&l->pacer, since(now_ns(), wake));
    if (ready < 0)
        return errno == EINTR || load_lost(l, strerror(errno));
    for (size_t i = 0; i < l->conn_count; i++) {
        if ((l->polls[i].revents & POLLOUT) != 0 && !load_flush(l, &l->conns[i]))
            return false;
        if ((l->polls[i].revents & ~POLLOUT) != 0 &&
            !load_receive_from(l, &l->conns[i], MSG_DONTWAIT))
            return false;
    }
    return load_check_timeouts(l, now);
}

/* A single connection that can only wait for its reply needs no poll: it blocks in the read
 * itself, which a heartbeat ends. */
static bool load_receive(struct load *l, uint64_t deadline)
{
    if (l->conn_count == 1 && deadline == NEVER && l->conns[0].out_used == 0 && !heartbeat)
        return load_receive_from(l, &l->conns[0], 0);
    heartbeat = 0;
    return load_receive_any(l, deadline);
}

static void load_progress(struct load *l)
{
    uint64_t now = max_u64(l->last_reply, l->last_sent);
    if (!l->settings->progress || now < l->next_progress)
        return;
    l->next_progress = now + NS_PER_S;
    double elapsed = (double)since(now, l->first_sent) / 1e9;
    (void)fprintf(stderr, "%s: %" PRIu64, l->name, l->ok + l->errors.total);
    if (l->planned != 0)
        (void)fprintf(stderr, " of %" PRIu64 " (%.1f %%)", l->planned,
                      100.0 * (double)(l->ok + l->errors.total) / (double)l->planned);
    (void)fprintf(stderr, ", %.0f per second", elapsed > 0 ? (double)l->ok / elapsed : 0);
    if (l->measurement != NULL && l->ok > 0)
        (void)fprintf(stderr, ", response average %.1f us, p99 %.1f us",
                      hist_mean(&l->measurement->response) / 1e3,
                      (double)hist_percentile(&l->measurement->response, 990) / 1e3);
    if (l->errors.total > 0)
        (void)fprintf(stderr, ", %" PRIu64 " failed", l->errors.total);
    (void)fputc('\n', stderr);
}

static bool load_loop(struct load *l)
{
    for (;;) {
        if (interrupted) {
            (void)fail_interrupted(l->failure);
            return load_abandon(l, "interrupted");
        }
        load_progress(l);
        struct conn *c = l->staging != NULL || load_has_more(l) ? load_pick(l) : NULL;
        if (c == NULL && l->in_flight == 0)
            return true;
        uint64_t due = NEVER;
        if (c != NULL) {
            if (l->staging == NULL) {
                load_stage(l, c);
                l->staging = c;
            }
            due = conn_slot(c, c->in_flight)->intended;
            uint64_t now = l->in_flight == 0 ? pacer_wait(&l->pacer, due) : now_ns();
            if (now >= due) {
                if (!load_send(l, c, now))
                    return false;
                continue;
            }
        }
        if (l->in_flight > 0 && !load_receive(l, due))
            return false;
    }
}

bool load_run(struct load *l)
{
    l->next_progress = now_ns() + NS_PER_S;
    heartbeat_every(fmin(l->settings->timeout / 4, HEARTBEAT_MAX));
    bool complete = load_loop(l);
    heartbeat_every(0);
    return complete;
}

bool load_open(struct load *l, size_t connections, size_t depth,
               const struct credentials *who)
{
    const struct settings *s = l->settings;
    l->conns = calloc(connections, sizeof *l->conns);
    l->polls = calloc(connections, sizeof *l->polls);
    l->input = malloc(INPUT_SIZE);
    if (l->conns == NULL || l->polls == NULL || l->input == NULL)
        return fail_memory(l->failure);
    l->value_head_size = (size_t)(put_length(l->value_head, (size_t)s->value_size) - l->value_head);
    size_t share = (size_t)min_u64(OUTPUT_MAX, OUTPUT_BUDGET / connections);
    while (l->conn_count < connections) {
        struct conn *c = &l->conns[l->conn_count++];
        if (!conn_connect(c, s, l->failure) || !conn_authenticate(c, who, s, l->failure) ||
            !conn_allocate(c, depth, command_size(s), share, l->failure))
            return false;
        if (load_is_paced(l) && s->socket == NULL)
            conn_stamp(c);
    }
    return true;
}

void load_close(struct load *l)
{
    for (size_t i = 0; i < l->conn_count; i++)
        conn_close(&l->conns[i]);
    free(l->conns);
    free(l->polls);
    free(l->input);
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
