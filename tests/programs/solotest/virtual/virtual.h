/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A virtual machine for the load engine: a clock, a kernel and a Redis that exist only as numbers. The engine runs
 * unchanged; the linker replaces the system calls that it makes (`--wrap`, see the Makefile). So a test knows the truth
 * to the nanosecond, and no busy machine can disturb it.
 *
 * The server takes a given time for each request, in the order of arrival. The client's CPU and the server's can be
 * stopped; if both are stopped at the same time, the machine is frozen. Data that arrives is time-stamped when it arrives.
 * A reply may arrive in two parts, and with TLS, which takes no time here.
 *
 * What crosses the border between engine and kernel is logged: sends and reads, with the times that the engine was told
 * around them. second.h computes all latencies from that alone.
 */
#ifndef VIRTUAL_H
#define VIRTUAL_H

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "../tls_server.h"
#include "solotest/load.h"
#include "solotest/random.h"
#include "solotest/requests.h"
#include "solotest/resp.h"

enum { FIRST_FD = 1000, MOST_CONNECTIONS = 512 };
enum { CLOCK_NS = 250, CALL_NS = 600, SEND_NS = 4000 }; /* what system calls take; a fast clock would only cost time */
#define VIRTUAL_START (UINT64_C(1000) * NS_PER_S)
#define VIRTUAL_WALL (UINT64_C(1700000000) * NS_PER_S)

/* Times at which a CPU does not run, in order and without overlap. */
struct stops {
    const struct stop {
        uint64_t begin, end;
    } *list;
    size_t count;
};

/* A call of the engine that sent requests, that returned data, or that looked for data (`after`: when it had surely
 * looked last). */
struct logged {
    size_t connection, count; /* requests sent, or replies completed */
    uint64_t before, after;   /* the last reading of the monotonic clock before it, and the first one after it */
    uint64_t wall, stamp;     /* read: of the wall clock, right after `after`, and by the kernel */
    bool stamped;             /* the engine did read the wall clock */
    bool to_the_end;          /* read: it ended with a reply, and there was room for more */
    bool full, blocking;      /* read: there was no room for more; it waited for data */
    size_t order;             /* among all that is logged */
    bool steady;              /* read: what second.h finds: the stamp is known, and how long the last byte had waited */
    int64_t waited;
    int64_t last_read; /* send: what second.h finds: when the latest reply before it was read */
    size_t under_way;  /* and how many were missing */
    int64_t looked;    /* send: what second.h finds: when the client had last looked for replies */
};

struct log {
    struct logged *list;
    size_t count, room;
};

struct virtual_machine {
    uint64_t now;
    struct log sends, reads, looks;
    size_t logged;
    uint64_t told;               /* the last reading of the monotonic clock */
    bool sending, reading, read; /* waits for the reading of the clock after a send, after a read, of the wall clock */
    uint64_t unstamped;          /* what arrives before this time has no time stamp */
    size_t value_size;           /* 0: 5 bytes */
    char reply[128];             /* what the server answers */
    size_t reply_size;
    struct stops client, server;
    uint64_t wakeup;      /* how late a sleep ends */
    const uint64_t *late; /* if not NULL, how late the sleeps of the pacer end instead, again and again */
    size_t late_count, sleeps;
    uint64_t slept; /* time in which the client left its CPU to others */
    uint64_t turn;  /* of another program on the client's CPU that never sleeps; 0: there is none */
    uint64_t yields;
    struct {
        uint64_t at;
        int64_t by;
    } step;                   /* of the wall clock */
    const uint64_t *services; /* ns of work for each request */
    uint64_t service_count, served, server_free;
    uint64_t tear; /* how long before the rest the first part of a reply arrives at most; 0: it arrives as a whole */
    struct virtual_connection {
        uint64_t *replies, *parts; /* when each arrives, and when its first part does */
        size_t head, tail;
        bool begun;            /* the first part of the next one was read */
        struct tls_server tls; /* .ssl is NULL without TLS */
        char sealed[128];      /* what is left of the next one */
        size_t sealed_size;
    } conns[MOST_CONNECTIONS];
};

static struct virtual_machine vm;

/* The first stop that ends after `when`. */
static inline size_t stop_after(const struct stops *stops, uint64_t when)
{
    size_t low = 0, high = stops->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (stops->list[middle].end <= when)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* When work that could begin at `start` is done. */
static inline uint64_t work_until(const struct stops *stops, uint64_t start, uint64_t work)
{
    for (size_t i = stop_after(stops, start); i < stops->count; i++) {
        const struct stop *s = &stops->list[i];
        if (s->begin > start) {
            if (start + work <= s->begin)
                return start + work;
            work -= s->begin - start;
        }
        start = s->end;
    }
    return start + work;
}

static inline void client_works(uint64_t ns)
{
    vm.now = work_until(&vm.client, vm.now, ns);
}

static inline void client_sleeps(uint64_t until, uint64_t late)
{
    uint64_t before = vm.now;
    vm.now = max_u64(vm.now, until);
    client_works(late);
    vm.slept += vm.now - before;
}

static inline void client_sleeps_until(uint64_t when)
{
    client_sleeps(when, vm.wakeup);
}

static inline uint64_t wall_at(uint64_t when)
{
    return VIRTUAL_WALL + when + (vm.step.by != 0 && when >= vm.step.at ? (uint64_t)vm.step.by : 0);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left);
int __wrap_sched_yield(void);
int __wrap_setitimer(__itimer_which_t which, const struct itimerval *new, struct itimerval *old);
ssize_t __wrap_send(int fd, const void *data, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t size, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);
int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *left, const sigset_t *mask);

static inline struct logged *log_last(struct log *log)
{
    return &log->list[log->count - 1];
}

static inline struct logged *log_add(struct log *log, int fd)
{
    if (log->count == log->room) {
        log->room = log->room * 2 + 1024;
        log->list = realloc(log->list, log->room * sizeof *log->list);
    }
    log->list[log->count++] = (struct logged){
        .connection = (size_t)(fd - FIRST_FD), .before = vm.told, .after = vm.told, .order = vm.logged++};
    return log_last(log);
}

static inline void log_clock(clockid_t clock)
{
    if (clock == CLOCK_REALTIME) {
        if (vm.read) {
            log_last(&vm.reads)->stamped = true;
            log_last(&vm.reads)->wall = wall_at(vm.now);
        }
    } else {
        vm.told = vm.now;
        if (vm.sending)
            log_last(&vm.sends)->after = vm.now;
        if (vm.reading)
            log_last(&vm.reads)->after = vm.now;
    }
    vm.read = vm.reading && clock != CLOCK_REALTIME;
    vm.sending = vm.sending && clock == CLOCK_REALTIME;
    vm.reading = vm.reading && clock == CLOCK_REALTIME;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    client_works(CLOCK_NS);
    *t = to_timespec(clock == CLOCK_REALTIME ? wall_at(vm.now) : vm.now);
    log_clock(clock);
    return 0;
}

/* A sleep until a time of the wall clock ends when the clock shows it, also if the clock is set to a later time. */
static inline uint64_t when_wall_shows(uint64_t wanted)
{
    uint64_t before_step = since(wanted, VIRTUAL_WALL), after_step = since(wanted, VIRTUAL_WALL + (uint64_t)vm.step.by);
    if (vm.step.by == 0 || (before_step < vm.step.at && before_step > 0))
        return before_step;
    return max_u64(vm.step.at, after_step);
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    uint64_t when = (uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec;
    (void)flags, (void)left;
    client_sleeps(clock == CLOCK_REALTIME ? when_wall_shows(when) : when,
                  vm.late != NULL ? vm.late[vm.sleeps++ % vm.late_count] : vm.wakeup);
    return 0;
}

int __wrap_sched_yield(void)
{
    client_works(CALL_NS + vm.turn);
    vm.yields++;
    return 0;
}

int __wrap_setitimer(__itimer_which_t which, const struct itimerval *new, struct itimerval *old)
{
    (void)which, (void)new, (void)old;
    return 0;
}

static inline void serve(int fd)
{
    uint64_t begin = max_u64(vm.now, vm.server_free);
    if (vm.served == vm.service_count)
        abort();
    vm.server_free = work_until(&vm.server, begin, vm.services[vm.served++]);
    struct virtual_connection *c = &vm.conns[fd - FIRST_FD];
    uint64_t before = vm.tear > 0 ? vm.served * UINT64_C(0x9e3779b97f4a7c15) % vm.tear : 0;
    c->parts[c->tail] = max_u64(begin, vm.server_free - before);
    c->replies[c->tail++] = vm.server_free;
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    static char text[OUTPUT_MAX];
    struct tls_server *tls = &vm.conns[fd - FIRST_FD].tls;
    (void)flags;
    client_works(SEND_NS);
    const char *commands = tls->ssl != NULL ? text : data;
    size_t count = tls->ssl != NULL ? tls_server_receive(tls, data, size, text, sizeof text) : size;
    struct logged *logged = log_add(&vm.sends, fd);
    for (size_t i = 0; i < count; i++)
        if (commands[i] == '*') { /* a command begins */
            serve(fd);
            logged->count++;
        }
    vm.sending = true;
    return (ssize_t)size;
}

/* When the next bytes arrive. */
static inline uint64_t next_arrival(const struct virtual_connection *c)
{
    return c->head == c->tail ? NEVER : (c->begun ? c->replies : c->parts)[c->head];
}

/* Writes the next part of the next reply. */
static inline size_t take_part(struct virtual_connection *c, char *to)
{
    if (!c->begun) {
        c->sealed_size = vm.reply_size;
        memcpy(c->sealed, vm.reply, c->sealed_size);
        if (c->tls.ssl != NULL)
            c->sealed_size = tls_server_seal(&c->tls, vm.reply, vm.reply_size, c->sealed, sizeof c->sealed);
    }
    size_t size = c->begun ? c->sealed_size : c->sealed_size / 2;
    memcpy(to, c->sealed, size);
    c->sealed_size -= size;
    memmove(c->sealed, c->sealed + size, c->sealed_size);
    c->head += c->begun;
    c->begun = !c->begun;
    return size;
}

/* The room that the next part needs. */
static inline size_t part_size(const struct virtual_connection *c)
{
    if (c->tls.ssl != NULL)
        return sizeof c->sealed;
    return c->begun ? c->sealed_size : vm.reply_size / 2;
}

/* The latest data that is there. The kernel joins what waits, and stamps all of it with the time of the last. */
static inline uint64_t last_arrival(const struct virtual_connection *c, uint64_t arrived)
{
    for (size_t i = c->head; i < c->tail && c->replies[i] <= vm.now; i++)
        arrived = c->replies[i];
    return arrived;
}

/* Returns all that has arrived, as far as there is room. */
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    struct cmsghdr *header = message->msg_control;
    size_t size = 0, arrived = 0;
    client_works(CALL_NS);
    struct virtual_connection *c = &vm.conns[fd - FIRST_FD];
    if (next_arrival(c) > vm.now && c->head < c->tail && (flags & MSG_DONTWAIT) == 0)
        client_sleeps_until(next_arrival(c));
    size_t before = c->head;
    while (next_arrival(c) <= vm.now && size + part_size(c) <= message->msg_iov->iov_len) {
        arrived = next_arrival(c);
        size += take_part(c, (char *)message->msg_iov->iov_base + size);
    }
    if (size == 0) {
        errno = EAGAIN;
        return -1;
    }
    bool full = size == message->msg_iov->iov_len;
    if (full)
        arrived = last_arrival(c, arrived);
    struct timespec stamp = to_timespec(wall_at(arrived));
    struct logged *logged = log_add(&vm.reads, fd);
    logged->count = c->head - before;
    logged->stamp = wall_at(arrived);
    logged->to_the_end = !c->begun && !full;
    logged->full = full;
    logged->blocking = (flags & MSG_DONTWAIT) == 0;
    vm.reading = true;
    *header =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof stamp), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_TIMESTAMPNS};
    memcpy(CMSG_DATA(header), &stamp, sizeof stamp);
    if (arrived < vm.unstamped)
        message->msg_controllen = 0;
    return (ssize_t)size;
}

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = {.iov_base = to, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if ((flags & MSG_PEEK) == 0)
        return __wrap_recvmsg(fd, &message, flags);
    client_works(CALL_NS);
    if (next_arrival(&vm.conns[fd - FIRST_FD]) <= vm.now)
        return 1;
    errno = EAGAIN;
    return -1;
}

static inline int ready_of(struct pollfd *polls, nfds_t count, uint64_t *next)
{
    int ready = 0;
    *next = NEVER;
    for (nfds_t i = 0; i < count; i++) {
        uint64_t arrives = next_arrival(&vm.conns[polls[i].fd - FIRST_FD]);
        polls[i].revents = arrives <= vm.now ? POLLIN : 0;
        ready += arrives <= vm.now;
        *next = min_u64(*next, arrives);
    }
    return ready;
}

int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *left, const sigset_t *mask)
{
    uint64_t timeout = (uint64_t)left->tv_sec * NS_PER_S + (uint64_t)left->tv_nsec, next, until = vm.now + timeout;
    (void)mask;
    struct logged *logged = log_add(&vm.looks, polls[0].fd);
    client_works(CALL_NS);
    int ready = ready_of(polls, count, &next);
    if (ready == 0 && timeout > 0) {
        client_sleeps_until(min_u64(next, until));
        ready = ready_of(polls, count, &next);
    }
    if (ready == 0)
        logged->after += timeout; /* what was left of it at `before` */
    return ready;
}

/* A schedule of requests on the virtual machine. */
struct schedule_of_load {
    size_t connections, pipeline;
    uint64_t requests, period, seed;
    enum pacing pacing;
    enum arrivals arrivals;
    double windows; /* seconds; 0: none */
    void (*write)(const struct windows *w);
    double max_seconds; /* 0: no limit */
    uint64_t end_at;    /* 0: none */
    bool tls;
    bool learns; /* hybrid: from sleeps before the start, too, and without a least spin */
};

struct virtual_run {
    struct settings settings;
    struct failure failure;
    struct chooser chooser;
    struct exchange exchange;
    struct measurement *measurement;
    uint64_t *due; /* of each request */
    bool complete;
};

/* Runs a schedule on the virtual machine as it is set up in `vm`, with its clock at VIRTUAL_START. */
static inline void virtual_run(struct virtual_run *run, const struct schedule_of_load *s)
{
    memset(run, 0, sizeof *run);
    run->settings = default_settings;
    size_t value_size = vm.value_size > 0 ? vm.value_size : 5;
    vm.reply_size = (size_t)snprintf(vm.reply, sizeof vm.reply, "$%zu\r\n%0*d\r\n", value_size, (int)value_size, 0);
    run->settings.value_size = (int64_t)value_size;
    run->settings.key_count = 1000;
    run->settings.requests = (int64_t)s->requests;
    run->settings.rate = 1e9 / (double)s->period;
    run->settings.raw_file = "kept in memory";
    run->settings.timeout = 1e6;
    chooser_init(&run->chooser, s->seed, 1000, PATTERN_UNIFORM, 0, 100);
    run->settings.windows = s->windows;
    run->measurement = measurement_create(&run->settings, &run->failure);
    if (run->measurement->windows != NULL)
        run->measurement->windows->write = s->write;
    uint64_t spin = s->pacing == PACING_SPIN ? NEVER : s->pacing == PACING_SLEEP ? 0 : SPIN_CHEAP_NS;
    struct pacer pacer = {.mode = s->pacing,
                          .spin = spin,
                          .spin_min = s->learns ? 0 : spin,
                          .period = (long double)s->period,
                          .arrivals = s->arrivals};
    vm.now = VIRTUAL_START;
    if (s->learns)
        pacer_rehearse(&pacer, NEVER);
    pacer.start = vm.now + NS_PER_MS;
    rng_seed(&pacer.rng, s->seed, STREAM_ARRIVALS);
    run->exchange =
        (struct exchange){.settings = &run->settings,
                          .chooser = &run->chooser,
                          .planned = s->requests,
                          .stop_at = s->max_seconds > 0 ? VIRTUAL_START + seconds_to_ns(s->max_seconds) : NEVER,
                          .end_at = s->end_at,
                          .failure = &run->failure,
                          .measurement = run->measurement,
                          .conn_count = s->connections,
                          .conns = calloc(s->connections, sizeof *run->exchange.conns),
                          .polls = calloc(s->connections, sizeof *run->exchange.polls),
                          .input = malloc(65536),
                          .pacer = pacer};
    struct exchange *x = &run->exchange;
    x->value_head_size = (size_t)(put_length(x->value_head, value_size) - x->value_head);
    for (size_t i = 0; i < s->connections; i++) {
        vm.conns[i] = (struct virtual_connection){0};
        x->conns[i].transport = s->tls ? tls_server_open(&vm.conns[i].tls) : NULL;
        if (!conn_allocate(&x->conns[i], s->pipeline, command_size(&run->settings), OUTPUT_MAX, &run->failure))
            abort();
        x->conns[i].fd = FIRST_FD + (int)i;
        x->conns[i].stamped = true;
        vm.conns[i].replies = calloc((size_t)s->requests, sizeof(uint64_t));
        vm.conns[i].parts = calloc((size_t)s->requests, sizeof(uint64_t));
    }
    vm.served = vm.server_free = 0;
    run->complete = load_run(x);
    measurement_finish(run->measurement, &x->bound);
    run->due = calloc((size_t)s->requests, sizeof *run->due);
    for (uint64_t i = 0; i < s->requests; i++)
        run->due[i] = pacer_due(&pacer, i);
}

static inline void virtual_end(struct virtual_run *run)
{
    for (size_t i = 0; i < run->exchange.conn_count; i++) {
        free(vm.conns[i].replies);
        free(vm.conns[i].parts);
        SSL_free(vm.conns[i].tls.ssl);
    }
    free(vm.sends.list);
    free(vm.reads.list);
    free(vm.looks.list);
    vm.sends = vm.reads = vm.looks = (struct log){0};
    vm.logged = 0;
    free(run->due);
    measurement_free(run->measurement);
    load_close(&run->exchange);
}

/* What an ideal client would have seen, which sends each request when it is due: for the same work, with the server
 * stopped at the same times. Sending takes time, too. A single slot sends only when it has the reply before. */
static inline void ideal_latencies(const struct virtual_run *run, uint64_t count, uint64_t *latencies)
{
    bool single = run->exchange.conn_count == 1 && run->exchange.conns[0].depth == 1;
    uint64_t free_at = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sent = max_u64(run->due[i], single ? free_at : 0) + SEND_NS;
        free_at = work_until(&vm.server, max_u64(sent, free_at), vm.services[i]);
        latencies[i] = free_at - run->due[i];
    }
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static inline void sort_u64(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, compare_u64);
}

#endif
