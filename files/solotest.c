/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * solotest - measure the latency of one Redis under a fixed, open schedule of requests.
 *
 * Read this file if you want to decide whether to trust its numbers. It is organised as a chain of
 * seams, each of which is tested without a Redis (tests/programs/solotest/):
 *
 *   clock -> random numbers -> key chooser -> histogram -> time series -> pacer -> latencies
 *         -> Redis I/O -> load engine -> fill and test phases -> options -> report
 *
 * The four latencies of a request are defined in one place, slot_complete(). The rest of the file
 * exists to call it with honest time stamps.
 *
 * Build: cc -std=c11 -O2 files/solotest.c -lhiredis -lm    (add -static for a file to ship around)
 */
#define _GNU_SOURCE /* sched_setaffinity, ppoll, explicit_bzero */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOLOTEST_VERSION "1.0.0"

/* ---------------------------------------------------------------------------------------------
 * Failures: the first one wins, because what follows it is usually its consequence.
 */
enum {
    EXIT_OK = 0,
    EXIT_REQUESTS = 1, /* finished, but some requests failed */
    EXIT_USAGE = 2,
    EXIT_CONNECT = 3,
    EXIT_LOST = 4, /* connection lost, time-out or protocol error in the middle */
    EXIT_REFUSED = 5,
    EXIT_OUTPUT = 6,
    EXIT_SIGNAL = 128,
};

struct failure {
    int exit_code;
    const char *kind;
    char message[512];
};

/* The length of the valid UTF-8 sequence that `s` begins with, 0 if it is none. */
static size_t utf8_length(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong_or_surrogate = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
                                 (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong_or_surrogate ? 0 : n;
}

/* A server's text must neither drive our terminal nor break the reader of our messages. */
static void make_presentable(char *text)
{
    while (*text != '\0') {
        size_t n = utf8_length((const unsigned char *)text);
        if (n == 0 || iscntrl((unsigned char)*text))
            *text = n == 0 ? '?' : ' ';
        text += n > 0 ? n : 1;
    }
}

/* Always false, so that a caller can write `return fail(...)`. */
__attribute__((format(printf, 4, 5))) static bool fail(struct failure *f, int exit_code,
                                                       const char *kind, const char *format, ...)
{
    if (f->exit_code != EXIT_OK)
        return false;
    f->exit_code = exit_code;
    f->kind = kind;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(f->message, sizeof f->message, format, arguments);
    va_end(arguments);
    make_presentable(f->message);
    return false;
}

#define fail_usage(failure, ...) fail(failure, EXIT_USAGE, "usage", __VA_ARGS__)

static bool fail_memory(struct failure *f)
{
    return fail(f, EXIT_OUTPUT, "output", "not enough memory");
}

/* Set by the signal handler. */
static volatile sig_atomic_t interrupted; /* the signal that asks us to stop */
static volatile sig_atomic_t heartbeat;   /* time to look for requests that got no reply */

/* Once interrupted, the alarm repeats it every second: a signal that comes between our look at the
 * flag and a system call that blocks would otherwise be slept through. */
static void on_signal(int signal_number)
{
    if (signal_number == SIGALRM)
        heartbeat = 1;
    else
        interrupted = signal_number;
    if (interrupted)
        (void)alarm(1);
}

static bool fail_interrupted(struct failure *f)
{
    int signal_number = interrupted;
    return fail(f, EXIT_SIGNAL + signal_number, "interrupted", "interrupted by signal %d",
                signal_number);
}

/* ---------------------------------------------------------------------------------------------
 * Clock
 */
#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define NEVER UINT64_MAX

/* Sums of nanoseconds: 10^9 requests that each waited 1,000 s do not fit in 64 bits. */
__extension__ typedef unsigned __int128 wide;

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* cannot fail for the two clocks used here */
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* a - b, but 0 when b is later. */
static inline uint64_t since(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

static uint64_t seconds_to_ns(double seconds)
{
    return (uint64_t)(seconds * 1e9);
}

/* What to add to a monotonic time to get the wall clock, as of now. */
static uint64_t wall_offset(void)
{
    return clock_ns(CLOCK_REALTIME) - now_ns();
}

/* Returns early when a signal asks us to stop. */
static void sleep_until(clockid_t clock, uint64_t when)
{
    struct timespec t = to_timespec(when);
    while (!interrupted && clock_nanosleep(clock, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}

/* ---------------------------------------------------------------------------------------------
 * Random numbers: xoshiro256++, seeded by splitmix64. Keys and values draw from streams of their
 * own, so that one seed gives one sequence of keys whatever the size of the values.
 */
struct rng {
    uint64_t s[4];
};

static inline uint64_t rotate_left(uint64_t x, unsigned n)
{
    return (x << n) | (x >> (64 - n));
}

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

static void rng_seed(struct rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed ^ (stream * UINT64_C(0xd1342543de82ef95));
    for (size_t i = 0; i < 4; i++) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = state;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        r->s[i] = z ^ (z >> 31);
    }
}

#define RNG_UNITS (UINT64_C(1) << 53) /* how many values a double can tell apart in [0, 1) */

/* Uniform in [0, 1). */
static inline double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) / (double)RNG_UNITS;
}

/* Uniform in [0, 1]. */
static inline double rng_unit_closed(struct rng *r)
{
    return (double)(rng_next(r) >> 11) / (double)(RNG_UNITS - 1);
}

/* The bytes of values: wyrand (Wang Yi, public domain). Its state is a counter, so that a processor
 * works on several steps at once; a value of 1 KB takes a quarter of the time that rng_next() needs. */
struct byte_rng {
    uint64_t counter;
};

/* A zero byte becomes 1. The sum below carries into a byte's top bit exactly when its lower seven bits
 * are not all zero, and never into the next byte. */
static inline uint64_t without_zero_bytes(uint64_t w)
{
    const uint64_t low7 = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t not_zero = ((w & low7) + low7) | w;
    return w | ((~not_zero & ~low7) >> 7);
}

static inline uint64_t bytes_next(struct byte_rng *r)
{
    r->counter += UINT64_C(0xa0761d6478bd642f);
    wide product = (wide)r->counter * (r->counter ^ UINT64_C(0xe7037ed1a0b428db));
    return without_zero_bytes((uint64_t)(product >> 64) ^ (uint64_t)product);
}

#define VALUE_BLOCK 128   /* compressible values alternate random bytes and filler this often */
#define VALUE_FILLER 0x5a /* not zero: Redis values without zero bytes, as the brief wants them */

static void bytes_fill(struct byte_rng *r, char *to, size_t size)
{
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), to += sizeof(uint64_t)) {
        uint64_t w = bytes_next(r);
        memcpy(to, &w, sizeof w);
    }
    if (size > 0) {
        uint64_t w = bytes_next(r);
        memcpy(to, &w, size);
    }
}

/* A fresh value whose share `compressibility` of bytes is constant. The filler is spread in blocks,
 * because a compressed memory tier sees pages, and one page holds pieces of several values. */
static void value_fill(struct byte_rng *r, char *to, size_t size, double compressibility)
{
    while (size > 0) {
        size_t block = size < VALUE_BLOCK ? size : VALUE_BLOCK;
        size_t filler = (size_t)((double)block * compressibility + 0.5);
        bytes_fill(r, to, block - filler);
        memset(to + (block - filler), VALUE_FILLER, filler);
        to += block;
        size -= block;
    }
}

/* ---------------------------------------------------------------------------------------------
 * Key chooser: which key, and whether to read or write it.
 */
enum pattern { PATTERN_GAUSSIAN, PATTERN_UNIFORM, PATTERN_SEQUENTIAL };
#define PULL_STEPS 101
#define READ_MIX_ONLY_SETS (-1) /* floor(V * 100) > -1 always holds */

struct chooser {
    struct rng rng;
    uint64_t keys;
    uint64_t issued;
    enum pattern pattern;
    int read_mix;
    bool pulled;
    double pull[PULL_STEPS]; /* the bell exp(-(x - 50)^2 / (2 * bias^2)) has only 101 values */
};

struct choice {
    uint64_t key;
    bool is_set;
};

static void chooser_init(struct chooser *c, uint64_t seed, uint64_t keys, enum pattern pattern,
                         double bias, int read_mix)
{
    memset(c, 0, sizeof *c);
    rng_seed(&c->rng, seed, 1);
    c->keys = keys;
    c->pattern = pattern;
    c->read_mix = read_mix;
    c->pulled = pattern == PATTERN_GAUSSIAN && (bias < 0 || bias > 0);
    for (int x = 0; c->pulled && x < PULL_STEPS; x++) {
        double z = (x - 50) / bias; /* divide first: bias^2 of a tiny bias would be 0, and 0/0 no number */
        c->pull[x] = exp(-z * z / 2);
    }
}

/* Moves a uniform key towards the middle by a random fraction of its distance. */
static inline uint64_t chooser_pull(struct chooser *c, uint64_t key)
{
    uint64_t half = c->keys / 2;
    double fraction = c->pull[(int)(rng_unit_closed(&c->rng) * (PULL_STEPS - 1))];
    if (key > half)
        return key - (uint64_t)(fraction * (double)(key - half));
    return key + (uint64_t)(fraction * (double)(half - key));
}

static inline struct choice chooser_next(struct chooser *c)
{
    struct choice choice;
    if (c->pattern == PATTERN_SEQUENTIAL)
        choice.key = c->issued % c->keys;
    else
        choice.key = (uint64_t)(rng_unit(&c->rng) * (double)c->keys);
    if (c->pulled)
        choice.key = chooser_pull(c, choice.key);
    choice.is_set = c->read_mix < 100 && (int)(rng_unit_closed(&c->rng) * 100) > c->read_mix;
    c->issued++;
    return choice;
}

/* ---------------------------------------------------------------------------------------------
 * Histogram: log-linear, in exactly HdrHistogram's layout for a lowest discernible value of 1, a
 * highest trackable value of 2^63 - 1 and 2 significant digits, so that its tools can read it.
 *
 * Error bound. Values below 256 have a slot each: no error. A larger value v has its highest bit at
 * position 8 + b - 1 for some b >= 1, so 128 * 2^b <= v < 256 * 2^b, and falls in a slot of width
 * 2^b. The width relative to the value is therefore at most 2^b / (128 * 2^b) = 1/128 = 0.78 %. A
 * percentile is reported as the highest value of its slot, never above the exact maximum: it is
 * never too low, and too high by less than 0.78 %. Count, sum, minimum and maximum are exact.
 */
#define HIST_HALF_BITS 7
#define HIST_EXACT_MASK 255u
#define HIST_SLOTS 7296

struct histogram {
    uint64_t count;
    uint64_t min;
    uint64_t max;
    wide sum;
    uint64_t slots[HIST_SLOTS];
};

static inline size_t hist_index(uint64_t value)
{
    unsigned bucket = 56u - (unsigned)__builtin_clzll(value | HIST_EXACT_MASK);
    return ((size_t)bucket << HIST_HALF_BITS) + (size_t)(value >> bucket);
}

/* The highest value that shares slot `index`. */
static uint64_t hist_highest_in(size_t index)
{
    unsigned bucket = index <= HIST_EXACT_MASK ? 0 : (unsigned)(index >> HIST_HALF_BITS) - 1;
    uint64_t position = (uint64_t)index - ((uint64_t)bucket << HIST_HALF_BITS);
    return ((position + 1) << bucket) - 1;
}

static inline void hist_add(struct histogram *h, uint64_t value)
{
    value = min_u64(value, INT64_MAX);
    h->min = h->count == 0 ? value : min_u64(h->min, value);
    h->max = max_u64(h->max, value);
    h->sum += value;
    h->count++;
    h->slots[hist_index(value)]++;
}

/* ceil(count * permille / 1000) without leaving 64 bits. */
static uint64_t rank_of(uint64_t count, unsigned permille)
{
    return count / 1000 * permille + (count % 1000 * permille + 999) / 1000;
}

static uint64_t hist_percentile(const struct histogram *h, unsigned permille)
{
    uint64_t rank = max_u64(rank_of(h->count, permille), 1);
    uint64_t seen = 0;
    for (size_t i = 0; i < HIST_SLOTS; i++) {
        seen += h->slots[i];
        if (seen >= rank)
            return min_u64(hist_highest_in(i), h->max);
    }
    return h->max;
}

static double hist_mean(const struct histogram *h)
{
    return h->count == 0 ? 0 : (double)h->sum / (double)h->count;
}

/* ---------------------------------------------------------------------------------------------
 * Time series: at most 120 points of count, average, p99 and maximum of `response`, by intended
 * start, so that one sees when a stall happened. Slots are 32 bits wide to keep all 120 histograms in
 * 3.5 MB; they stop at their top instead of wrapping, which would take 4 * 10^9 equal values.
 */
#define SERIES_POINTS 120

struct series_point {
    uint64_t count;
    uint64_t max;
    uint64_t p99; /* set by series_finish() */
    wide sum;
};

struct series {
    uint64_t interval;
    size_t used;
    struct series_point points[SERIES_POINTS];
    uint32_t (*slots)[HIST_SLOTS];
};

/* The shortest of 1, 2, 5, 10, ... ms that covers `duration` with SERIES_POINTS points. */
static uint64_t series_interval_for(uint64_t duration)
{
    static const uint64_t steps[] = {1, 2, 5};
    for (uint64_t decade = NS_PER_MS;; decade *= 10)
        for (size_t i = 0; i < 3; i++)
            if (duration / (steps[i] * decade) < SERIES_POINTS)
                return steps[i] * decade;
}

static inline uint32_t add_saturating(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static void series_merge_into(struct series *s, size_t to, size_t from)
{
    struct series_point *a = &s->points[to], *b = &s->points[from];
    a->count += b->count;
    a->sum += b->sum;
    a->max = max_u64(a->max, b->max);
    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < HIST_SLOTS; i++)
        s->slots[to][i] = add_saturating(s->slots[to][i], s->slots[from][i]);
    memset(s->slots[from], 0, sizeof s->slots[from]);
}

/* Halves the resolution. Only a closed loop of unknown length comes here: a schedule is as long as
 * it is, and its interval is chosen before it starts. */
static void series_coarsen(struct series *s)
{
    for (size_t i = 0; i < SERIES_POINTS; i++)
        if (i > 0)
            series_merge_into(s, i / 2, i);
    s->interval *= 2;
    s->used = SERIES_POINTS / 2;
}

static inline void series_add(struct series *s, uint64_t at, uint64_t value)
{
    uint64_t i;
    while ((i = at / s->interval) >= SERIES_POINTS)
        series_coarsen(s);
    if (i >= s->used)
        s->used = (size_t)i + 1;
    s->points[i].count++;
    s->points[i].sum += value;
    s->points[i].max = max_u64(s->points[i].max, value);
    uint32_t *slot = &s->slots[i][hist_index(min_u64(value, INT64_MAX))];
    *slot = add_saturating(*slot, 1);
}

/* After this the slots are free for other use. */
static void series_finish(struct series *s)
{
    static struct histogram h; /* 58 KB: too much for a stack */
    for (size_t point = 0; point < s->used; point++) {
        h.count = s->points[point].count;
        h.max = s->points[point].max;
        for (size_t i = 0; i < HIST_SLOTS; i++)
            h.slots[i] = s->slots[point][i];
        s->points[point].p99 = h.count > 0 ? hist_percentile(&h, 990) : 0;
    }
}

/* ---------------------------------------------------------------------------------------------
 * Pacer: request i is due at start + i / rate, on an absolute schedule that no delay shifts.
 */
enum pacing { PACING_HYBRID, PACING_SLEEP, PACING_SPIN, PACING_NONE };

struct pacer {
    enum pacing mode;
    uint64_t start;
    uint64_t spin;      /* how long before the due time to stop sleeping: 0 is sleep, NEVER is spin */
    uint64_t spin_min;  /* hybrid: what `spin` begins with, and never falls below */
    long double period; /* ns; 64 bits of mantissa keep request 10^12 exact to the nanosecond */
};

/* How late a sleep ends differs by machine and by hour, from some 5 us to more than 50 us where the CPU
 * of a virtual machine has to be woken. Hybrid pacing follows it: a sleep that ends later than `spin`
 * raises it ten times as far as one in time lowers it, so that about one sleep in eleven is late. A wait
 * too short to sleep lowers it as well: else a `spin` that has grown beyond the interval between two
 * requests could never come down again. */
enum { SPIN_UP_NS = 5000, SPIN_DOWN_NS = 500, SPIN_MAX_NS = 150000 };

static inline void pacer_learn(struct pacer *p, uint64_t overslept)
{
    if (p->mode != PACING_HYBRID)
        return;
    if (overslept > p->spin)
        p->spin = min_u64(p->spin + SPIN_UP_NS, max_u64(SPIN_MAX_NS, p->spin_min));
    else
        p->spin = max_u64(since(p->spin, SPIN_DOWN_NS), p->spin_min);
}

static inline uint64_t pacer_due(const struct pacer *p, uint64_t i)
{
    return p->start + (uint64_t)((long double)i * p->period);
}

/* Waits for `due` and returns the time. Earlier than `due` only when a signal asks us to stop. */
static inline uint64_t pacer_wait(struct pacer *p, uint64_t due)
{
    uint64_t now = now_ns();
    if (now >= due)
        return now;
    uint64_t wake = since(due, p->spin);
    uint64_t overslept = 0;
    if (wake > now) {
        sleep_until(CLOCK_MONOTONIC, wake);
        overslept = since(now_ns(), wake);
    }
    pacer_learn(p, overslept);
    do
        now = now_ns();
    while (now < due && !interrupted);
    return now;
}

/* ---------------------------------------------------------------------------------------------
 * The four latencies.
 *
 * A slot is the place of one request in flight: one per connection, or as many as the depth of the
 * pipeline. A request waits for its intended start and for the slot's previous reply, then it is
 * sent, then its reply is read.
 *
 *   service   reply - send. What a client without a schedule sees, and what the brief measured.
 *   intended  reply - intended start. Nothing is left out: the upper bound.
 *   response  what a client that never loses time itself would have seen. Its send time `ideal` is
 *             max(intended start, ideal reply of the slot's previous request), and its reply comes
 *             one service later: Lindley's recursion of queueing theory. So a stalled server charges
 *             every request that had to wait for it, and a stalled client charges none.
 *   lateness  intended - response: what the client itself added, from its first late wake-up to the
 *             last request that still had to catch up.
 *
 * While the client keeps up, this is "response counts from the intended start if the previous reply
 * came after it, else from the actual send", and lateness is "actual send minus the earliest
 * possible send". It differs only after the client itself lost time: then the requests that queue
 * behind that loss are charged to `lateness`, where the simple rule would charge the server.
 *
 * `read_delay` is the time a reply lay in the socket before we read it, when the kernel's receive
 * time stamp proves that it was the client who was away. It belongs to the client as well.
 */
struct slot {
    uint64_t intended;
    uint64_t sent;
    uint64_t replied;    /* of the slot's previous request */
    uint64_t ideal_free; /* the same for the ideal client */
    bool is_set;
};

struct latencies {
    uint64_t service, response, intended, lateness;
};

static inline struct latencies slot_complete(struct slot *s, uint64_t replied, uint64_t read_delay)
{
    struct latencies l;
    uint64_t ideal_sent = max_u64(s->intended, s->ideal_free);
    l.service = since(replied, s->sent);
    s->ideal_free = ideal_sent + since(l.service, read_delay);
    l.response = s->ideal_free - s->intended;
    l.intended = since(replied, s->intended);
    l.lateness = since(l.intended, l.response);
    s->replied = replied;
    return l;
}

/* ---------------------------------------------------------------------------------------------
 * Errors by kind: the first word of an error reply, or a word of our own in lower case.
 */
#define ERROR_KINDS 16
#define ERROR_KIND_SIZE 24

struct errors {
    uint64_t total;
    size_t used;
    struct {
        char kind[ERROR_KIND_SIZE];
        uint64_t count;
    } kinds[ERROR_KINDS];
    char first[128]; /* the first reply in full, for the message */
};

/* The last place is for all kinds that come when the others are taken. */
static void errors_add(struct errors *e, const char *kind, uint64_t count)
{
    if (count == 0)
        return;
    size_t i = 0;
    while (i < e->used && i < ERROR_KINDS - 1 && strcmp(e->kinds[i].kind, kind) != 0)
        i++;
    if (i == e->used) {
        (void)snprintf(e->kinds[i].kind, sizeof e->kinds[i].kind, "%s",
                       i < ERROR_KINDS - 1 ? kind : "other");
        e->used++;
    }
    e->kinds[i].count += count;
    e->total += count;
}

/* "OOM command not allowed ..." -> "OOM". A text that has no such word is "ERR". */
static void error_kind_of(const char *text, char kind[ERROR_KIND_SIZE])
{
    size_t n = 0;
    while (n + 1 < ERROR_KIND_SIZE && (isupper((unsigned char)text[n]) || text[n] == '_'))
        n++;
    if (n == 0 || (text[n] != ' ' && text[n] != '\0')) {
        text = "ERR";
        n = 3;
    }
    memcpy(kind, text, n);
    kind[n] = '\0';
}

static void errors_describe(const struct errors *e, char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < e->used && used < size; i++) {
        int n = snprintf(to + used, size - used, "%s%s %" PRIu64, i > 0 ? ", " : "",
                         e->kinds[i].kind, e->kinds[i].count);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* ---------------------------------------------------------------------------------------------
 * Options. One table drives parsing, range checks, messages and --help.
 */
struct settings {
    const char *mode;
    bool fill, test, probe;
    int64_t port, value_size, key_count, read_mix;
    double influence, rate;
    const char *host, *socket, *user, *password_file, *raw_file;
    int64_t requests; /* -1: not given */
    double duration;  /* -1: not given */
    double max_seconds; /* -1: not given */
    int64_t connections, pipeline, spin_us;
    int64_t pattern, pacing; /* enum pattern, enum pacing */
    double start_at;         /* -1: not given */
    double stagger;
    int64_t seed; /* -1: not given */
    double compressibility;
    int64_t cpu; /* -1: not given */
    double timeout, connect_timeout;
    bool protect, json, progress, help, version;
};

static const struct settings default_settings = {
    .mode = "test",
    .host = "127.0.0.1",
    .port = 6379,
    .value_size = 1000,
    .key_count = 20000000,
    .influence = -1,
    .rate = 1000000,
    .read_mix = 100,
    .requests = -1,
    .duration = -1,
    .max_seconds = -1,
    .connections = 1,
    .pipeline = 1,
    .spin_us = 40,
    .start_at = -1,
    .seed = -1,
    .cpu = -1,
    .timeout = 30,
    .connect_timeout = 1.5,
};

enum value_type { VALUE_FLAG, VALUE_TEXT, VALUE_CHOICE, VALUE_INTEGER, VALUE_REAL };

struct option_spec {
    const char *name;
    enum value_type type;
    size_t offset; /* of the field in struct settings */
    double min, max;
    const char *const *choices; /* ends with NULL */
    const char *argument;
    const char *help;
};

static const char *const pattern_names[] = {"gaussian", "uniform", "sequential", NULL};
static const char *const pacing_names[] = {"hybrid", "sleep", "spin", "none", NULL};

#define MAX_KEYS 1e12       /* 12 digits: a key fits every buffer, and a double counts it exactly */
#define MAX_VALUE 536870912 /* 512 MB: the longest string Redis takes */
#define MAX_SLOTS 65536     /* connections x pipeline */
#define MAX_SOCKET_PATH 107 /* and a zero byte: sun_path */
#define MAX_SECONDS 1e9     /* 30 years: a schedule in nanoseconds fits 63 bits with room to spare */
#define MAX_SEED 9007199254740991.0   /* 2^53 - 1: any reader of JSON holds it exactly */
#define MAX_EPOCH_SECONDS 4102444800.0 /* the year 2100 */

_Static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == MAX_SOCKET_PATH + 1, "sun_path");

#define FIELD(field) offsetof(struct settings, field)
#define FLAG(name, field, help) {name, VALUE_FLAG, FIELD(field), 0, 0, NULL, NULL, help}
#define TEXT(name, field, argument, help) {name, VALUE_TEXT, FIELD(field), 0, 0, NULL, argument, help}
#define CHOICE(name, field, choices, help) {name, VALUE_CHOICE, FIELD(field), 0, 0, choices, "NAME", help}
#define INTEGER(name, field, argument, min, max, help) \
    {name, VALUE_INTEGER, FIELD(field), min, max, NULL, argument, help}
#define REAL(name, field, argument, min, max, help) \
    {name, VALUE_REAL, FIELD(field), min, max, NULL, argument, help}

static const struct option_spec positional_specs[] = {
    TEXT("MODE", mode, NULL, "contains `fill', `test', both, or `probe'; any case (test)"),
    INTEGER("PORT", port, NULL, 1, 65535, "of Redis (6379)"),
    INTEGER("VALUE_SIZE", value_size, NULL, 1, MAX_VALUE, "bytes (1000)"),
    INTEGER("KEY_COUNT", key_count, NULL, 1, MAX_KEYS,
            "keys 0 .. KEY_COUNT-1, also the number of requests (20000000)"),
    REAL("BIAS", influence, NULL, -1e6, 1e6, "influence: pull of keys to the middle, 0 is flat (-1)"),
    REAL("FREQUENCY", rate, NULL, 1e-3, 1e9, "requests per second (1000000)"),
    INTEGER("READ_MIX", read_mix, NULL, READ_MIX_ONLY_SETS, 100,
            "percent of GETs; SET when floor(100 V) > READ_MIX, so -1 is SETs only (100)"),
};

static const struct option_spec option_specs[] = {
    TEXT("--host", host, "HOST", "name or address of Redis (127.0.0.1)"),
    TEXT("--socket", socket, "PATH", "Unix socket of Redis, instead of host and port"),
    TEXT("--user", user, "NAME", "ACL user; the password comes from the file or the environment"),
    TEXT("--password-file", password_file, "FILE", "its first line; else the variable SOLOTEST_PASSWORD"),
    INTEGER("--requests", requests, "N", 1, 1e12, "requests of a test (KEY_COUNT)"),
    REAL("--duration", duration, "SECONDS", 1e-3, MAX_SECONDS,
         "length of the schedule, instead of or with --requests"),
    REAL("--max-seconds", max_seconds, "SECONDS", 1e-3, MAX_SECONDS,
         "send nothing after that time, even if requests are left"),
    INTEGER("--connections", connections, "N", 1, 512, "connections (1)"),
    INTEGER("--pipeline", pipeline, "N", 1, 4096, "requests in flight per connection (1)"),
    CHOICE("--pattern", pattern, pattern_names, "keys (gaussian, with BIAS)"),
    CHOICE("--pacing", pacing, pacing_names, "how to wait for a due time (hybrid); none is a closed loop"),
    INTEGER("--spin-us", spin_us, "N", 0, 1000000, "hybrid: spin at least that long before the due time (40)"),
    REAL("--start-at", start_at, "EPOCH_SECONDS", 0, MAX_EPOCH_SECONDS, "wait for this wall-clock time"),
    REAL("--stagger", stagger, "FRACTION", 0, 0.999999999,
         "first request that fraction of 1/FREQUENCY later (0)"),
    INTEGER("--seed", seed, "N", 0, MAX_SEED, "repeatable keys and values (random)"),
    REAL("--compressibility", compressibility, "R", 0, 1, "constant share of each value (0)"),
    INTEGER("--cpu", cpu, "N", 0, CPU_SETSIZE - 1, "run on this CPU only"),
    REAL("--timeout", timeout, "SECONDS", 1e-3, 86400, "give up when a reply takes that long (30)"),
    REAL("--connect-timeout", connect_timeout, "SECONDS", 1e-3, 3600, "give up connecting (1.5)"),
    TEXT("--raw", raw_file, "FILE", "write each request's service, response, intended, lateness in ns"),
    FLAG("--protect", protect, "refuse to fill a Redis that holds data which is not ours"),
    FLAG("--json", json, "one JSON object instead of the six lines"),
    FLAG("--progress", progress, "progress on standard error, once a second"),
    FLAG("--help", help, "this text"),
    FLAG("--version", version, "version"),
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Digits with an optional minus and nothing else: strtoll alone would take spaces and "1abc". */
static bool parse_integer(const char *text, int64_t *value)
{
    const char *digits = text + (*text == '-');
    if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    *value = strtoll(text, NULL, 10);
    return errno == 0;
}

/* A decimal number; strtod alone would take spaces, hexadecimal, "inf" and "nan". */
static bool parse_real(const char *text, double *value)
{
    if (*text == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

static bool parse_choice(const char *text, const char *const *choices, int64_t *value)
{
    for (int64_t i = 0; choices[i] != NULL; i++)
        if (strcmp(text, choices[i]) == 0) {
            *value = i;
            return true;
        }
    return false;
}

static void join_choices(const char *const *choices, char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; choices[i] != NULL && used < size; i++) {
        int n = snprintf(to + used, size - used, "%s%s", i > 0 ? ", " : "", choices[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

static bool not_allowed(struct failure *f, const char *name, const char *value, const char *allowed)
{
    return fail_usage(f, "%s: '%.100s' is not allowed; allowed: %s", name, value, allowed);
}

static bool out_of_range(struct failure *f, const struct option_spec *spec, const char *text)
{
    char allowed[160];
    if (spec->choices != NULL)
        join_choices(spec->choices, allowed, sizeof allowed);
    else
        (void)snprintf(allowed, sizeof allowed, "%s from %.16g to %.16g",
                       spec->type == VALUE_INTEGER ? "a whole number" : "a number", spec->min, spec->max);
    return not_allowed(f, spec->name, text, allowed);
}

static bool set_value(struct settings *s, const struct option_spec *spec, const char *text,
                      struct failure *f)
{
    void *field = (char *)s + spec->offset;
    int64_t integer = 0;
    double real = 0;
    switch (spec->type) {
    case VALUE_FLAG:
        memcpy(field, &(bool){true}, sizeof(bool));
        return true;
    case VALUE_TEXT:
        if (*text == '\0')
            return not_allowed(f, spec->name, text, "any other text");
        memcpy(field, &text, sizeof text);
        return true;
    case VALUE_CHOICE:
        if (!parse_choice(text, spec->choices, &integer))
            return out_of_range(f, spec, text);
        memcpy(field, &integer, sizeof integer);
        return true;
    case VALUE_INTEGER:
        if (!parse_integer(text, &integer) || (double)integer < spec->min ||
            (double)integer > spec->max)
            return out_of_range(f, spec, text);
        memcpy(field, &integer, sizeof integer);
        return true;
    case VALUE_REAL:
        if (!parse_real(text, &real) || real < spec->min || real > spec->max)
            return out_of_range(f, spec, text);
        memcpy(field, &real, sizeof real);
        return true;
    }
    return true;
}

static const struct option_spec *find_option(const char *text, size_t length)
{
    for (size_t i = 0; i < COUNT_OF(option_specs); i++)
        if (strlen(option_specs[i].name) == length &&
            strncmp(option_specs[i].name, text, length) == 0)
            return &option_specs[i];
    return NULL;
}

/* An option, and not a negative number such as a BIAS of -1 or -.5. */
static bool is_option(const char *text)
{
    return text[0] == '-' && text[1] != '\0' && text[1] != '.' &&
           !isdigit((unsigned char)text[1]);
}

static bool parse_option(struct settings *s, int argc, char **argv, int *i, struct failure *f)
{
    const char *text = argv[*i];
    const char *equals = strchr(text, '=');
    size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text);
    const struct option_spec *spec = find_option(text, length);
    if (spec == NULL)
        return fail_usage(f, "unknown option '%.100s'; --help lists them", text);
    if (spec->type == VALUE_FLAG) {
        if (equals != NULL)
            return not_allowed(f, spec->name, equals + 1, "no value");
        return set_value(s, spec, "", f);
    }
    if (equals != NULL)
        return set_value(s, spec, equals + 1, f);
    if (*i + 1 >= argc)
        return fail_usage(f, "%s needs a value", spec->name);
    *i += 1;
    return set_value(s, spec, argv[*i], f);
}

static bool contains_ignoring_case(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

/* How many requests the test will send; 0 when only the clock ends it (closed loop, duration). */
static uint64_t planned_requests(const struct settings *s)
{
    if (s->duration < 0)
        return (uint64_t)(s->requests > 0 ? s->requests : s->key_count);
    if (s->pacing == PACING_NONE)
        return s->requests > 0 ? (uint64_t)s->requests : 0;
    uint64_t scheduled = (uint64_t)fmax(1, ceil(s->duration * s->rate));
    return s->requests > 0 ? min_u64(scheduled, (uint64_t)s->requests) : scheduled;
}

/* What no single value can tell. */
static bool check_combinations(struct settings *s, struct failure *f)
{
    s->fill = contains_ignoring_case(s->mode, "fill");
    s->test = contains_ignoring_case(s->mode, "test");
    s->probe = contains_ignoring_case(s->mode, "probe");
    if (!s->fill && !s->test && !s->probe)
        return not_allowed(f, "MODE", s->mode, "a word that contains fill, test, both, or probe");
    if (s->socket != NULL && strlen(s->socket) > MAX_SOCKET_PATH)
        return not_allowed(f, "--socket", s->socket, "up to 107 bytes");
    if (s->connections * s->pipeline > MAX_SLOTS)
        return fail_usage(f, "--connections times --pipeline: '%" PRId64
                          "' is not allowed; allowed: up to %d", s->connections * s->pipeline, MAX_SLOTS);
    if (s->pacing != PACING_NONE && (double)planned_requests(s) / s->rate > MAX_SECONDS)
        return fail_usage(f, "FREQUENCY: '%g' is not allowed for %" PRIu64
                          " requests; allowed: a schedule of up to %g seconds",
                          s->rate, planned_requests(s), MAX_SECONDS);
    if (s->raw_file != NULL && planned_requests(s) == 0)
        return fail_usage(f, "--raw needs a known number of requests: add --requests to a closed loop");
    return true;
}

static bool parse_arguments(struct settings *s, int argc, char **argv, struct failure *f)
{
    size_t positionals = 0;
    bool options_end = false;
    *s = default_settings;
    for (int i = 1; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && is_option(argv[i])) {
            if (!parse_option(s, argc, argv, &i, f))
                return false;
        } else if (positionals == COUNT_OF(positional_specs)) {
            return fail_usage(f, "'%.100s' is one argument too many", argv[i]);
        } else if (!set_value(s, &positional_specs[positionals++], argv[i], f)) {
            return false;
        }
    }
    return s->help || s->version || check_combinations(s, f);
}

/* ---------------------------------------------------------------------------------------------
 * Redis I/O. hiredis connects, formats control commands and parses replies; the hot path sends
 * preformatted commands itself, so that nothing but a send() stands between two time stamps.
 */
#define INPUT_SIZE 65536
#define OUTPUT_BUDGET (8u << 20) /* all connections' output buffers together */
#define OUTPUT_MAX 262144u
#define COMMAND_OVERHEAD 96u /* a SET without its value: 3 lengths, "SET", 20 digits, line ends */
#define REPLY_SLACK (1u << 20)
#define OWN_DELAY_NS NS_PER_MS /* below this, reading late is a wake-up like any client's */

struct conn {
    redisContext *context;
    redisReader *reader; /* reports types only: no allocation per reply */
    int fd;
    bool stamped; /* the kernel time-stamps what arrives */
    struct slot *slots; /* a ring of `depth`: in flight from `head` on, then staged */
    size_t depth, head, in_flight, staged;
    char *out; /* commands that are staged, or not yet taken by the socket */
    size_t out_size, out_used, out_sent;
    uint64_t unfinished; /* bytes since the last whole reply */
    char error_text[128];
};

struct credentials {
    const char *user;
    char password[1024];
    bool present;
};

/* hiredis hands over texts here; we keep only those of errors. The "object" is the type itself, as
 * hiredis does it when there is no function at all. */
static void *note_string(const redisReadTask *task, char *text, size_t length)
{
    if (task->type == REDIS_REPLY_ERROR && task->privdata != NULL) {
        struct conn *c = task->privdata;
        size_t n = length < sizeof c->error_text ? length : sizeof c->error_text - 1;
        memcpy(c->error_text, text, n);
        c->error_text[n] = '\0';
    }
    return (void *)(uintptr_t)task->type;
}

static redisReplyObjectFunctions note_functions = {.createString = note_string};

static struct timeval to_timeval(double seconds)
{
    uint64_t us = (uint64_t)(seconds * 1e6);
    us = max_u64(us, 1); /* 0 would mean: wait for ever */
    return (struct timeval){.tv_sec = (time_t)(us / 1000000), .tv_usec = (suseconds_t)(us % 1000000)};
}

/* Waits until the socket is ready; false when the deadline passed or a signal came. */
static bool wait_ready(int fd, short events, uint64_t deadline)
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

static bool fail_wait(struct failure *f, const char *command)
{
    if (interrupted)
        return fail_interrupted(f);
    return fail(f, EXIT_LOST, "timeout", "%s: no reply in time", command);
}

static bool send_all(int fd, const char *data, size_t size, uint64_t deadline, const char *command,
                     struct failure *f)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            data += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN) {
            if (!wait_ready(fd, POLLOUT, deadline))
                return fail_wait(f, command);
        } else if (errno != EINTR) {
            return fail(f, EXIT_LOST, "lost", "%s: connection lost: %s", command, strerror(errno));
        }
    }
    return true;
}

static redisReply *receive_reply(struct conn *c, uint64_t deadline, const char *command,
                                 struct failure *f)
{
    char buffer[4096];
    for (;;) {
        void *reply = NULL;
        if (redisReaderGetReply(c->context->reader, &reply) != REDIS_OK) {
            (void)fail(f, EXIT_LOST, "protocol", "%s: %s", command, c->context->reader->errstr);
            return NULL;
        }
        if (reply != NULL)
            return reply;
        if (!wait_ready(c->fd, POLLIN, deadline)) {
            (void)fail_wait(f, command);
            return NULL;
        }
        ssize_t n = recv(c->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n > 0)
            c->unfinished += (uint64_t)n;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
            (void)fail(f, EXIT_LOST, "lost", "%s: connection lost: %s", command,
                       n == 0 ? "closed by the server" : strerror(errno));
            return NULL;
        }
        if (c->unfinished > REPLY_SLACK ||
            (n > 0 && redisReaderFeed(c->context->reader, buffer, (size_t)n) != REDIS_OK)) {
            (void)fail(f, EXIT_LOST, "protocol", "%s: endless reply", command);
            return NULL;
        }
    }
}

/* One control command and its reply, which the caller frees. Unlike redisCommand() it obeys a
 * deadline as a whole and stops when a signal asks us to. */
static redisReply *conn_command(struct conn *c, double timeout, struct failure *f, int argc,
                                const char **argv)
{
    char *formatted = NULL;
    long long length = redisFormatCommandArgv(&formatted, argc, argv, NULL);
    if (length < 0) {
        (void)fail_memory(f);
        return NULL;
    }
    uint64_t deadline = now_ns() + seconds_to_ns(timeout);
    redisReply *reply = NULL;
    c->unfinished = 0;
    if (send_all(c->fd, formatted, (size_t)length, deadline, argv[0], f))
        reply = receive_reply(c, deadline, argv[0], f);
    c->unfinished = 0;
    explicit_bzero(formatted, (size_t)length); /* it may hold the password */
    redisFreeCommand(formatted);
    return reply;
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* With a password AUTH decides. Without one, a PING finds out whether one is wanted, or whether the
 * server turns us away. A server that is only busy loading is let through: its errors are counted. */
static const char *refusal_kind(const redisReply *reply, bool authenticating)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return NULL;
    if (authenticating || starts_with(reply->str, "NOAUTH"))
        return "auth";
    return starts_with(reply->str, "DENIED") || starts_with(reply->str, "ERR") ? "connect" : NULL;
}

static bool conn_authenticate(struct conn *c, const struct credentials *who,
                              const struct settings *s, struct failure *f)
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
        if (f->exit_code == EXIT_LOST) { /* whatever went wrong, we never were connected */
            f->exit_code = EXIT_CONNECT;
            f->kind = "connect";
        }
        return false;
    }
    const char *refused = refusal_kind(reply, who->present);
    if (refused != NULL)
        (void)fail(f, EXIT_CONNECT, refused, "not let in: %s", reply->str);
    freeReplyObject(reply);
    return refused == NULL;
}

static bool conn_connect(struct conn *c, const struct settings *s, struct failure *f)
{
    struct timeval connect_timeout = to_timeval(s->connect_timeout);
    if (s->socket != NULL)
        c->context = redisConnectUnixWithTimeout(s->socket, connect_timeout);
    else
        c->context = redisConnectWithTimeout(s->host, (int)s->port, connect_timeout);
    if (c->context == NULL)
        return fail_memory(f);
    if (interrupted)
        return fail_interrupted(f);
    if (c->context->err != 0)
        return fail(f, EXIT_CONNECT, "connect", "cannot connect to %s port %" PRId64 ": %s",
                    s->socket != NULL ? s->socket : s->host, s->port, c->context->errstr);
    c->fd = c->context->fd;
    return true;
}

/* Asks the kernel to note when data arrives. It costs about 2 % of the closed loop's throughput, so
 * only schedules do it: only there does it matter who was late. Unix sockets do not offer it. */
static void conn_stamp(struct conn *c)
{
    int on = 1;
    c->stamped = setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0;
}

static bool conn_allocate(struct conn *c, size_t depth, size_t largest_command, size_t share,
                          struct failure *f)
{
    c->depth = depth;
    c->out_size = (size_t)max_u64(largest_command, min_u64(depth * largest_command, share));
    c->slots = calloc(depth, sizeof *c->slots);
    c->out = malloc(c->out_size);
    c->reader = redisReaderCreateWithFunctions(&note_functions);
    if (c->slots == NULL || c->out == NULL || c->reader == NULL)
        return fail_memory(f);
    c->reader->privdata = c;
    c->reader->maxbuf = 0; /* keep the buffer: freeing and growing it again costs page faults */
    return true;
}

static void conn_close(struct conn *c)
{
    if (c->reader != NULL)
        redisReaderFree(c->reader);
    if (c->context != NULL)
        redisFree(c->context);
    free(c->slots);
    free(c->out);
    memset(c, 0, sizeof *c);
}

static char *put_bytes(char *to, const char *bytes, size_t n)
{
    memcpy(to, bytes, n);
    return to + n;
}

static inline char *put_text(char *to, const char *text)
{
    return put_bytes(to, text, strlen(text));
}

#define DIGITS 20 /* of the largest 64-bit number */

/* Writes the digits to the end of `digits` and returns how many there are. */
static size_t decimal(char digits[DIGITS], uint64_t value)
{
    size_t n = 0;
    do
        digits[DIGITS - ++n] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    return n;
}

/* "$<length>\r\n", the head of a string in Redis's protocol */
static char *put_length(char *to, size_t length)
{
    char digits[DIGITS];
    size_t n = decimal(digits, length);
    *to++ = '$';
    return put_text(put_bytes(to, digits + DIGITS - n, n), "\r\n");
}

static char *put_key(char *to, uint64_t key)
{
    char digits[DIGITS];
    size_t n = decimal(digits, key);
    return put_text(put_bytes(put_length(to, n), digits + DIGITS - n, n), "\r\n");
}

/* ---------------------------------------------------------------------------------------------
 * Load engine: keeps requests in flight as the schedule and the slots allow, and hands every reply
 * with its time stamps to the measurement. The fill is the same engine without a measurement.
 */
struct raw_sample {
    uint64_t service, response, intended, lateness;
};

struct measurement {
    struct histogram service, response, intended, lateness;
    struct series series;
    struct raw_sample *raw; /* NULL unless wanted */
    uint64_t raw_used, raw_size;
};

struct load {
    /* what to do */
    const struct settings *settings;
    struct chooser *chooser;
    struct byte_rng *values;
    struct pacer pacer;
    uint64_t planned; /* 0: until `stop_at` */
    uint64_t stop_at; /* send nothing after this time */
    bool stop_on_error;
    const char *name; /* for progress */
    struct measurement *measurement; /* NULL: do not measure */
    struct failure *failure;
    /* with what */
    struct conn *conns;
    size_t conn_count, next_conn;
    struct conn *staging; /* holds a command that waits for its due time */
    struct pollfd *polls;
    char *input;
    char value_head[32]; /* "$<value size>\r\n" */
    size_t value_head_size;
    /* what happened */
    uint64_t issued, sent, gets, sets, ok, in_flight;
    uint64_t first_sent, last_sent, last_reply;
    uint64_t next_timeout_check, next_progress;
    struct errors errors;
};

static bool load_is_paced(const struct load *l)
{
    return l->pacer.mode != PACING_NONE;
}

static bool load_has_more(const struct load *l)
{
    if (l->planned != 0 && l->issued >= l->planned)
        return false;
    if (l->stop_at == NEVER)
        return true;
    uint64_t next = load_is_paced(l) ? pacer_due(&l->pacer, l->issued) : l->last_reply;
    return max_u64(next, l->last_sent) < l->stop_at;
}

/* A connection that can take a command now, in turn; NULL when all are busy. */
static struct conn *load_pick(struct load *l)
{
    if (l->staging != NULL)
        return l->staging;
    for (size_t tried = 0; tried < l->conn_count; tried++) {
        struct conn *c = &l->conns[l->next_conn];
        if (++l->next_conn == l->conn_count)
            l->next_conn = 0;
        if (c->in_flight < c->depth && c->out_used == 0)
            return c;
    }
    return NULL;
}

static struct slot *conn_slot(struct conn *c, size_t place)
{
    size_t i = c->head + place;
    return &c->slots[i < c->depth ? i : i - c->depth];
}

static size_t command_size(const struct settings *s)
{
    return (size_t)s->value_size + COMMAND_OVERHEAD;
}

/* When the next request that would use this slot is due. A closed loop's is due as soon as the slot
 * is free. */
static uint64_t load_next_due(const struct load *l, const struct slot *slot)
{
    if (load_is_paced(l))
        return pacer_due(&l->pacer, l->issued);
    return max_u64(slot->replied, l->pacer.start);
}

/* Writes the next command behind those already staged: all the work there is, done before the due
 * time comes. */
static void load_stage(struct load *l, struct conn *c)
{
    struct slot *slot = conn_slot(c, c->in_flight + c->staged);
    struct choice choice = chooser_next(l->chooser);
    slot->intended = load_next_due(l, slot);
    slot->is_set = choice.is_set;
    char *to = c->out + c->out_used;
    if (choice.is_set) {
        size_t size = (size_t)l->settings->value_size;
        to = put_key(put_text(to, "*3\r\n$3\r\nSET\r\n"), choice.key);
        memcpy(to, l->value_head, l->value_head_size);
        to += l->value_head_size;
        value_fill(l->values, to, size, l->settings->compressibility);
        to = put_text(to + size, "\r\n");
    } else {
        to = put_key(put_text(to, "*2\r\n$3\r\nGET\r\n"), choice.key);
    }
    c->out_used = (size_t)(to - c->out);
    c->staged++;
    l->issued++;
}

/* True when one more request may join those that are about to be sent. */
static bool load_can_join(const struct load *l, struct conn *c, uint64_t now)
{
    return c->in_flight + c->staged < c->depth &&
           c->out_size - c->out_used >= command_size(l->settings) && load_has_more(l) &&
           load_next_due(l, conn_slot(c, c->in_flight + c->staged)) <= now;
}

/* Everything in flight ends here: it is counted, and never as a success. */
static bool load_abandon(struct load *l, const char *kind)
{
    errors_add(&l->errors, kind, l->in_flight);
    l->in_flight = 0;
    return false;
}

static bool load_lost(struct load *l, const char *why)
{
    (void)fail(l->failure, EXIT_LOST, "lost", "connection lost after %" PRIu64 " replies: %s",
               l->ok, why);
    return load_abandon(l, "lost");
}

static bool load_protocol_error(struct load *l, const char *why)
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

/* Hands the output buffer to the socket; what it does not take waits for the socket's readiness. */
static bool load_flush(struct load *l, struct conn *c)
{
    while (c->out_sent < c->out_used) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_used - c->out_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            c->out_sent += (size_t)n;
        else if (errno == EAGAIN)
            return true;
        else if (errno != EINTR)
            return load_lost(l, strerror(errno));
    }
    c->out_used = c->out_sent = 0;
    return true;
}

static bool load_send(struct load *l, struct conn *c, uint64_t now)
{
    while (load_can_join(l, c, now))
        load_stage(l, c);
    if (c->staged > 1)
        now = now_ns(); /* writing the others took time that is not the server's */
    for (size_t i = 0; i < c->staged; i++) {
        struct slot *slot = conn_slot(c, c->in_flight + i);
        slot->sent = now;
        if (slot->is_set)
            l->sets++;
        else
            l->gets++;
    }
    if (l->sent == 0)
        l->first_sent = now;
    if (l->in_flight == 0)
        l->next_timeout_check = now + seconds_to_ns(l->settings->timeout);
    l->last_sent = now;
    l->sent += c->staged;
    l->in_flight += c->staged;
    c->in_flight += c->staged;
    c->staged = 0;
    l->staging = NULL;
    return load_flush(l, c);
}

static void measurement_add(struct measurement *m, const struct load *l, const struct slot *slot,
                            struct latencies t)
{
    hist_add(&m->service, t.service);
    hist_add(&m->response, t.response);
    hist_add(&m->intended, t.intended);
    hist_add(&m->lateness, t.lateness);
    series_add(&m->series, since(slot->intended, l->pacer.start), t.response);
    if (m->raw_used < m->raw_size)
        m->raw[m->raw_used++] =
            (struct raw_sample){t.service, t.response, t.intended, t.lateness};
}

/* One whole reply; `error` is its kind, or NULL for a success. */
static bool load_complete(struct load *l, struct conn *c, uint64_t now, uint64_t read_delay,
                          const char *error)
{
    struct slot *slot = conn_slot(c, 0);
    struct latencies t = slot_complete(slot, now, read_delay);
    if (++c->head == c->depth)
        c->head = 0;
    c->in_flight--;
    c->unfinished = 0;
    l->in_flight--;
    l->last_reply = now;
    if (error == NULL) {
        l->ok++;
        if (l->measurement != NULL)
            measurement_add(l->measurement, l, slot, t);
        return true;
    }
    errors_add(&l->errors, error, 1);
    if (l->errors.first[0] == '\0')
        (void)snprintf(l->errors.first, sizeof l->errors.first, "%s",
                       c->error_text[0] != '\0' ? c->error_text : error);
    return !l->stop_on_error || load_abandon(l, "abandoned");
}

/* The length of the reply that a successful request gets, if that is what `data` begins with; else
 * 0, and hiredis looks at it. It saves copying every value into hiredis's buffer. */
static size_t expected_reply(const struct load *l, const struct slot *slot, const char *data,
                             size_t size)
{
    if (slot->is_set)
        return size >= 5 && memcmp(data, "+OK\r\n", 5) == 0 ? 5 : 0;
    size_t body = l->value_head_size + (size_t)l->settings->value_size;
    if (size < body + 2 || memcmp(data, l->value_head, l->value_head_size) != 0)
        return 0;
    return data[body] == '\r' && data[body + 1] == '\n' ? body + 2 : 0;
}

/* What a reply of this type means to the request it answers. */
static const char *reply_error(const struct slot *slot, int type, const char *text,
                               char kind[ERROR_KIND_SIZE])
{
    if (type == (slot->is_set ? REDIS_REPLY_STATUS : REDIS_REPLY_STRING))
        return NULL;
    if (type == REDIS_REPLY_NIL)
        return "nil";
    if (type != REDIS_REPLY_ERROR)
        return "type";
    error_kind_of(text, kind);
    return kind;
}

static bool reader_is_idle(const redisReader *r)
{
    return r->ridx < 0 && r->pos == r->len;
}

static bool load_parse(struct load *l, struct conn *c, const char *data, size_t size, uint64_t now,
                       uint64_t read_delay)
{
    if (redisReaderFeed(c->reader, data, size) != REDIS_OK)
        return load_protocol_error(l, "cannot store the reply");
    c->unfinished += size;
    for (;;) {
        void *reply = NULL;
        char kind[ERROR_KIND_SIZE];
        c->error_text[0] = '\0';
        if (redisReaderGetReply(c->reader, &reply) != REDIS_OK)
            return load_protocol_error(l, c->reader->errstr);
        if (reply == NULL)
            break;
        if (c->in_flight == 0)
            return load_protocol_error(l, "a reply that nothing asked for");
        const char *error =
            reply_error(conn_slot(c, 0), (int)(uintptr_t)reply, c->error_text, kind);
        if (!load_complete(l, c, now, read_delay, error))
            return false;
    }
    if (c->unfinished > (uint64_t)l->settings->value_size + REPLY_SLACK)
        return load_protocol_error(l, "endless reply");
    return true;
}

static bool load_consume(struct load *l, struct conn *c, const char *data, size_t size, uint64_t now,
                         uint64_t read_delay)
{
    while (size > 0 && c->in_flight > 0 && reader_is_idle(c->reader)) {
        size_t n = expected_reply(l, conn_slot(c, 0), data, size);
        if (n == 0)
            break;
        if (!load_complete(l, c, now, read_delay, NULL))
            return false;
        data += n;
        size -= n;
    }
    return size == 0 || load_parse(l, c, data, size, now, read_delay);
}

/* How long the data lay in the socket, if so long that the client must have been away (stopped, or
 * without a CPU). `now` is when it was read. */
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

/* Like recv(), with the time when it was read and how long it had been there because of us. */
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

/* A time-out of the socket would cost each request a kernel timer, 1 % of the closed loop's CPU, and
 * start anew with every byte. This one does neither. All that was there at the time `looked` has been
 * read since, and only what was overdue then counts: so a client that was stopped, at whatever moment,
 * does not mistake its own absence for the server's. */
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

/* Reads whatever is there on any connection, waiting for it until `deadline` at most. Shortly before a
 * deadline it looks without waiting, as pacer_wait() does, and each time offers the CPU to others: a
 * Redis that shares it with us has a request of ours to answer. */
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

/* One connection that can only wait for its reply needs no poll: it blocks in the read itself, from
 * which a heartbeat wakes it. */
static bool load_receive(struct load *l, uint64_t deadline)
{
    if (l->conn_count == 1 && deadline == NEVER && l->conns[0].out_used == 0 && !heartbeat)
        return load_receive_from(l, &l->conns[0], 0);
    heartbeat = 0;
    return load_receive_any(l, deadline);
}

#define HEARTBEAT_MAX 1.0 /* seconds */

static void heartbeat_every(double seconds)
{
    struct timeval period = seconds > 0 ? to_timeval(seconds) : (struct timeval){0};
    struct itimerval timer = {.it_interval = period, .it_value = period};
    (void)setitimer(ITIMER_REAL, &timer, NULL); /* cannot fail for such values */
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

/* Sends and receives until all is answered. False when it could not end as planned: the failure
 * says why, and everything counted so far stays. */
static bool load_run(struct load *l)
{
    l->next_progress = now_ns() + NS_PER_S;
    heartbeat_every(fmin(l->settings->timeout / 4, HEARTBEAT_MAX));
    bool complete = load_loop(l);
    heartbeat_every(0);
    return complete;
}

/* Opens the connections and everything a run needs, so that nothing is allocated later. */
static bool load_open(struct load *l, size_t connections, size_t depth,
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

static void load_close(struct load *l)
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

static bool load_fail_on_errors(struct load *l)
{
    if (l->errors.total == 0)
        return true;
    char kinds[256] = "";
    errors_describe(&l->errors, kinds, sizeof kinds);
    return fail(l->failure, EXIT_REQUESTS, "reply",
                "%" PRIu64 " of %" PRIu64 " requests failed (%s); first: %s", l->errors.total, l->sent,
                kinds, l->errors.first);
}

/* ---------------------------------------------------------------------------------------------
 * Hot set: how many keys took 50, 90 and 99 % of the accesses. The chooser is repeatable, so the run
 * is replayed afterwards instead of being burdened with counting; the memory is lent by the series,
 * which is done by then. Keys that do not fit are counted in further passes.
 */
#define HOT_SHARES 3
#define HOT_SMALL 4096                      /* accesses of one key up to which keys are only tallied */
#define HOT_STEPS_MAX (UINT64_C(256) << 20) /* a few seconds of replaying */

static const unsigned hot_permille[HOT_SHARES] = {500, 900, 990};

struct hot_set {
    bool known;
    uint64_t accesses, distinct;
    uint64_t keys[HOT_SHARES];
};

static int compare_descending(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x < y) - (x > y);
}

/* `keys` keys of `each` accesses come next in the order of heat. */
static void hot_set_take(struct hot_set *h, uint64_t *covered, uint64_t keys, uint64_t each)
{
    for (size_t i = 0; i < HOT_SHARES; i++) {
        uint64_t wanted = rank_of(h->accesses, hot_permille[i]);
        if (wanted > *covered)
            h->keys[i] = h->distinct + min_u64(keys, (wanted - *covered + each - 1) / each);
    }
    *covered += keys * each;
    h->distinct += keys;
}

static void hot_set_measure(struct hot_set *h, const struct chooser *initial, uint64_t accesses,
                            uint32_t *counts, size_t capacity)
{
    static uint64_t tally[HOT_SMALL]; /* how many keys had so many accesses */
    uint64_t passes = (initial->keys + capacity - 1) / capacity;
    *h = (struct hot_set){.accesses = accesses};
    if (accesses == 0 || initial->keys > HOT_STEPS_MAX || accesses > HOT_STEPS_MAX / passes)
        return;
    uint32_t *big = malloc((size_t)(accesses / HOT_SMALL + 1) * sizeof *big);
    if (big == NULL)
        return;
    size_t big_used = 0;
    memset(tally, 0, sizeof tally);
    for (uint64_t base = 0; base < initial->keys; base += capacity) {
        size_t span = (size_t)min_u64(capacity, initial->keys - base);
        struct chooser replay = *initial;
        memset(counts, 0, span * sizeof *counts);
        for (uint64_t i = 0; i < accesses; i++) {
            uint64_t place = chooser_next(&replay).key - base; /* keys below base wrap: far too big */
            if (place < span)
                counts[place]++;
        }
        for (size_t i = 0; i < span; i++) {
            if (counts[i] < HOT_SMALL)
                tally[counts[i]]++;
            else
                big[big_used++] = counts[i];
        }
    }
    uint64_t covered = 0;
    qsort(big, big_used, sizeof *big, compare_descending);
    for (size_t i = 0; i < big_used; i++)
        hot_set_take(h, &covered, 1, big[i]);
    for (size_t each = HOT_SMALL - 1; each > 0; each--)
        if (tally[each] > 0)
            hot_set_take(h, &covered, tally[each], each);
    free(big);
    h->known = true;
}

/* ---------------------------------------------------------------------------------------------
 * The client's own health: whatever makes its result doubtful.
 */
struct health_sample {
    struct rusage usage;
    uint64_t at, steal;
    int cpu;
};

struct health {
    bool measured;
    bool memory_locked;
    const struct pacer *hybrid; /* the pacer that learned how late sleeps end, if one did */
    struct health_sample first, last;
};

/* The beginning of a small file of the kernel's; empty when it cannot be read. */
static void read_small_file(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, to, size - 1);
    to[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
}

/* The eighth figure of the first line: time that the hypervisor gave to others. */
static uint64_t steal_ticks(void)
{
    char text[512];
    uint64_t steal = 0;
    read_small_file("/proc/stat", text, sizeof text);
    if (sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &steal) != 1)
        return 0;
    return steal;
}

static struct health_sample health_now(void)
{
    struct health_sample h = {.at = now_ns(), .steal = steal_ticks(), .cpu = sched_getcpu()};
    (void)getrusage(RUSAGE_SELF, &h.usage);
    return h;
}

/* The peak of this process. getrusage() would include what it was before exec: a shell, a Python. */
static uint64_t peak_resident_kb(void)
{
    char text[4096];
    uint64_t kb = 0;
    read_small_file("/proc/self/status", text, sizeof text);
    const char *line = strstr(text, "VmHWM:");
    if (line == NULL || sscanf(line, "VmHWM: %" SCNu64, &kb) != 1)
        return 0;
    return kb;
}

static bool is_realtime(void)
{
    int policy = sched_getscheduler(0);
    return policy == SCHED_FIFO || policy == SCHED_RR;
}

/* "0-1,4" */
static void describe_allowed_cpus(char *to, size_t size)
{
    cpu_set_t set;
    size_t used = 0;
    to[0] = '\0';
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (size_t first = 0; first < CPU_SETSIZE && used < size; first++) {
        if (!CPU_ISSET(first, &set))
            continue;
        size_t last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        int n = snprintf(to + used, size - used, last > first ? "%s%zu-%zu" : "%s%zu",
                         used > 0 ? "," : "", first, last);
        used += n > 0 ? (size_t)n : 0;
        first = last;
    }
}

#define STACK_RESERVE (128u << 10)
#define HEAP_RESERVE (512u << 10)

/* Touches stack that may be needed, so that it exists when memory is locked. */
static void touch_stack(void)
{
    volatile char room[STACK_RESERVE];
    for (size_t i = 0; i < sizeof room; i += 1024)
        room[i] = 0;
}

/* Brings every page we have into memory and keeps it there: on a host that is short of memory our
 * own page-ins would be measured as latency of Redis. Called when everything is allocated; what
 * hiredis may still want comes from a heap that has room. Only current pages are locked, so that a
 * small RLIMIT_MEMLOCK does not turn a later allocation into a failure. */
static bool lock_memory(size_t largest_reply)
{
    touch_stack();
    size_t reserve = HEAP_RESERVE + 2 * largest_reply;
    char *room = reserve < (16u << 20) ? malloc(reserve) : NULL;
    if (room != NULL)
        explicit_bzero(room, reserve); /* a memset() before free() would be optimised away */
    free(room);
    if (mlockall(MCL_CURRENT) == 0)
        return true;
    (void)fprintf(stderr, "solotest: warning: cannot lock memory (%s): the client's own page faults may "
                  "appear as latency\n", strerror(errno));
    return false;
}

/* ---------------------------------------------------------------------------------------------
 * Server: what Redis says of itself. Asked on a connection of its own, before and after the load.
 */
struct server_state {
    bool known;
    char version[32];
    int64_t process_id, dbsize, used_memory, used_memory_rss, maxmemory, evicted_keys; /* -1: not told */
    double cpu_seconds; /* of the main thread where Redis tells it (since 6.2), else of the process; below 0: not told */
};

/* Copies the value of "name:value\r\n" out of INFO's text; empty if there is no such line. */
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

/* The sum of two figures in seconds; below 0 if INFO does not have both. */
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

/* A user who may not call INFO learns less, but that is no failure. */
static bool server_look(const struct settings *s, const struct credentials *who,
                        struct server_state *state, struct failure *f)
{
    struct conn c = {0};
    bool answered = conn_connect(&c, s, f) && conn_authenticate(&c, who, s, f) &&
                    server_ask(&c, s, state, f);
    conn_close(&c);
    return answered;
}

/* ---------------------------------------------------------------------------------------------
 * Phases
 */
struct fill_result {
    bool done;
    uint64_t keys, started, finished; /* wall clock */
    double seconds, flush_seconds;
    int64_t dbsize; /* -1: not known */
};

struct test_result {
    bool done;
    uint64_t ready, started, finished; /* wall clock; 0: not reached */
    struct load load;
    struct measurement *measurement;
    struct hot_set hot;
};

struct outcome {
    struct failure failure;
    struct fill_result fill;
    struct test_result test;
    struct health health;
    struct server_state before, after;
    uint64_t seed;
};

/* Waits for the wall clock and returns the monotonic time of the start. The last tenth of a second
 * is left to the monotonic clock of the pacer; until then a step of the wall clock is followed. */
static uint64_t wait_for_start(double start_at)
{
    if (start_at < 0)
        return now_ns();
    uint64_t wanted = seconds_to_ns(start_at);
    uint64_t now = clock_ns(CLOCK_REALTIME);
    if (now > wanted) {
        (void)fprintf(stderr, "solotest: warning: --start-at was %.3f seconds ago: starting now\n",
                      (double)(now - wanted) / 1e9);
        return now_ns();
    }
    sleep_until(CLOCK_REALTIME, since(wanted, 100 * NS_PER_MS));
    return max_u64(now_ns(), wanted - wall_offset());
}

static bool is_canonical_number(const char *text, size_t length)
{
    if (length == 0 || length > 20 || (text[0] == '0' && length > 1))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)text[i]))
            return false;
    return true;
}

/* "db3:keys=5,..." for any database but 0 that holds a key; NULL if there is none. */
static const char *find_foreign_database(const char *keyspace)
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
                "refused to flush: %s '%.60s'; this Redis holds data that is not ours", what, detail);
}

static bool protect_databases(struct conn *c, const struct settings *s, struct failure *f)
{
    const char *argv[] = {"INFO", "keyspace"};
    redisReply *reply = conn_command(c, s->timeout, f, 2, argv);
    if (reply == NULL)
        return false;
    bool safe = true;
    if (reply->str == NULL || reply->type == REDIS_REPLY_ERROR) {
        safe = refuse(f, "cannot look at it:", reply->str != NULL ? reply->str : "no text");
    } else {
        const char *line = find_foreign_database(reply->str);
        if (line != NULL) {
            char name[32];
            (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(line, "\r\n,"), line);
            safe = refuse(f, "another database is in use:", name);
        }
    }
    freeReplyObject(reply);
    return safe;
}

#define PROTECT_SAMPLES 1000

/* Our keys are numbers without leading zeros. A thousand random keys that all are leave little doubt,
 * and one that is not is enough. */
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
            safe = refuse(f, "cannot look at it:", reply->str != NULL ? reply->str : "no text");
        else if (!is_canonical_number(reply->str, reply->len))
            safe = refuse(f, "there is a key", reply->str);
        freeReplyObject(reply);
    }
    return safe;
}

static bool may_flush(struct conn *c, const struct settings *s, struct failure *f)
{
    return !s->protect || (protect_databases(c, s, f) && protect_keys(c, s, f));
}

#define FLUSH_TIMEOUT 600 /* seconds; freeing gigabytes of swapped memory takes its time */

static bool flush_all(struct conn *c, const struct settings *s, struct failure *f)
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

static bool check_dbsize(struct conn *c, const struct settings *s, struct fill_result *r,
                         struct failure *f)
{
    const char *argv[] = {"DBSIZE"};
    redisReply *reply = conn_command(c, s->timeout, f, 1, argv);
    if (reply == NULL)
        return false;
    if (reply->type == REDIS_REPLY_INTEGER)
        r->dbsize = reply->integer;
    freeReplyObject(reply);
    if (r->dbsize != s->key_count)
        return fail(f, EXIT_REQUESTS, "dbsize", "DBSIZE is %" PRId64 " after filling %" PRId64 " keys",
                    r->dbsize, s->key_count);
    return true;
}

/* Requests in flight: enough that Redis never waits for us, few enough that what is under way stays
 * in the caches. Measured: 64 KB are best for values of 1 KB, by 12 % over 512 KB; small values want
 * many requests, and large ones do not care. */
static size_t fill_depth(const struct settings *s)
{
    return (size_t)max_u64(64, min_u64(512, 65536 / (uint64_t)s->value_size));
}

static bool fill_keys(struct load *l, struct fill_result *r)
{
    struct conn *c = &l->conns[0];
    uint64_t flush_start = now_ns();
    if (!flush_all(c, l->settings, l->failure))
        return false;
    r->flush_seconds = (double)(now_ns() - flush_start) / 1e9;
    l->pacer.start = now_ns();
    r->done = true;
    bool complete = load_run(l);
    uint64_t offset = wall_offset();
    r->keys = l->ok;
    r->started = l->first_sent + offset;
    r->finished = max_u64(l->last_reply, l->first_sent) + offset;
    r->seconds = (double)(r->finished - r->started) / 1e9;
    return load_fail_on_errors(l) && complete && check_dbsize(c, l->settings, r, l->failure);
}

static struct byte_rng values_of(uint64_t seed, uint64_t phase)
{
    struct rng r;
    rng_seed(&r, seed, 2 + phase);
    return (struct byte_rng){r.s[0]};
}

static void fill_phase(const struct settings *s, const struct credentials *who, struct outcome *o)
{
    struct chooser chooser;
    struct byte_rng values = values_of(o->seed, 0);
    chooser_init(&chooser, o->seed, (uint64_t)s->key_count, PATTERN_SEQUENTIAL, 0, READ_MIX_ONLY_SETS);
    struct load l = {.settings = s, .chooser = &chooser, .values = &values, .name = "fill",
                     .planned = (uint64_t)s->key_count, .stop_at = NEVER, .stop_on_error = true,
                     .pacer = {.mode = PACING_NONE}, .failure = &o->failure};
    o->fill.dbsize = -1;
    if (load_open(&l, 1, fill_depth(s), who) && may_flush(&l.conns[0], s, &o->failure)) {
        sleep_until(CLOCK_MONOTONIC, wait_for_start(s->start_at));
        o->health.first = health_now();
        if (interrupted)
            (void)fail_interrupted(&o->failure);
        else
            (void)fill_keys(&l, &o->fill);
        o->health.last = health_now();
        o->health.measured = true;
    }
    load_close(&l);
}

static struct measurement *measurement_create(const struct settings *s, struct failure *f)
{
    struct measurement *m = calloc(1, sizeof *m);
    if (m != NULL) {
        m->series.slots = calloc(SERIES_POINTS, sizeof *m->series.slots);
        m->raw_size = s->raw_file != NULL ? planned_requests(s) : 0;
        if (m->raw_size > 0)
            m->raw = calloc((size_t)m->raw_size, sizeof *m->raw);
    }
    if (m == NULL || m->series.slots == NULL || (m->raw_size > 0 && m->raw == NULL)) {
        (void)fail_memory(f);
        if (m != NULL)
            free(m->series.slots);
        free(m);
        return NULL;
    }
    return m;
}

/* An open schedule's length is known, so its series never has to be coarsened in the middle. */
static uint64_t series_interval_of(const struct settings *s)
{
    if (s->pacing != PACING_NONE)
        return series_interval_for(seconds_to_ns((double)planned_requests(s) / s->rate));
    if (s->duration > 0)
        return series_interval_for(seconds_to_ns(s->duration));
    return 100 * NS_PER_MS;
}

/* After this time nothing is sent; NEVER if only the number of requests ends the test. A schedule
 * knows its duration by its number of requests, and sends them all, however late. */
static uint64_t stop_time(const struct settings *s, uint64_t start)
{
    uint64_t stop = NEVER;
    if (s->max_seconds > 0)
        stop = start + seconds_to_ns(s->max_seconds);
    if (s->pacing == PACING_NONE && s->duration > 0)
        stop = min_u64(stop, start + seconds_to_ns(s->duration));
    return stop;
}

static void test_run(struct test_result *t, struct outcome *o)
{
    struct load *l = &t->load;
    const struct settings *s = l->settings;
    struct measurement *m = t->measurement;
    o->health.memory_locked = lock_memory((size_t)s->value_size);
    if (!o->health.memory_locked && m->raw != NULL)
        memset(m->raw, 0, (size_t)m->raw_size * sizeof *m->raw); /* at least touched */
    t->ready = clock_ns(CLOCK_REALTIME);
    uint64_t start = wait_for_start(s->fill ? -1 : s->start_at);
    o->health.hybrid = l->pacer.mode == PACING_HYBRID ? &l->pacer : NULL;
    o->health.first = health_now(); /* after the long wait, which would dilute the share of a CPU */
    l->pacer.start = max_u64(start, now_ns());
    l->stop_at = stop_time(s, l->pacer.start);
    if (load_is_paced(l))
        l->pacer.start += (uint64_t)((double)l->pacer.period * s->stagger);
    else
        sleep_until(CLOCK_MONOTONIC, l->pacer.start);
    uint64_t offset_before = wall_offset();
    bool complete = load_run(l);
    uint64_t offset_after = wall_offset();
    o->health.last = health_now();
    o->health.measured = true;
    t->started = l->sent > 0 ? l->first_sent + offset_before : 0;
    t->finished = l->last_reply > 0 ? l->last_reply + offset_after : 0;
    if (complete)
        (void)load_fail_on_errors(l);
}

static uint64_t pacer_spin(const struct settings *s)
{
    switch ((enum pacing)s->pacing) {
    case PACING_HYBRID:
        return (uint64_t)s->spin_us * NS_PER_US;
    case PACING_SPIN:
        return NEVER;
    default:
        return 0;
    }
}

static void test_phase(const struct settings *s, const struct credentials *who, struct outcome *o)
{
    static struct chooser chooser;
    static struct byte_rng values;
    struct test_result *t = &o->test;
    t->measurement = measurement_create(s, &o->failure);
    if (t->measurement == NULL)
        return;
    chooser_init(&chooser, o->seed, (uint64_t)s->key_count, (enum pattern)s->pattern, s->influence,
                 (int)s->read_mix);
    values = values_of(o->seed, 1);
    t->measurement->series.interval = series_interval_of(s);
    t->load = (struct load){
        .settings = s, .chooser = &chooser, .values = &values, .name = "test",
        .planned = planned_requests(s), .measurement = t->measurement, .failure = &o->failure,
        .pacer = {.mode = (enum pacing)s->pacing,
                  .spin = pacer_spin(s),
                  .spin_min = pacer_spin(s),
                  .period = 1e9L / (long double)s->rate}};
    struct chooser initial = chooser;
    t->done = load_open(&t->load, (size_t)s->connections, (size_t)s->pipeline, who);
    if (t->done) {
        test_run(t, o);
        series_finish(&t->measurement->series);
        if (s->json)
            hot_set_measure(&t->hot, &initial, t->load.sent, t->measurement->series.slots[0],
                            SERIES_POINTS * HIST_SLOTS);
    }
    load_close(&t->load);
}

/* ---------------------------------------------------------------------------------------------
 * Report
 */

/* Writes JSON and keeps track of commas, so that its callers read like the document. */
struct json {
    FILE *file;
    bool comma; /* something stands before, at this level */
};

static void json_raw(struct json *j, const char *text)
{
    if (j->comma)
        (void)fputc(',', j->file);
    (void)fputs(text, j->file);
    j->comma = true;
}

static void json_open(struct json *j, const char *bracket)
{
    json_raw(j, bracket);
    j->comma = false;
}

static void json_close(struct json *j, char bracket)
{
    (void)fputc(bracket, j->file);
    j->comma = true;
}

static void json_key(struct json *j, const char *name)
{
    if (j->comma)
        (void)fputc(',', j->file);
    (void)fprintf(j->file, "\"%s\":", name);
    j->comma = false;
}

/* Any bytes in, valid JSON out: what is not UTF-8 becomes the replacement character. */
static void json_text(struct json *j, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (text == NULL) {
        json_raw(j, "null");
        return;
    }
    json_raw(j, "\"");
    while (*s != '\0') {
        size_t n = utf8_length(s);
        if (n == 0)
            (void)fputs("\\ufffd", j->file);
        else if (*s < 0x20 || *s == 0x7f)
            (void)fprintf(j->file, "\\u%04x", *s);
        else if (*s == '"' || *s == '\\')
            (void)fprintf(j->file, "\\%c", *s);
        else
            (void)fwrite(s, 1, n, j->file);
        s += n > 0 ? n : 1;
    }
    (void)fputc('"', j->file);
}

static void json_wide(struct json *j, wide value)
{
    char digits[40];
    size_t i = sizeof digits;
    digits[--i] = '\0';
    do
        digits[--i] = (char)('0' + (int)(value % 10));
    while ((value /= 10) != 0);
    json_raw(j, digits + i);
}

/* The shortest of the two forms that reads back as the same number. */
static void json_real(struct json *j, double value)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        (void)snprintf(text, sizeof text, "%.17g", value);
    json_raw(j, isfinite(value) ? text : "null");
}

static void json_bool(struct json *j, bool value)
{
    json_raw(j, value ? "true" : "false");
}

/* A wall-clock time in ns as epoch seconds with microseconds; 0 stands for none. */
static void json_epoch(struct json *j, uint64_t ns)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64, ns / NS_PER_S,
                   ns % NS_PER_S / NS_PER_US);
    json_raw(j, ns == 0 ? "null" : text);
}

static void json_key_text(struct json *j, const char *name, const char *value)
{
    json_key(j, name);
    json_text(j, value);
}

static void json_key_u64(struct json *j, const char *name, uint64_t value)
{
    json_key(j, name);
    json_wide(j, value);
}

static void json_key_real(struct json *j, const char *name, double value)
{
    json_key(j, name);
    json_real(j, value);
}

static void json_key_bool(struct json *j, const char *name, bool value)
{
    json_key(j, name);
    json_bool(j, value);
}

static void json_key_epoch(struct json *j, const char *name, uint64_t ns)
{
    json_key(j, name);
    json_epoch(j, ns);
}

static void json_key_null(struct json *j, const char *name)
{
    json_key(j, name);
    json_raw(j, "null");
}

/* Options that were not given are negative in the settings. */
static void json_key_u64_if_given(struct json *j, const char *name, int64_t value)
{
    if (value < 0)
        json_key_null(j, name);
    else
        json_key_u64(j, name, (uint64_t)value);
}

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
#define DOTTED(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)
#define HIREDIS_VERSION DOTTED(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH)
#ifdef __clang__
#define COMPILER "clang " DOTTED(__clang_major__, __clang_minor__, __clang_patchlevel__)
#else
#define COMPILER "gcc " DOTTED(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__)
#endif

/* A static program has no interpreter that the kernel would have had to load. */
static bool is_static(void)
{
    return getauxval(AT_BASE) == 0;
}

static void report_client(struct json *j)
{
    json_key(j, "client");
    json_open(j, "{");
    json_key_text(j, "name", "solotest");
    json_key_text(j, "version", SOLOTEST_VERSION);
    json_key_text(j, "hiredis", HIREDIS_VERSION);
    json_key_text(j, "compiler", COMPILER);
    json_key_bool(j, "static", is_static());
    json_close(j, '}');
}

static void report_settings(struct json *j, const struct settings *s, uint64_t seed)
{
    bool paced = s->pacing != PACING_NONE;
    uint64_t planned = planned_requests(s);
    json_key(j, "settings");
    json_open(j, "{");
    json_key_text(j, "host", s->socket == NULL ? s->host : NULL);
    json_key_u64_if_given(j, "port", s->socket == NULL ? s->port : -1);
    json_key_text(j, "socket", s->socket);
    json_key_u64(j, "value_size", (uint64_t)s->value_size);
    json_key_u64(j, "key_count", (uint64_t)s->key_count);
    json_key_u64_if_given(j, "requests", planned > 0 ? (int64_t)planned : -1);
    json_key(j, "duration_s");
    if (s->duration < 0)
        json_raw(j, "null");
    else
        json_real(j, s->duration);
    json_key_real(j, "influence", s->influence);
    json_key_real(j, "rate", s->rate);
    json_key_real(j, "read_mix", (double)s->read_mix); /* may be negative */
    json_key_text(j, "pattern", pattern_names[s->pattern]);
    json_key_u64(j, "connections", (uint64_t)s->connections);
    json_key_u64(j, "pipeline", (uint64_t)s->pipeline);
    json_key_text(j, "pacing", pacing_names[s->pacing]);
    json_key_u64_if_given(j, "spin_us", s->pacing == PACING_HYBRID ? s->spin_us : -1);
    json_key_epoch(j, "start_at", s->start_at < 0 ? 0 : seconds_to_ns(s->start_at));
    json_key_real(j, "stagger", paced ? s->stagger : 0);
    json_key_u64(j, "seed", seed);
    json_key_real(j, "compressibility", s->compressibility);
    json_key_u64_if_given(j, "cpu", s->cpu);
    json_key_real(j, "timeout_s", s->timeout);
    json_close(j, '}');
}

static void report_error(struct json *j, const struct failure *f)
{
    json_key(j, "error");
    if (f->exit_code == EXIT_OK) {
        json_raw(j, "null");
    } else {
        json_open(j, "{");
        json_key_text(j, "kind", f->kind);
        json_key_text(j, "message", f->message);
        json_close(j, '}');
    }
    json_key_u64_if_given(j, "interrupted",
                          f->exit_code > EXIT_SIGNAL ? f->exit_code - EXIT_SIGNAL : -1);
}

static void report_fill(struct json *j, const struct fill_result *r)
{
    json_key(j, "fill");
    if (!r->done) {
        json_raw(j, "null");
        return;
    }
    json_open(j, "{");
    json_key_u64(j, "keys", r->keys);
    json_key_real(j, "seconds", r->seconds);
    json_key_real(j, "keys_per_second", r->seconds > 0 ? (double)r->keys / r->seconds : 0);
    json_key_u64_if_given(j, "dbsize", r->dbsize);
    json_key_epoch(j, "started_at", r->started);
    json_key_epoch(j, "finished_at", r->finished);
    json_key_real(j, "flush_seconds", r->flush_seconds);
    json_close(j, '}');
}

static void report_server(struct json *j, const char *name, const struct server_state *state)
{
    json_key(j, name);
    if (!state->known) {
        json_raw(j, "null");
        return;
    }
    json_open(j, "{");
    json_key_text(j, "redis_version", state->version);
    json_key_u64_if_given(j, "process_id", state->process_id);
    json_key_u64_if_given(j, "dbsize", state->dbsize);
    json_key_u64_if_given(j, "used_memory", state->used_memory);
    json_key_u64_if_given(j, "used_memory_rss", state->used_memory_rss);
    json_key_u64_if_given(j, "maxmemory", state->maxmemory);
    json_key_u64_if_given(j, "evicted_keys", state->evicted_keys);
    if (state->cpu_seconds >= 0)
        json_key_real(j, "cpu_s", state->cpu_seconds);
    else
        json_key_null(j, "cpu_s");
    json_close(j, '}');
}

static void report_histogram(struct json *j, const char *name, const struct histogram *h)
{
    static const struct {
        const char *name;
        unsigned permille;
    } percentiles[] = {{"p50_ns", 500}, {"p95_ns", 950}, {"p99_ns", 990}, {"p999_ns", 999}};
    bool empty = h->count == 0;
    json_key(j, name);
    json_open(j, "{");
    json_key_u64(j, "count", h->count);
    json_key(j, "sum_ns");
    json_wide(j, h->sum);
    json_key_u64_if_given(j, "min_ns", empty ? -1 : (int64_t)h->min);
    json_key_u64_if_given(j, "max_ns", empty ? -1 : (int64_t)h->max);
    for (size_t i = 0; i < COUNT_OF(percentiles); i++)
        json_key_u64_if_given(j, percentiles[i].name,
                              empty ? -1 : (int64_t)hist_percentile(h, percentiles[i].permille));
    json_key(j, "buckets");
    json_open(j, "[");
    for (size_t i = 0; i < HIST_SLOTS; i++)
        if (h->slots[i] > 0) {
            json_wide(j, i);
            json_wide(j, h->slots[i]);
        }
    json_close(j, ']');
    json_close(j, '}');
}

static void report_requests(struct json *j, const struct load *l)
{
    json_key(j, "requests");
    json_open(j, "{");
    json_key_u64_if_given(j, "planned", l->planned > 0 ? (int64_t)l->planned : -1);
    json_key_u64(j, "sent", l->sent);
    json_key_u64(j, "ok", l->ok);
    json_key_u64(j, "gets", l->gets);
    json_key_u64(j, "sets", l->sets);
    json_key(j, "errors");
    json_open(j, "{");
    for (size_t i = 0; i < l->errors.used; i++)
        json_key_u64(j, l->errors.kinds[i].kind, l->errors.kinds[i].count);
    json_close(j, '}');
    json_close(j, '}');
}

/* From first send to last: n requests at rate r span (n - 1) / r seconds. */
static void report_rate(struct json *j, const struct load *l)
{
    json_key(j, "rate");
    json_open(j, "{");
    json_key(j, "target");
    if (load_is_paced(l))
        json_real(j, l->settings->rate);
    else
        json_raw(j, "null");
    json_key(j, "achieved");
    if (l->last_sent > l->first_sent)
        json_real(j, (double)(l->sent - 1) * 1e9 / (double)(l->last_sent - l->first_sent));
    else
        json_raw(j, "null");
    json_close(j, '}');
}

static void report_hot_set(struct json *j, const struct hot_set *h, uint64_t value_size)
{
    json_key(j, "hot_set");
    if (!h->known) {
        json_raw(j, "null");
        return;
    }
    json_open(j, "{");
    json_key_u64(j, "accesses", h->accesses);
    json_key_u64(j, "distinct_keys", h->distinct);
    for (size_t i = 0; i < HOT_SHARES; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "p%u_keys", hot_permille[i] / 10);
        json_key_u64(j, name, h->keys[i]);
        (void)snprintf(name, sizeof name, "p%u_bytes", hot_permille[i] / 10);
        json_key_u64(j, name, h->keys[i] * value_size);
    }
    json_close(j, '}');
}

static void report_series(struct json *j, const struct series *s)
{
    json_key(j, "series");
    json_open(j, "{");
    json_key_text(j, "of", "response");
    json_key_real(j, "interval_s", (double)s->interval / 1e9);
    json_key(j, "points");
    json_open(j, "[");
    for (size_t i = 0; i < s->used; i++) {
        const struct series_point *p = &s->points[i];
        json_open(j, "[");
        json_wide(j, p->count);
        json_wide(j, p->count > 0 ? p->sum / p->count : 0);
        json_wide(j, p->p99);
        json_wide(j, p->max);
        json_close(j, ']');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void report_test(struct json *j, const struct test_result *t)
{
    json_key(j, "test");
    if (!t->done) {
        json_raw(j, "null");
        return;
    }
    const struct load *l = &t->load;
    const struct measurement *m = t->measurement;
    json_open(j, "{");
    json_key_epoch(j, "started_at", t->started);
    json_key_epoch(j, "finished_at", t->finished);
    json_key_epoch(j, "ready_at", t->ready);
    json_key_real(j, "seconds", (double)since(l->last_reply, l->first_sent) / 1e9);
    report_requests(j, l);
    report_rate(j, l);
    json_key(j, "latency");
    json_open(j, "{");
    report_histogram(j, "service", &m->service);
    report_histogram(j, "response", &m->response);
    report_histogram(j, "intended", &m->intended);
    report_histogram(j, "lateness", &m->lateness);
    json_close(j, '}');
    report_hot_set(j, &t->hot, (uint64_t)l->settings->value_size);
    report_series(j, &m->series);
    json_close(j, '}');
}

static double seconds_between(struct timeval from, struct timeval to)
{
    return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_usec - from.tv_usec) / 1e6;
}

static void report_health(struct json *j, const struct health *h)
{
    json_key(j, "client_health");
    if (!h->measured) {
        json_raw(j, "null");
        return;
    }
    const struct rusage *a = &h->first.usage, *b = &h->last.usage;
    double user = seconds_between(a->ru_utime, b->ru_utime);
    double system = seconds_between(a->ru_stime, b->ru_stime);
    double elapsed = (double)since(h->last.at, h->first.at) / 1e9;
    char clock_source[64], cpus[256];
    read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", clock_source,
                    sizeof clock_source);
    clock_source[strcspn(clock_source, "\n")] = '\0';
    describe_allowed_cpus(cpus, sizeof cpus);
    json_open(j, "{");
    json_key_u64(j, "major_faults", (uint64_t)(b->ru_majflt - a->ru_majflt));
    json_key_u64(j, "minor_faults", (uint64_t)(b->ru_minflt - a->ru_minflt));
    json_key_u64(j, "voluntary_switches", (uint64_t)(b->ru_nvcsw - a->ru_nvcsw));
    json_key_u64(j, "involuntary_switches", (uint64_t)(b->ru_nivcsw - a->ru_nivcsw));
    json_key_real(j, "user_s", user);
    json_key_real(j, "system_s", system);
    json_key_real(j, "cpu_share", elapsed > 0 ? (user + system) / elapsed : 0);
    json_key_u64(j, "steal_ticks", since(h->last.steal, h->first.steal));
    json_key_text(j, "clock_source", clock_source[0] != '\0' ? clock_source : NULL);
    json_key_bool(j, "memory_locked", h->memory_locked);
    json_key_u64(j, "max_rss_kb", peak_resident_kb());
    json_key_u64_if_given(j, "cpu_first", h->first.cpu);
    json_key_u64_if_given(j, "cpu_last", h->last.cpu);
    json_key_text(j, "cpus_allowed", cpus);
    json_key_bool(j, "realtime", is_realtime());
    if (h->hybrid != NULL)
        json_key_real(j, "spin_us_at_end", (double)h->hybrid->spin / NS_PER_US);
    else
        json_key_null(j, "spin_us_at_end");
    json_close(j, '}');
}

static const char *mode_name(const struct settings *s)
{
    if (s->fill)
        return s->test ? "filltest" : "fill";
    return s->test ? "test" : "probe";
}

static void report_json(FILE *file, const struct settings *s, const struct outcome *o)
{
    struct json j = {.file = file};
    json_open(&j, "{");
    json_key_u64(&j, "schema", 1);
    report_client(&j);
    json_key_text(&j, "mode", mode_name(s));
    report_settings(&j, s, o->seed);
    report_error(&j, &o->failure);
    report_fill(&j, &o->fill);
    report_test(&j, &o->test);
    report_server(&j, "server_before", &o->before);
    report_server(&j, "server_after", &o->after);
    report_health(&j, &o->health);
    json_close(&j, '}');
    (void)fputc('\n', file);
}

/* The output of 2018: requests, average, minimum, maximum, p99, p95, in seconds. */
static void report_six_lines(FILE *file, const struct histogram *service)
{
    (void)fprintf(file, "%" PRIu64 "\n%e\n%e\n%e\n%e\n%e\n", service->count,
                  hist_mean(service) / 1e9, (double)service->min / 1e9, (double)service->max / 1e9,
                  (double)hist_percentile(service, 990) / 1e9,
                  (double)hist_percentile(service, 950) / 1e9);
}

static void report_fill_for_people(const struct fill_result *r)
{
    (void)fprintf(stderr, "solotest: filled %" PRIu64 " keys in %.3f seconds, %.0f per second\n",
                  r->keys, r->seconds, r->seconds > 0 ? (double)r->keys / r->seconds : 0);
}

static bool write_raw(FILE *file, const struct measurement *m)
{
    for (uint64_t i = 0; i < m->raw_used; i++)
        (void)fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", m->raw[i].service,
                      m->raw[i].response, m->raw[i].intended, m->raw[i].lateness);
    return ferror(file) == 0;
}

static void print_spec(const struct option_spec *spec)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s%s%s", spec->name, spec->argument != NULL ? " " : "",
                   spec->argument != NULL ? spec->argument : "");
    (void)printf("  %-26s %s\n", name, spec->help);
    if (spec->choices != NULL) {
        char choices[160];
        join_choices(spec->choices, choices, sizeof choices);
        (void)printf("  %-26s one of %s\n", "", choices);
    } else if (spec->max > spec->min) {
        (void)printf("  %-26s from %.16g to %.16g\n", "", spec->min, spec->max);
    }
}

static void print_help(void)
{
    (void)puts("usage: solotest [OPTIONS] [MODE [PORT [VALUE_SIZE [KEY_COUNT [BIAS [FREQUENCY "
               "[READ_MIX]]]]]]]\n\n"
               "Measures the latency of a Redis under an open schedule of requests. A test prints\n"
               "requests, average, minimum, maximum, p99 and p95 of its service time in seconds,\n"
               "one per line. fill empties the Redis (FLUSHALL) and sets keys 0 .. KEY_COUNT-1.\n\n"
               "Arguments (defaults in parentheses)");
    for (size_t i = 0; i < COUNT_OF(positional_specs); i++)
        print_spec(&positional_specs[i]);
    (void)puts("\nOptions");
    for (size_t i = 0; i < COUNT_OF(option_specs); i++)
        print_spec(&option_specs[i]);
    (void)puts("\nExit status: 0 done; 1 some requests failed; 2 usage; 3 cannot connect or\n"
               "authenticate; 4 connection lost, time-out or protocol error; 5 refused by --protect;\n"
               "6 output could not be written; 128 + signal when interrupted.");
}

/* ---------------------------------------------------------------------------------------------
 * Main
 */

/* Takes the password out of the environment, where any process of this user could read it. */
static bool read_credentials(struct credentials *who, const struct settings *s, struct failure *f)
{
    char *variable = getenv("SOLOTEST_PASSWORD");
    size_t length = variable != NULL ? strlen(variable) : 0;
    bool fits = length < sizeof who->password;
    if (fits && length > 0)
        memcpy(who->password, variable, length);
    if (variable != NULL)
        explicit_bzero(variable, length); /* unsetenv() alone leaves it in the process's memory */
    (void)unsetenv("SOLOTEST_PASSWORD");
    if (s->password_file != NULL) {
        read_small_file(s->password_file, who->password, sizeof who->password);
        length = strcspn(who->password, "\r\n");
        memset(who->password + length, 0, sizeof who->password - length);
        fits = length + 1 < sizeof who->password;
        if (length == 0)
            return not_allowed(f, "--password-file", s->password_file, "a readable file with a password");
    }
    if (!fits)
        return fail_usage(f, "the password is too long; allowed: up to %zu bytes", sizeof who->password - 2);
    who->user = s->user;
    who->present = length > 0;
    if (s->user != NULL && !who->present)
        return not_allowed(f, "--user", s->user, "with a password in a file or the environment");
    return true;
}

static bool pin_to_cpu(const struct settings *s, struct failure *f)
{
    char number[24];
    cpu_set_t set;
    if (s->cpu < 0)
        return true;
    CPU_ZERO(&set);
    CPU_SET((size_t)s->cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0)
        return true;
    (void)snprintf(number, sizeof number, "%" PRId64, s->cpu);
    return not_allowed(f, "--cpu", number, "a CPU of this machine that this process may use");
}

/* A closed standard stream would hand its number to our socket, and our output to Redis. */
static void occupy_standard_streams(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd)
            _exit(EXIT_OUTPUT);
}

static void prepare_process(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: system calls must return */
    struct sigaction before;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGALRM, &action, NULL);
    if (sigaction(SIGINT, NULL, &before) != 0 || before.sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* the default lets sleeps end 50 us late */
#ifdef __GLIBC__
    /* Freed memory stays ours: the heap that lock_memory() locks is the heap we go on using. */
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

static uint64_t choose_seed(const struct settings *s)
{
    uint64_t seed = 0;
    if (s->seed >= 0)
        return (uint64_t)s->seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
        seed = clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid();
    return seed >> 11; /* 53 bits: any reader of JSON can hold it, and --seed takes it back */
}

/* The phases, and the raw samples after them. */
static void perform(const struct settings *s, struct credentials *who, struct outcome *o)
{
    FILE *raw = NULL;
    if (s->raw_file != NULL && (raw = fopen(s->raw_file, "w")) == NULL)
        (void)fail(&o->failure, EXIT_OUTPUT, "output", "cannot write %s: %s", s->raw_file,
                   strerror(errno));
    if (o->failure.exit_code == EXIT_OK && (s->json || s->probe))
        (void)server_look(s, who, &o->before, &o->failure);
    if (s->fill && o->failure.exit_code == EXIT_OK)
        fill_phase(s, who, o);
    if (s->test && o->failure.exit_code == EXIT_OK)
        test_phase(s, who, o);
    if (o->failure.exit_code == EXIT_OK && s->json && (s->fill || s->test)) {
        struct failure too_late = {0}; /* the test is over: its result stands */
        (void)server_look(s, who, &o->after, &too_late);
    }
    explicit_bzero(who->password, sizeof who->password);
    if (raw == NULL)
        return;
    bool written = !o->test.done || write_raw(raw, o->test.measurement);
    if (fclose(raw) != 0 || !written)
        (void)fail(&o->failure, EXIT_OUTPUT, "output", "cannot write %s: %s", s->raw_file,
                   strerror(errno));
}

static void report(const struct settings *s, struct outcome *o)
{
    if (s->json)
        report_json(stdout, s, o);
    else if (o->test.done && o->test.measurement->service.count > 0)
        report_six_lines(stdout, &o->test.measurement->service);
    if (fflush(stdout) != 0 || ferror(stdout))
        (void)fail(&o->failure, EXIT_OUTPUT, "output", "cannot write the result: %s", strerror(errno));
    if (!s->json && o->fill.done)
        report_fill_for_people(&o->fill);
    if (o->failure.exit_code != EXIT_OK)
        (void)fprintf(stderr, "solotest: %s%s\n", o->failure.message,
                      o->failure.exit_code > EXIT_SIGNAL ? "; the result is partial" : "");
}

static void release(struct outcome *o)
{
    if (o->test.measurement == NULL)
        return;
    free(o->test.measurement->raw);
    free(o->test.measurement->series.slots);
    free(o->test.measurement);
}

static int solotest_main(int argc, char **argv)
{
    static struct outcome o;
    static struct credentials who;
    struct settings s;
    occupy_standard_streams();
    if (!parse_arguments(&s, argc, argv, &o.failure) || (!s.help && !s.version &&
        (!read_credentials(&who, &s, &o.failure) || !pin_to_cpu(&s, &o.failure)))) {
        (void)fprintf(stderr, "solotest: %s\n", o.failure.message);
        return o.failure.exit_code;
    }
    if (s.help) {
        print_help();
    } else if (s.version) {
        (void)puts("solotest " SOLOTEST_VERSION " (hiredis " HIREDIS_VERSION ", " COMPILER ")");
    } else {
        prepare_process();
        o.seed = choose_seed(&s);
        perform(&s, &who, &o);
    }
    if (s.help || s.version)
        return fflush(stdout) == 0 ? EXIT_OK : EXIT_OUTPUT;
    report(&s, &o);
    release(&o);
    return o.failure.exit_code;
}

#ifndef SOLOTEST_NO_MAIN
int main(int argc, char **argv)
{
    return solotest_main(argc, argv);
}
#endif
