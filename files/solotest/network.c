/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "network.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "signals.h"

enum { MOST_ADDRESSES = 16 };

struct address {
    socklen_t size;
    struct sockaddr_storage name;
};

struct addresses {
    int error; /* of getaddrinfo() */
    size_t count;
    struct address list[MOST_ADDRESSES];
};

_Static_assert(sizeof(struct addresses) <= 4096, "a pipe takes this many bytes at once");

bool wait_ready(int fd, short events, uint64_t deadline)
{
    while (!interrupted) {
        struct timespec left = to_timespec(since(deadline, now_ns()));
        struct pollfd p = {.fd = fd, .events = events};
        int ready = ppoll(&p, 1, &left, NULL);
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
    return false;
}

static void look_up(const struct settings *s, int flags, struct addresses *to)
{
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = flags}, *found = NULL;
    char port[24];
    *to = (struct addresses){0};
    (void)snprintf(port, sizeof port, "%" PRId64, s->port);
    to->error = getaddrinfo(s->host, port, &wanted, &found);
    if (to->error != 0)
        return;
    for (struct addrinfo *a = found; a != NULL && to->count < MOST_ADDRESSES; a = a->ai_next) {
        struct address *each = &to->list[to->count++];
        each->size = a->ai_addrlen;
        memcpy(&each->name, a->ai_addr, a->ai_addrlen);
    }
    freeaddrinfo(found);
}

static bool fail_to_resolve(const struct settings *s, const char *why, struct failure *f)
{
    return fail(f, EXIT_CONNECT, "connect", "cannot resolve %s: %s", s->host, why);
}

static bool fail_to_start_helper(const struct settings *s, struct failure *f)
{
    return fail_resources(f,
                          "cannot resolve %s: %s; raise the limit of open files (ulimit -n) or of processes "
                          "(ulimit -u)",
                          s->host, strerror(errno));
}

/* Nothing ends getaddrinfo() before its own time-outs, so another process calls it. */
static bool look_up_until(const struct settings *s, uint64_t deadline, struct addresses *to, struct failure *f)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_to_start_helper(s, f);
    pid_t helper = fork();
    if (helper == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        look_up(s, 0, to);
        _exit(write(ends[1], to, sizeof *to) == (ssize_t)sizeof *to ? 0 : 1);
    }
    if (helper < 0)
        (void)fail_to_start_helper(s, f);
    (void)close(ends[1]);
    bool ended = helper > 0 && wait_ready(ends[0], POLLIN, deadline);
    bool answered = ended && read(ends[0], to, sizeof *to) == (ssize_t)sizeof *to;
    (void)close(ends[0]);
    if (helper > 0) {
        (void)kill(helper, SIGKILL);
        while (waitpid(helper, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (answered)
        return true;
    return interrupted
               ? fail_interrupted(f)
               : fail_to_resolve(s, ended ? "the process that looks it up has crashed" : strerror(ETIMEDOUT), f);
}

static bool resolve(const struct settings *s, uint64_t deadline, struct addresses *to, struct failure *f)
{
    look_up(s, AI_NUMERICHOST, to); /* an address needs no server */
    if (to->error == EAI_NONAME && !look_up_until(s, deadline, to, f))
        return false;
    return to->error == 0 || fail_to_resolve(s, gai_strerror(to->error), f);
}

/* Waits for a connection that was begun, and returns its error. */
static int finish_connecting(int fd, uint64_t deadline)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (!wait_ready(fd, POLLOUT, deadline))
        return ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

static int begin_connecting(int fd, const struct address *to, uint64_t deadline)
{
    for (;;) {
        if (connect(fd, (const struct sockaddr *)&to->name, to->size) == 0)
            return 0;
        if (errno != EAGAIN || interrupted || now_ns() >= deadline)
            return errno;
        sleep_until(CLOCK_MONOTONIC, now_ns() + NS_PER_MS); /* the queue of a Unix socket is full */
    }
}

/* Returns a connected socket; -1 with errno. */
static int connect_to(const struct address *to, uint64_t deadline)
{
    int fd = socket(to->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int error = begin_connecting(fd, to, deadline), on = 1;
    if (error == EINPROGRESS)
        error = finish_connecting(fd, deadline);
    if (error == 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0)
        error = errno;
    if (error == 0) {
        if (to->name.ss_family != AF_UNIX)
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return fd;
    }
    (void)close(fd);
    errno = error;
    return -1;
}

/* Tries one address after another; each may take its share of the time that is left. */
static int connect_to_any(const struct addresses *to, uint64_t deadline)
{
    int fd = -1;
    for (size_t i = 0; fd < 0 && i < to->count && !interrupted; i++) {
        uint64_t now = now_ns();
        fd = connect_to(&to->list[i], now + since(deadline, now) / (to->count - i));
    }
    return fd;
}

static void name_socket(const struct settings *s, struct addresses *to)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, s->socket, strlen(s->socket)); /* options.c checks that it fits */
    *to = (struct addresses){.count = 1, .list = {{.size = sizeof name}}};
    memcpy(&to->list[0].name, &name, sizeof name);
}

int network_connect(const struct settings *s, uint64_t deadline, struct failure *f)
{
    struct addresses to;
    if (s->socket != NULL)
        name_socket(s, &to);
    else if (!resolve(s, deadline, &to, f))
        return -1;
    int fd = connect_to_any(&to, deadline);
    if (fd >= 0)
        return fd;
    const char *why = strerror(errno);
    if (interrupted)
        (void)fail_interrupted(f);
    else if (errno == EMFILE || errno == ENFILE)
        (void)fail_resources(f,
                             "cannot open a connection: %s; raise the limit of open files (ulimit -n), or use fewer "
                             "connections",
                             why);
    else if (s->socket != NULL)
        (void)fail(f, EXIT_CONNECT, "connect", "cannot connect to %s: %s", s->socket, why);
    else
        (void)fail(f, EXIT_CONNECT, "connect", "cannot connect to %s port %" PRId64 ": %s", s->host, s->port, why);
    return -1;
}
