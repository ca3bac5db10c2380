/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "connection.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "network.h"
#include "numbers.h"
#include "signals.h"
#include "tls.h"

static bool fail_wait(struct failure *f, const char *command)
{
    if (interrupted)
        return fail_interrupted(f);
    return fail_server(f, "timeout", "%s: no reply in time", command);
}

static bool send_all(struct conn *c, const char *data, size_t size, uint64_t deadline, const char *command,
                     struct failure *f)
{
    while (size > 0) {
        ssize_t n = send(c->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            data += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN) {
            if (!wait_ready(c->fd, POLLOUT, deadline))
                return fail_wait(f, command);
        } else if (errno != EINTR) {
            return fail_server(f, "lost", "%s: connection lost: %s", command, strerror(errno));
        }
    }
    return true;
}

static bool send_sealed(struct conn *c, const char *data, size_t size, uint64_t deadline, const char *command,
                        struct failure *f)
{
    char *sealed = malloc(transport_sealed_size(c->transport, size));
    if (sealed == NULL)
        return fail_memory(f);
    memcpy(sealed, data, size);
    size_t n = transport_seal(c->transport, sealed, size);
    bool sent = n > 0 ? send_all(c, sealed, n, deadline, command, f)
                      : fail_server(f, "lost", "%s: connection lost: %s", command, transport_problem(c->transport));
    explicit_bzero(sealed, transport_sealed_size(c->transport, size)); /* it may hold the password */
    free(sealed);
    return sent;
}

/* Keeps the kernel's time stamp, if there is one. */
static ssize_t receive_stamped(struct conn *c, struct iovec room, int flags, struct arrival *a)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct msghdr message = {
        .msg_iov = &room, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct timespec t;
    ssize_t n = recvmsg(c->fd, &message, flags);
    struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS) {
        memcpy(&t, CMSG_DATA(header), sizeof t);
        a->stamp = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
        a->stamped = c->stamp_seen = true;
    }
    return n;
}

ssize_t conn_receive(struct conn *c, char *to, int flags, struct arrival *a)
{
    struct iovec room = transport_room(c->transport, to);
    *a = (struct arrival){.whole = true};
    ssize_t n = c->stamped ? receive_stamped(c, room, flags, a) : recv(c->fd, room.iov_base, room.iov_len, flags);
    a->full = n > 0 && (size_t)n == room.iov_len;
    return n > 0 ? transport_open(c->transport, (size_t)n, to, &a->whole) : n;
}

const char *conn_problem(const struct conn *c)
{
    int error = errno;
    const char *problem = transport_problem(c->transport);
    return problem != NULL ? problem : strerror(error);
}

#define REPLY_ELEMENTS 64

#if HIREDIS_MAJOR > 0
typedef size_t elements;
#else
typedef int elements;
#endif

static redisReplyObjectFunctions default_functions;

static void *create_small_array(const redisReadTask *task, elements count)
{
    return count <= REPLY_ELEMENTS ? default_functions.createArray(task, count) : NULL;
}

redisReader *conn_reader(void)
{
    static redisReplyObjectFunctions functions;
    redisReader *reader = redisReaderCreate();
    if (reader == NULL)
        return NULL;
    default_functions = functions = *reader->fn;
    functions.createArray = create_small_array;
    reader->fn = &functions;
    return reader;
}

static const char *reader_problem(const redisReader *reader)
{
    return reader->err == REDIS_ERR_OOM ? "the reply has too many elements, or memory is short" : reader->errstr;
}

size_t conn_discard(struct conn *c, const char *data, size_t size)
{
    size_t used = 0;
    while (c->owed > 0 && used < size && c->reply.problem == NULL) {
        used += reply_take(&c->reply, data + used, size - used);
        if (!c->reply.complete)
            continue;
        reply_begin(&c->reply);
        c->owed--;
    }
    return used;
}

/* Waits for bytes and receives some of them; 0 after a failure. */
static size_t receive_some(struct conn *c, char buffer[READ_SIZE], uint64_t deadline, const char *command,
                           struct failure *f)
{
    struct arrival arrival;
    for (;;) {
        if (!wait_ready(c->fd, POLLIN, deadline)) {
            (void)fail_wait(f, command);
            return 0;
        }
        ssize_t n = conn_receive(c, buffer, MSG_DONTWAIT, &arrival);
        if (n > 0)
            return (size_t)n;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        (void)fail_server(f, "lost", "%s: connection lost: %s", command,
                          n == 0 ? "closed by the server" : conn_problem(c));
        c->owed = 0;
        return 0;
    }
}

bool conn_settle(struct conn *c, uint64_t deadline, const char *name, struct failure *f)
{
    char buffer[READ_SIZE];
    while (c->owed > 0) {
        size_t n = receive_some(c, buffer, deadline, name, f);
        if (n == 0)
            return false;
        if (conn_discard(c, buffer, n) == n)
            continue;
        c->owed = 0;
        return fail_server(f, "protocol", "%s: a reply without a request", name);
    }
    return true;
}

bool conn_leave(struct conn *c)
{
    /* Whatever is encrypted has its number, and must be sent. */
    if (!c->open || c->reply.problem != NULL || (c->out_used > 0 && (c->staged == 0 || c->transport != NULL)))
        return false;
    c->owed += c->in_flight;
    c->in_flight = c->staged = c->head = c->out_used = 0;
    memset(c->slots, 0, c->depth * sizeof *c->slots);
    return true;
}

static redisReply *receive_reply(struct conn *c, uint64_t deadline, const char *command, struct failure *f)
{
    char buffer[READ_SIZE];
    uint64_t unfinished = 0;
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(c->reader, &reply) != REDIS_OK) {
            (void)fail_server(f, "protocol", "%s: %s", command, reader_problem(c->reader));
            break;
        }
        if (reply != NULL)
            return reply;
        size_t n = receive_some(c, buffer, deadline, command, f);
        if (n == 0)
            return NULL;
        (void)conn_discard(c, buffer, n); /* if the rest does not come in time, this is owed no longer */
        unfinished += n;
        if (unfinished > REPLY_SLACK || redisReaderFeed(c->reader, buffer, n) != REDIS_OK) {
            (void)fail_server(f, "protocol", "%s: endless reply", command);
            break;
        }
    }
    c->owed = 0;
    return NULL;
}

/* Forgets the part of a reply that is owed. */
static void renew_reader(struct conn *c, struct failure *f)
{
    redisReaderFree(c->reader);
    c->reader = conn_reader();
    if (c->reader != NULL)
        return;
    c->owed = 0;
    (void)fail_memory(f);
}

bool conn_exchange(struct conn *c, double timeout, struct failure *f, const char *name, const char *commands,
                   size_t size, redisReply **replies, size_t count)
{
    uint64_t deadline = now_ns() + seconds_to_ns(timeout);
    if (!conn_settle(c, deadline, name, f) || !send_sealed(c, commands, size, deadline, name, f))
        return false;
    reply_begin(&c->reply);
    c->owed = count;
    for (size_t i = 0; i < count; i++) {
        replies[i] = receive_reply(c, deadline, name, f);
        if (replies[i] != NULL)
            continue;
        if (c->owed > 0)
            renew_reader(c, f);
        return false;
    }
    c->owed = 0;
    reply_begin(&c->reply);
    return true;
}

redisReply *conn_command(struct conn *c, double timeout, struct failure *f, int argc, const char **argv)
{
    char *formatted = NULL;
    long long length = redisFormatCommandArgv(&formatted, argc, argv, NULL);
    if (length < 0) {
        (void)fail_memory(f);
        return NULL;
    }
    redisReply *reply = NULL;
    (void)conn_exchange(c, timeout, f, argv[0], formatted, (size_t)length, &reply, 1);
    explicit_bzero(formatted, (size_t)length); /* it may hold the password */
    redisFreeCommand(formatted);
    return reply;
}

#define TOO_MANY "ERR max number of clients"

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* With a password, the reply to AUTH decides. Without one, the reply to PING shows whether the
 * server wants one or refuses the client for another reason. A server that is still loading its
 * data is accepted: its errors are counted. */
static const char *refusal_kind(const redisReply *reply, bool authenticating)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return NULL;
    if (starts_with(reply->str, TOO_MANY))
        return "no_client"; /* whatever was asked */
    if (starts_with(reply->str, "DENIED"))
        return "connect";
    if (authenticating || starts_with(reply->str, "NOAUTH"))
        return "auth";
    return starts_with(reply->str, "ERR") ? "connect" : NULL;
}

/* The length of the code that an error begins with, such as WRONGPASS; with that of a limit of clients, which is ERR. */
static int code_length(const char *error)
{
    if (starts_with(error, TOO_MANY))
        return (int)strlen(TOO_MANY);
    return (int)min_u64(strspn(error, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 32);
}

/* There was no working connection yet. */
static void call_it_not_connected(const struct conn *c, struct failure *f)
{
    if (f->exit_code != EXIT_LOST)
        return;
    f->exit_code = EXIT_CONNECT;
    f->kind = transport_failure_kind(c->transport);
}

bool conn_authenticate(struct conn *c, const struct credentials *who, const struct settings *s, struct failure *f)
{
    const char *argv[3] = {"PING"};
    int argc = 1;
    if (who->present) {
        argv[0] = "AUTH";
        if (who->user != NULL)
            argv[argc++] = who->user;
        argv[argc++] = who->password;
    }
    redisReply *reply = conn_command(c, s->timeout, f, argc, argv);
    if (reply == NULL) {
        call_it_not_connected(c, f);
        return false;
    }
    const char *refused = refusal_kind(reply, who->present);
    /* A server without the command AUTH repeats the password in its error. */
    if (refused != NULL)
        (void)fail(f, EXIT_CONNECT, refused, "access denied: %.*s", who->present ? code_length(reply->str) : INT_MAX,
                   reply->str);
    freeReplyObject(reply);
    return refused == NULL;
}

/* Receives a part of the server's handshake into `room`; 0 after a failure. */
static size_t receive_handshake(struct conn *c, struct iovec room, uint64_t deadline, struct failure *f)
{
    for (;;) {
        if (!wait_ready(c->fd, POLLIN, deadline)) {
            (void)fail_wait(f, "TLS handshake");
            return 0;
        }
        ssize_t n = recv(c->fd, room.iov_base, room.iov_len, MSG_DONTWAIT);
        if (n > 0)
            return (size_t)n;
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            (void)fail_server(f, "lost", "TLS handshake: connection lost: %s",
                              n == 0 ? "closed by the server" : strerror(errno));
            return 0;
        }
    }
}

static bool shake_hands(struct conn *c, const struct settings *s, uint64_t deadline, struct failure *f)
{
    char buffer[4096];
    size_t n, received = 0;
    for (;;) {
        enum handshake state = transport_shake_hands(c->transport, received);
        while ((n = transport_output(c->transport, buffer, sizeof buffer)) > 0)
            if (!send_all(c, buffer, n, deadline, "TLS handshake", f))
                return false;
        if (state == HANDSHAKE_FAILED)
            return c->transport->does->fail_handshake(c->transport, s, f);
        if (state == HANDSHAKE_DONE)
            return true;
        received = receive_handshake(c, transport_room(c->transport, buffer), deadline, f);
        if (received == 0)
            return false;
    }
}

bool conn_connect(struct conn *c, const struct settings *s, struct failure *f)
{
    uint64_t deadline = now_ns() + seconds_to_ns(s->connect_timeout);
    reply_begin(&c->reply);
    c->reader = conn_reader();
    if (c->reader == NULL)
        return fail_memory(f);
    c->fd = network_connect(s, deadline, f);
    c->open = c->fd >= 0;
    if (!c->open)
        return false;
    if (s->tls && (c->transport = tls_create(s, f)) == NULL)
        return false;
    if (shake_hands(c, s, deadline, f))
        return true;
    call_it_not_connected(c, f);
    return false;
}

void conn_stamp(struct conn *c)
{
    int on = 1;
    c->stamped = setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0;
}

bool conn_await_stamp(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *ping = "PING";
    uint64_t deadline = now_ns() + seconds_to_ns(STAMP_WAIT);
    while (c->stamped && !c->stamp_seen && now_ns() < deadline) {
        redisReply *reply = conn_command(c, s->timeout, f, 1, &ping); /* any answer will do */
        if (reply == NULL)
            return false;
        freeReplyObject(reply);
        if (!c->stamp_seen)
            sleep_until(CLOCK_MONOTONIC, now_ns() + NS_PER_MS);
    }
    return true;
}

bool conn_allocate(struct conn *c, size_t depth, size_t largest_command, size_t share, struct failure *f)
{
    if (c->slots != NULL)
        return true; /* it was connected before */
    c->depth = depth;
    c->largest_command = transport_sealed_size(c->transport, largest_command);
    c->out_size = (size_t)max_u64(c->largest_command, min_u64(depth * c->largest_command, share));
    c->slots = calloc(depth, sizeof *c->slots);
    c->out = malloc(c->out_size);
    reply_begin(&c->reply);
    return (c->slots != NULL && c->out != NULL) || fail_memory(f);
}

void conn_disconnect(struct conn *c)
{
    struct conn kept = {.slots = c->slots,
                        .depth = c->depth,
                        .largest_command = c->largest_command,
                        .out = c->out,
                        .out_size = c->out_size};
    if (c->reader != NULL)
        redisReaderFree(c->reader);
    if (c->open)
        (void)close(c->fd);
    transport_free(c->transport);
    *c = kept;
    reply_begin(&c->reply);
    if (c->slots != NULL)
        memset(c->slots, 0, c->depth * sizeof *c->slots);
}

void conn_close(struct conn *c)
{
    conn_disconnect(c);
    free(c->slots);
    free(c->out);
    memset(c, 0, sizeof *c);
}
