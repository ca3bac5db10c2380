/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A virtual machine for the load engine: a clock, a kernel and a Redis that exist only as numbers. The engine runs
 * unchanged; the linker replaces the system calls that it makes (`--wrap`, see the Makefile). So a test knows the truth
 * to the nanosecond, and no busy machine can disturb it.
 *
 * The server takes a given time for each request, in the order of arrival. The client's CPU and the server's can be
 * stopped; if both are stopped at the same time, the machine is frozen. Data that arrives is time-stamped when it arrives.
 */
#ifndef VIRTUAL_H
#define VIRTUAL_H

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include "solotest/load.h"
#include "solotest/random.h"
#include "solotest/requests.h"

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

struct virtual_machine {
    uint64_t now;
    struct stops client, server;
    uint64_t wakeup; /* how late a sleep ends */
    uint64_t turn;   /* of another program on the client's CPU that never sleeps; 0: there is none */
    uint64_t yields;
    struct {
        uint64_t at;
        int64_t by;
    } step; /* of the wall clock */
    const uint64_t *services; /* ns of work for each request */
    uint64_t service_count, served, server_free;
    struct {
        uint64_t *replies; /* when each arrives */
        size_t head, tail;
    } conns[MOST_CONNECTIONS];
};

static struct virtual_machine vm;

/* When work that could begin at `start` is done. */
static inline uint64_t work_until(const struct stops *stops, uint64_t start, uint64_t work)
{
    for (size_t i = 0; i < stops->count; i++) {
        const struct stop *s = &stops->list[i];
        if (s->end <= start)
            continue;
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

static inline void client_sleeps_until(uint64_t when)
{
    vm.now = max_u64(vm.now, when);
    client_works(vm.wakeup);
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

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    client_works(CLOCK_NS);
    *t = to_timespec(clock == CLOCK_REALTIME ? wall_at(vm.now) : vm.now);
    return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    (void)clock, (void)flags, (void)left;
    client_sleeps_until((uint64_t)until->tv_sec * NS_PER_S + (uint64_t)until->tv_nsec);
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
    vm.conns[fd - FIRST_FD].replies[vm.conns[fd - FIRST_FD].tail++] = vm.server_free;
}

ssize_t __wrap_send(int fd, const void *data, size_t size, int flags)
{
    (void)flags;
    client_works(SEND_NS);
    for (size_t i = 0; i < size; i++)
        if (((const char *)data)[i] == '*') /* a command begins */
            serve(fd);
    return (ssize_t)size;
}

/* Returns all replies that have arrived. */
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
    static const char reply[] = "$5\r\nhello\r\n";
    struct cmsghdr *header = message->msg_control;
    size_t size = 0, arrived = 0;
    client_works(CALL_NS);
    __typeof__(vm.conns[0]) *c = &vm.conns[fd - FIRST_FD];
    if (c->head < c->tail && c->replies[c->head] > vm.now && (flags & MSG_DONTWAIT) == 0)
        client_sleeps_until(c->replies[c->head]);
    for (; c->head < c->tail && c->replies[c->head] <= vm.now; c->head++) {
        memcpy((char *)message->msg_iov->iov_base + size, reply, sizeof reply - 1);
        size += sizeof reply - 1;
        arrived = c->replies[c->head];
    }
    if (size == 0) {
        errno = EAGAIN;
        return -1;
    }
    struct timespec stamp = to_timespec(wall_at(arrived));
    *header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof stamp), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_TIMESTAMPNS};
    memcpy(CMSG_DATA(header), &stamp, sizeof stamp);
    return (ssize_t)size;
}

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec part = {.iov_base = to, .iov_len = size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control};
    if ((flags & MSG_PEEK) == 0)
        return __wrap_recvmsg(fd, &message, flags);
    errno = EAGAIN; /* only looked at before the load, when nothing has been sent */
    return -1;
}

static inline int ready_of(struct pollfd *polls, nfds_t count, uint64_t *next)
{
    int ready = 0;
    *next = NEVER;
    for (nfds_t i = 0; i < count; i++) {
        __typeof__(vm.conns[0]) *c = &vm.conns[polls[i].fd - FIRST_FD];
        polls[i].revents = 0;
        if (c->head == c->tail)
            continue;
        *next = min_u64(*next, c->replies[c->head]);
        if (c->replies[c->head] <= vm.now) {
            polls[i].revents = POLLIN;
            ready++;
        }
    }
    return ready;
}

int __wrap_ppoll(struct pollfd *polls, nfds_t count, const struct timespec *left, const sigset_t *mask)
{
    uint64_t next, until = vm.now + (uint64_t)left->tv_sec * NS_PER_S + (uint64_t)left->tv_nsec;
    bool waits = left->tv_sec > 0 || left->tv_nsec > 0;
    (void)mask;
    client_works(CALL_NS);
    int ready = ready_of(polls, count, &next);
    if (ready > 0 || !waits)
        return ready;
    client_sleeps_until(min_u64(next, until));
    return ready_of(polls, count, &next);
}

/* A schedule of requests on the virtual machine. */
struct schedule {
    size_t connections, pipeline;
    uint64_t requests, period, seed;
    enum pacing pacing;
    enum arrivals arrivals;
    double max_seconds; /* 0: no limit */
};

struct virtual_run {
    struct settings settings;
    struct failure failure;
    struct chooser chooser;
    struct byte_rng values;
    struct load load;
    struct measurement *measurement;
    uint64_t *due; /* of each request */
    bool complete;
};

/* Runs a schedule on the virtual machine as it is set up in `vm`, with its clock at VIRTUAL_START. */
static inline void virtual_run(struct virtual_run *run, const struct schedule *s)
{
    memset(run, 0, sizeof *run);
    run->settings = default_settings;
    run->settings.value_size = 5;
    run->settings.key_count = 1000;
    run->settings.requests = (int64_t)s->requests;
    run->settings.rate = 1e9 / (double)s->period;
    run->settings.raw_file = "kept in memory";
    run->settings.timeout = 1e6;
    chooser_init(&run->chooser, s->seed, 1000, PATTERN_UNIFORM, 0, 100);
    run->measurement = measurement_create(&run->settings, &run->failure);
    uint64_t spin = s->pacing == PACING_SPIN ? NEVER : s->pacing == PACING_SLEEP ? 0 : 40 * NS_PER_US;
    vm.now = VIRTUAL_START;
    run->load = (struct load){
        .settings = &run->settings, .chooser = &run->chooser, .values = &run->values, .planned = s->requests,
        .stop_at = s->max_seconds > 0 ? VIRTUAL_START + seconds_to_ns(s->max_seconds) : NEVER,
        .failure = &run->failure, .measurement = run->measurement, .conn_count = s->connections,
        .conns = calloc(s->connections, sizeof *run->load.conns), .polls = calloc(s->connections, sizeof *run->load.polls),
        .input = malloc(65536),
        .pacer = {.mode = s->pacing, .start = VIRTUAL_START + NS_PER_MS, .spin = spin, .spin_min = spin,
                  .period = (long double)s->period, .arrivals = s->arrivals}};
    rng_seed(&run->load.pacer.rng, s->seed, STREAM_ARRIVALS);
    struct pacer same = run->load.pacer;
    struct load *l = &run->load;
    l->value_head_size = (size_t)(put_length(l->value_head, 5) - l->value_head);
    for (size_t i = 0; i < s->connections; i++) {
        if (!conn_allocate(&l->conns[i], s->pipeline, command_size(&run->settings), OUTPUT_MAX, &run->failure))
            abort();
        l->conns[i].fd = FIRST_FD + (int)i;
        l->conns[i].stamped = true;
        vm.conns[i].replies = calloc((size_t)s->requests, sizeof(uint64_t));
        vm.conns[i].head = vm.conns[i].tail = 0;
    }
    vm.served = vm.server_free = 0;
    run->complete = load_run(l);
    measurement_finish(run->measurement, &l->bound);
    run->due = calloc((size_t)s->requests, sizeof *run->due);
    for (uint64_t i = 0; i < s->requests; i++)
        run->due[i] = pacer_due(&same, i);
}

static inline void virtual_end(struct virtual_run *run)
{
    for (size_t i = 0; i < run->load.conn_count; i++)
        free(vm.conns[i].replies);
    free(run->due);
    measurement_free(run->measurement);
    load_close(&run->load);
}

/* What an ideal client would have seen, which sends each request when it is due: for the same work, with the server
 * stopped at the same times. Sending takes time, too. A single slot sends only when it has the reply before. */
static inline void ideal_latencies(const struct virtual_run *run, uint64_t count, uint64_t *latencies)
{
    bool single = run->load.conn_count == 1 && run->load.conns[0].depth == 1;
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
