/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * membw - measure how fast a set of CPUs reads the memory of one NUMA node.
 *
 * Each execution takes one measurement: a buffer on one node and one reader thread on each CPU. The
 * parts of this file, in the order in which they run, each tested in tests/programs/membw/:
 *
 *   buffer (placed, filled, checked to be on its node) -> kernels (what a reader does with it)
 *   -> readers -> report
 *
 * What could make the result too high or too low, and how membw prevents it:
 *   - The compiler removes reads whose result is not used: every chunk is summed and compared with
 *     the sum that was computed while it was filled; each step of a pointer chase needs the address
 *     that the previous step loaded.
 *   - The cache serves the reads instead of memory: the buffer is at least CACHE_MULTIPLE times the
 *     last-level caches of all readers, each counted once, and each pass reads it from start to end (or follows one random cycle
 *     through it), so that a line is evicted before it is read again.
 *   - The first access to a page causes a page fault: every page is written before the measurement,
 *     and the page faults during the measurement are counted.
 *   - The kernel places pages on another node: after the buffer is filled, the kernel is asked for
 *     the node of a sample of its pages.
 *
 * Build: cc -std=c11 -O2 files/membw.c -lnuma -pthread    (add -static for a portable executable)
 */
#define _GNU_SOURCE /* CPU_SET, RUSAGE_THREAD, MADV_HUGEPAGE */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define MEMBW_VERSION "1.0.0"
#define LINE_BYTES 64u /* cache line of x86 and of nearly all ARM servers */
#define LINE_WORDS (LINE_BYTES / sizeof(uint64_t))
#define CHUNK_BYTES (1u << 20) /* read between two checks of the clock */
#define CHUNK_WORDS (CHUNK_BYTES / sizeof(uint64_t))
#define CHUNK_LINES (CHUNK_BYTES / LINE_BYTES)
#define CACHE_MULTIPLE 16u               /* at most 1/16 of the buffer can still be in the last-level cache */
#define BUFFER_MIN (UINT64_C(256) << 20) /* of a buffer whose size membw chooses */
#define BUFFER_MAX (INT64_C(1) << 44)
#define RESERVE_DIVISOR 4u /* a quarter of the buffer stays free next to it */
#define CACHE_MAX (BUFFER_MAX / CACHE_MULTIPLE)
#define MAX_READERS 1024
#define CHASE_BATCH 1024u
#define SAMPLED_PAGES 512u

enum { EXIT_OK = 0, EXIT_USAGE = 2, EXIT_IMPOSSIBLE = 3, EXIT_WRONG_SUM = 4, EXIT_OUTPUT = 6 };
enum pattern { PATTERN_ALL, PATTERN_LINE, PATTERN_CHASE };
enum huge_pages { HUGE_NONE, HUGE_TRANSPARENT, HUGE_RESERVED };

static const char *const pattern_names[] = {"all", "line", "chase", NULL};
static const char *const huge_page_names[] = {"none", "transparent", "reserved", NULL};

/* ---------------------------------------------------------------------------------------------
 * Failures: only the first one is reported.
 */
struct failure {
    int exit_code;
    char message[256];
};

/* Returns false, so that callers can write `return fail(...)`. */
__attribute__((format(printf, 3, 4))) static bool fail(struct failure *f, int exit_code, const char *format, ...)
{
    if (f->exit_code != EXIT_OK)
        return false;
    f->exit_code = exit_code;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(f->message, sizeof f->message, format, arguments);
    va_end(arguments);
    return false;
}

/* ---------------------------------------------------------------------------------------------
 * Settings
 */
struct settings {
    int64_t memory_node; /* -1: the kernel chooses */
    int cpus[MAX_READERS];
    size_t readers;
    uint64_t buffer; /* bytes, all readers together; 0: chosen for the size of the cache */
    uint64_t cache;  /* bytes of the last-level caches to assume; 0: what the kernel reports */
    double seconds;
    enum pattern pattern;
    enum huge_pages huge_pages;
    bool allow_cached, help, version;
};

/* Parses a whole number followed by the end of the text or by one of the characters in `ends`. */
static bool parse_integer(const char **text, const char *ends, int64_t min, int64_t max, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(*text, &end, 10);
    bool is_number = end != *text && errno == 0 && (**text == '-' || (**text >= '0' && **text <= '9'));
    if (!is_number || parsed < min || parsed > max || (*end != '\0' && strchr(ends, *end) == NULL))
        return false;
    *text = end;
    *value = parsed;
    return true;
}

static bool parse_cpus(struct settings *s, const char *text, struct failure *f)
{
    const char *rest = text;
    s->readers = 0;
    for (;;) {
        int64_t cpu;
        if (s->readers == MAX_READERS || !parse_integer(&rest, ",", 0, CPU_SETSIZE - 1, &cpu))
            return fail(f, EXIT_USAGE,
                        "--cpus: '%s' is not allowed; expected up to %d CPU numbers from 0 to %d,"
                        " such as 0,2,4",
                        text, MAX_READERS, CPU_SETSIZE - 1);
        for (size_t i = 0; i < s->readers; i++)
            if (s->cpus[i] == (int)cpu)
                return fail(f, EXIT_USAGE, "--cpus: '%s' lists CPU %d twice", text, (int)cpu);
        s->cpus[s->readers++] = (int)cpu;
        if (*rest == '\0')
            return true;
        rest++;
    }
}

static bool parse_choice(const char *option, const char *text, const char *const *names, int *choice, struct failure *f)
{
    char all[96] = "";
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(text, names[i]) == 0) {
            *choice = i;
            return true;
        }
        size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return fail(f, EXIT_USAGE, "%s: '%s' is not allowed; expected one of %s", option, text, all);
}

static bool parse_number(const char *option, const char *text, int64_t min, int64_t max, int64_t *value,
                         struct failure *f)
{
    const char *rest = text;
    if (parse_integer(&rest, "", min, max, value))
        return true;
    return fail(f, EXIT_USAGE, "%s: '%s' is not allowed; expected a whole number from %" PRId64 " to %" PRId64, option,
                text, min, max);
}

static bool parse_bytes(const char *option, const char *text, int64_t max, uint64_t *bytes, struct failure *f)
{
    int64_t number;
    if (!parse_number(option, text, 0, max, &number, f))
        return false;
    *bytes = (uint64_t)number;
    return true;
}

static bool parse_seconds(struct settings *s, const char *text, struct failure *f)
{
    char *end;
    s->seconds = strtod(text, &end);
    if (end != text && *end == '\0' && s->seconds >= 0.01 && s->seconds <= 3600)
        return true;
    return fail(f, EXIT_USAGE, "--seconds: '%s' is not allowed; expected a number from 0.01 to 3600", text);
}

static bool parse_option(struct settings *s, int option, const char *text, struct failure *f)
{
    int choice = 0;
    switch (option) {
    case 'n':
        return parse_number("--memory-node", text, -1, 1023, &s->memory_node, f);
    case 'c':
        return parse_cpus(s, text, f);
    case 'b':
        return parse_bytes("--buffer", text, BUFFER_MAX, &s->buffer, f);
    case 'l':
        return parse_bytes("--cache", text, CACHE_MAX, &s->cache, f);
    case 's':
        return parse_seconds(s, text, f);
    case 'p':
        if (!parse_choice("--pattern", text, pattern_names, &choice, f))
            return false;
        s->pattern = (enum pattern)choice;
        return true;
    case 'g':
        if (!parse_choice("--huge-pages", text, huge_page_names, &choice, f))
            return false;
        s->huge_pages = (enum huge_pages)choice;
        return true;
    case 'a':
        s->allow_cached = true;
        return true;
    case 'h':
        s->help = true;
        return true;
    case 'v':
        s->version = true;
        return true;
    default:
        return fail(f, EXIT_USAGE, "unknown option or missing value; see --help");
    }
}

static bool parse_arguments(struct settings *s, int argc, char **argv, struct failure *f)
{
    static const struct option options[] = {
        {"memory-node", required_argument, NULL, 'n'},
        {"cpus", required_argument, NULL, 'c'},
        {"buffer", required_argument, NULL, 'b'},
        {"cache", required_argument, NULL, 'l'},
        {"seconds", required_argument, NULL, 's'},
        {"pattern", required_argument, NULL, 'p'},
        {"huge-pages", required_argument, NULL, 'g'},
        {"allow-cached", no_argument, NULL, 'a'},
        {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    int option;
    *s = (struct settings){.memory_node = -1, .cpus = {0}, .readers = 1, .seconds = 1, .pattern = PATTERN_ALL};
    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (!parse_option(s, option, optarg, f))
            return false;
    if (optind < argc)
        return fail(f, EXIT_USAGE, "unexpected argument '%s'; see --help", argv[optind]);
    return true;
}

/* ---------------------------------------------------------------------------------------------
 * Clock and caches
 */
static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t); /* cannot fail for the two clocks used here */
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* In front of all paths of the kernel's files. Tests have recorded trees there. */
static const char *files_root = "";

/* Opens a file of the kernel, whose path is a format; returns NULL if there is none. */
__attribute__((format(printf, 1, 2))) static FILE *open_file(const char *format, ...)
{
    char path[512];
    size_t used = (size_t)snprintf(path, sizeof path, "%s", files_root);
    if (used >= sizeof path)
        return NULL;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(path + used, sizeof path - used, format, arguments);
    va_end(arguments);
    return fopen(path, "r");
}

/* Reads the first number in a file and the character after it; returns false if there is none. */
static bool read_number(FILE *file, uint64_t *number, char *unit)
{
    if (file == NULL)
        return false;
    *unit = '\0';
    int found = fscanf(file, "%" SCNu64 "%c", number, unit);
    (void)fclose(file);
    return found >= 1;
}

/* Finds a CPU's largest cache: its bytes, 0 if the kernel does not report it, and the first CPU
 * that shares it, which tells caches apart. */
static uint64_t last_level_cache(int cpu, uint64_t *first_cpu)
{
    uint64_t largest = 0;
    *first_cpu = UINT64_MAX;
    for (int index = 0; index < 8; index++) {
        char unit;
        uint64_t size, first = UINT64_MAX;
        if (!read_number(open_file("/sys/devices/system/cpu/cpu%d/cache/index%d/size", cpu, index), &size, &unit))
            break;
        size <<= unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
        if (size < largest)
            continue;
        (void)read_number(open_file("/sys/devices/system/cpu/cpu%d/cache/index%d/shared_cpu_list", cpu, index), &first,
                          &unit);
        largest = size;
        *first_cpu = first;
    }
    return largest;
}

/* Returns the bytes of the last-level caches of these CPUs together; each cache counts once. On a
 * CPU with several of them, every reader has to exceed its own. */
static uint64_t cache_bytes(const int *cpus, size_t count)
{
    static uint64_t counted[MAX_READERS];
    uint64_t sum = 0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t first, bytes = last_level_cache(cpus[i], &first);
        size_t same = 0;
        while (same < known && counted[same] != first)
            same++;
        if (same < known)
            continue;
        counted[known++] = first;
        sum += bytes;
    }
    return sum;
}

/* Returns the value of a line such as "Node 1 MemFree:  123 kB" of a meminfo, in its unit; 0 if
 * there is no such line. */
static uint64_t meminfo_value(FILE *file, const char *name)
{
    char line[256];
    uint64_t value = 0;
    if (file == NULL)
        return 0;
    while (value == 0 && fgets(line, sizeof line, file) != NULL) {
        const char *found = strstr(line, name);
        if (found != NULL && (found == line || found[-1] == ' ') && found[strlen(name)] == ':')
            value = strtoull(found + strlen(name) + 1, NULL, 10);
    }
    (void)fclose(file);
    return value;
}

/* Returns how many bytes a buffer can take on a node, or without a node on the machine: what is
 * free, and page cache that is easily given up. */
static uint64_t free_bytes(int64_t node, enum huge_pages huge_pages)
{
    bool reserved = huge_pages == HUGE_RESERVED;
    if (reserved && node < 0)
        return meminfo_value(open_file("/proc/meminfo"), "HugePages_Free") *
                   meminfo_value(open_file("/proc/meminfo"), "Hugepagesize")
               << 10;
    if (node < 0)
        return meminfo_value(open_file("/proc/meminfo"), "MemAvailable") << 10;
    if (reserved)
        return meminfo_value(open_file("/sys/devices/system/node/node%d/meminfo", (int)node), "HugePages_Free") *
                   meminfo_value(open_file("/proc/meminfo"), "Hugepagesize")
               << 10;
    return (meminfo_value(open_file("/sys/devices/system/node/node%d/meminfo", (int)node), "MemFree") +
            meminfo_value(open_file("/sys/devices/system/node/node%d/meminfo", (int)node), "Inactive(file)"))
           << 10;
}

/* ---------------------------------------------------------------------------------------------
 * Buffer: one per reader
 */
struct buffer {
    uint64_t *words;
    size_t bytes, chunks;
    uint64_t *sums; /* expected sum of each chunk; NULL for a pointer chase */
    bool locked;
};

/* Returns the bytes of each reader's buffer: whole chunks, at least `total` for all readers. */
static size_t reader_bytes(uint64_t total, size_t readers)
{
    uint64_t step = (uint64_t)readers * CHUNK_BYTES, chunks = (total + step - 1) / step;
    return (size_t)(chunks > 0 ? chunks : 1) * CHUNK_BYTES;
}

#define HUGE_BYTES ((size_t)2 << 20) /* on x86-64, and on ARM with 4 KiB pages */

/* What a buffer of this many bytes takes: whole chunks, or whole huge pages. */
static size_t mapped_bytes(size_t bytes, const struct settings *s)
{
    size_t unit = s->huge_pages == HUGE_NONE ? CHUNK_BYTES : HUGE_BYTES;
    return (bytes + unit - 1) / unit * unit;
}

static bool buffer_place(struct buffer *b, size_t bytes, const struct settings *s, struct failure *f)
{
    bool reserved = s->huge_pages == HUGE_RESERVED;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (reserved ? MAP_HUGETLB : 0);
    *b = (struct buffer){.bytes = mapped_bytes(bytes, s)};
    b->chunks = b->bytes / CHUNK_BYTES;
    void *memory = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        return fail(f, EXIT_IMPOSSIBLE, "cannot map %zu bytes%s: %s", b->bytes,
                    reserved ? " of reserved huge pages (see vm.nr_hugepages)" : "", strerror(errno));
    b->words = memory;
    bool transparent = s->huge_pages == HUGE_TRANSPARENT;
    if (!reserved && madvise(memory, b->bytes, transparent ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0 &&
        (errno != EINVAL || transparent)) /* a kernel without huge pages rejects both */
        return fail(f, EXIT_IMPOSSIBLE, "cannot set the page size: %s", strerror(errno));
    if (s->memory_node >= 0) {
        struct bitmask *nodes = numa_allocate_nodemask();
        (void)numa_bitmask_setbit(nodes, (unsigned)s->memory_node);
        long bound = mbind(memory, b->bytes, MPOL_BIND, nodes->maskp, nodes->size + 1, MPOL_MF_STRICT);
        int problem = errno;
        numa_bitmask_free(nodes);
        if (bound != 0)
            return fail(f, EXIT_IMPOSSIBLE, "cannot place memory on node %" PRId64 ": %s", s->memory_node,
                        strerror(problem));
    }
    return true;
}

static void buffer_release(struct buffer *b)
{
    free(b->sums);
    if (b->words != NULL)
        (void)munmap(b->words, b->bytes);
    *b = (struct buffer){0};
}

/* splitmix64 of a counter: the compiler cannot compute the sums in advance, and compressed memory
 * (zswap, zram) cannot shrink the data. */
static inline uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Writes every word and computes the sum that this pattern's kernel must get for each chunk. */
static bool buffer_fill(struct buffer *b, enum pattern pattern)
{
    b->sums = calloc(b->chunks, sizeof *b->sums);
    if (b->sums == NULL)
        return false;
    for (size_t chunk = 0; chunk < b->chunks; chunk++) {
        uint64_t *words = b->words + chunk * CHUNK_WORDS;
        for (size_t i = 0; i < CHUNK_WORDS; i++) {
            words[i] = mixed(chunk * CHUNK_WORDS + i);
            if (pattern == PATTERN_ALL || i % LINE_WORDS == 0)
                b->sums[chunk] += words[i];
        }
    }
    return true;
}

/* Links all lines into one random cycle (Sattolo's algorithm): the first word of each line is the
 * address of the next line. */
static void buffer_link(struct buffer *b)
{
    size_t lines = b->bytes / LINE_BYTES;
    for (size_t i = 0; i < lines; i++)
        b->words[i * LINE_WORDS] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = (size_t)(mixed(i) % i);
        uint64_t kept = b->words[i * LINE_WORDS];
        b->words[i * LINE_WORDS] = b->words[j * LINE_WORDS];
        b->words[j * LINE_WORDS] = kept;
    }
    for (size_t i = 0; i < lines; i++)
        b->words[i * LINE_WORDS] = (uint64_t)(uintptr_t)(b->words + b->words[i * LINE_WORDS] * LINE_WORDS);
}

/* Checks the node of SAMPLED_PAGES evenly spaced pages. */
static bool buffer_is_on(const struct buffer *b, int64_t node, struct failure *f)
{
    void *pages[SAMPLED_PAGES];
    int nodes[SAMPLED_PAGES];
    size_t step = b->bytes / SAMPLED_PAGES;
    for (size_t i = 0; i < SAMPLED_PAGES; i++)
        pages[i] = (char *)b->words + i * step;
    if (numa_move_pages(0, SAMPLED_PAGES, pages, NULL, nodes, 0) != 0)
        return fail(f, EXIT_IMPOSSIBLE, "cannot query the nodes of pages: %s", strerror(errno));
    for (size_t i = 0; i < SAMPLED_PAGES; i++) {
        if (nodes[i] < 0)
            return fail(f, EXIT_IMPOSSIBLE, "cannot query the node of a page of the buffer: %s", strerror(-nodes[i]));
        if (nodes[i] != (int)node)
            return fail(f, EXIT_IMPOSSIBLE, "a page of the buffer is on node %d instead of node %" PRId64, nodes[i],
                        node);
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------
 * Kernels: sum one chunk, or follow a batch of pointers
 */
#define LANES 8

/* Reads one word of each line, which loads the whole line. */
static uint64_t sum_lines(const uint64_t *words)
{
    uint64_t sums[LANES] = {0}, sum = 0;
    for (size_t line = 0; line < CHUNK_LINES; line += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += words[(line + lane) * LINE_WORDS];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

static uint64_t sum_all_plain(const uint64_t *words)
{
    uint64_t sums[LANES] = {0}, sum = 0;
    for (size_t i = 0; i < CHUNK_WORDS; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            sums[lane] += words[i + lane];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += sums[lane];
    return sum;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t sum_all_avx2(const uint64_t *words)
{
    __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    uint64_t parts[4];
    for (size_t i = 0; i < CHUNK_WORDS; i += 16)
        for (size_t lane = 0; lane < 4; lane++) {
            const void *at = words + i + 4 * lane;
            sums[lane] = _mm256_add_epi64(sums[lane], _mm256_load_si256((const __m256i *)at));
        }
    _mm256_storeu_si256((__m256i *)(void *)parts,
                        _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3])));
    return parts[0] + parts[1] + parts[2] + parts[3];
}
#endif

struct kernel {
    const char *name;
    uint64_t (*sum)(const uint64_t *words); /* NULL for a pointer chase */
};

static struct kernel choose_kernel(enum pattern pattern)
{
    if (pattern == PATTERN_CHASE)
        return (struct kernel){"pointer chase", NULL};
    if (pattern == PATTERN_LINE)
        return (struct kernel){"plain C", sum_lines};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return (struct kernel){"AVX2", sum_all_avx2};
#endif
    return (struct kernel){"plain C", sum_all_plain};
}

/* Follows `steps` pointers and returns the last one. Each load needs the result of the previous
 * one. */
static const uint64_t *chase(const uint64_t *at, size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        at = (const uint64_t *)(uintptr_t)*at;
    return at;
}

/* ---------------------------------------------------------------------------------------------
 * Readers: one thread per CPU
 */
struct reader {
    pthread_t thread;
    int cpu;
    struct buffer buffer;
    uint64_t began, ended, reads; /* reads: chunks, or steps of a pointer chase */
    uint64_t faults, cpu_ns;      /* during the measurement */
    uint64_t wrong_chunks;
    const uint64_t *last; /* end of a pointer chase; stored so that the compiler keeps the chase */
    struct failure failure;
};

/* Shared by all readers. */
struct measurement {
    const struct settings *settings;
    struct kernel kernel;
    pthread_barrier_t start;
    struct reader readers[MAX_READERS];
};

struct reader_of {
    struct measurement *measurement;
    struct reader *reader;
};

static uint64_t thread_faults(void)
{
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_THREAD, &usage); /* cannot fail with these arguments */
    return (uint64_t)(usage.ru_minflt + usage.ru_majflt);
}

static bool pin_to(int cpu, struct failure *f)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) == 0)
        return true;
    return fail(f, EXIT_IMPOSSIBLE, "--cpus: cannot run on CPU %d: %s", cpu, strerror(errno));
}

static bool reader_prepare(struct reader *r, const struct settings *s)
{
    struct failure *f = &r->failure;
    if (!pin_to(r->cpu, f) || !buffer_place(&r->buffer, reader_bytes(s->buffer, s->readers), s, f))
        return false;
    if (s->pattern == PATTERN_CHASE)
        buffer_link(&r->buffer);
    else if (!buffer_fill(&r->buffer, s->pattern))
        return fail(f, EXIT_IMPOSSIBLE, "not enough memory");
    /* A buffer that is not locked may be swapped out; the count of page faults then shows it. */
    r->buffer.locked = mlock(r->buffer.words, r->buffer.bytes) == 0;
    return s->memory_node < 0 || buffer_is_on(&r->buffer, s->memory_node, f);
}

static void read_until(struct reader *r, const struct kernel *kernel, uint64_t end)
{
    const uint64_t *at = r->buffer.words;
    size_t chunk = 0;
    do {
        if (kernel->sum == NULL) {
            at = chase(at, CHASE_BATCH);
            r->reads += CHASE_BATCH;
        } else {
            uint64_t sum = kernel->sum(r->buffer.words + chunk * CHUNK_WORDS);
            r->wrong_chunks += sum != r->buffer.sums[chunk];
            chunk = chunk + 1 < r->buffer.chunks ? chunk + 1 : 0;
            r->reads++;
        }
        r->ended = now_ns();
    } while (r->ended < end);
    r->last = at;
}

static void *reader_main(void *argument)
{
    struct reader_of *of = argument;
    struct reader *r = of->reader;
    bool ready = reader_prepare(r, of->measurement->settings);
    if (ready) {
        read_until(r, &of->measurement->kernel, 0); /* faults in the code that measures */
        r->reads = 0;
    }
    (void)pthread_barrier_wait(&of->measurement->start);
    if (!ready)
        return NULL;
    uint64_t duration = (uint64_t)(of->measurement->settings->seconds * 1e9);
    uint64_t before = thread_faults(), cpu_before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    r->began = now_ns();
    read_until(r, &of->measurement->kernel, r->began + duration);
    r->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
    r->faults = thread_faults() - before;
    return NULL;
}

/* Runs all readers until they finish; reports the failure of the first one that failed. */
static bool measure(struct measurement *m, struct failure *f)
{
    static struct reader_of of[MAX_READERS];
    size_t readers = m->settings->readers;
    if (pthread_barrier_init(&m->start, NULL, (unsigned)readers) != 0)
        return fail(f, EXIT_IMPOSSIBLE, "cannot create a barrier for %zu readers", readers);
    for (size_t i = 0; i < readers; i++) {
        m->readers[i].cpu = m->settings->cpus[i];
        of[i] = (struct reader_of){m, &m->readers[i]};
        int problem = pthread_create(&m->readers[i].thread, NULL, reader_main, &of[i]);
        if (problem != 0) /* threads that did start wait at the barrier until the process exits */
            return fail(f, EXIT_IMPOSSIBLE, "cannot start %zu readers: %s", readers, strerror(problem));
    }
    for (size_t i = 0; i < readers; i++)
        (void)pthread_join(m->readers[i].thread, NULL);
    (void)pthread_barrier_destroy(&m->start);
    for (size_t i = 0; i < readers; i++) {
        const struct reader *r = &m->readers[i];
        if (r->failure.exit_code != EXIT_OK)
            return fail(f, r->failure.exit_code, "%s", r->failure.message);
        if (r->wrong_chunks > 0)
            return fail(f, EXIT_WRONG_SUM,
                        "the reader on CPU %d got a wrong sum for %" PRIu64 " chunks; the memory may be faulty", r->cpu,
                        r->wrong_chunks);
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------
 * Report
 */
struct totals {
    double bytes_per_second; /* added up over the readers, each over its own time */
    double ns_per_read;      /* of a pointer chase: mean of the readers */
    uint64_t bytes, faults, buffer;
    double seconds;   /* of the reader that took longest */
    double overlap;   /* share of the time in which all readers were running */
    double cpu_share; /* lowest share of its CPU that a reader got; below 1: another task ran */
    bool locked;
};

static struct totals sum_up(const struct measurement *m)
{
    struct totals t = {.locked = true, .cpu_share = 1};
    size_t readers = m->settings->readers;
    uint64_t first = UINT64_MAX, last = 0, latest_start = 0, earliest_end = UINT64_MAX;
    for (size_t i = 0; i < readers; i++) {
        const struct reader *r = &m->readers[i];
        double seconds = (double)(r->ended - r->began) / 1e9;
        uint64_t bytes = r->reads * (m->kernel.sum == NULL ? LINE_BYTES : CHUNK_BYTES);
        t.bytes += bytes;
        t.bytes_per_second += (double)bytes / seconds;
        t.ns_per_read += seconds * 1e9 / (double)r->reads / (double)readers;
        double cpu_share = (double)r->cpu_ns / (double)(r->ended - r->began);
        t.cpu_share = cpu_share < t.cpu_share ? cpu_share : t.cpu_share;
        t.faults += r->faults;
        t.buffer += r->buffer.bytes;
        t.locked = t.locked && r->buffer.locked;
        t.seconds = seconds > t.seconds ? seconds : t.seconds;
        first = r->began < first ? r->began : first;
        last = r->ended > last ? r->ended : last;
        latest_start = r->began > latest_start ? r->began : latest_start;
        earliest_end = r->ended < earliest_end ? r->ended : earliest_end;
    }
    if (earliest_end > latest_start)
        t.overlap = (double)(earliest_end - latest_start) / (double)(last - first);
    return t;
}

/* Returns the bytes of this process that are in huge pages, transparent and reserved. */
static uint64_t huge_bytes(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    uint64_t kilobytes, sum = 0;
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "AnonHugePages: %" SCNu64, &kilobytes) == 1 ||
            sscanf(line, "Private_Hugetlb: %" SCNu64, &kilobytes) == 1)
            sum += kilobytes << 10;
    (void)fclose(file);
    return sum;
}

static const char *compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

static void report(const struct measurement *m, uint64_t cache, bool numa)
{
    const struct settings *s = m->settings;
    struct totals t = sum_up(m);
    (void)printf("{\"schema\":1,"
                 "\"client\":{\"name\":\"membw\",\"version\":\"%s\",\"compiler\":\"%s\"},"
                 "\"numa\":%s,\"memory_node\":%" PRId64 ",\"pattern\":\"%s\",\"kernel\":\"%s\",\"cpus\":[",
                 MEMBW_VERSION, compiler(), numa ? "true" : "false", s->memory_node, pattern_names[s->pattern],
                 m->kernel.name);
    for (size_t i = 0; i < s->readers; i++)
        (void)printf("%s%d", i > 0 ? "," : "", s->cpus[i]);
    (void)printf("],\"seconds\":%.6f,\"overlap\":%.4f,\"cpu_share\":%.4f,\"bytes\":%" PRIu64
                 ",\"buffer_bytes\":%" PRIu64 ",\"cache_bytes\":%" PRIu64 ",\"cache_given\":%s"
                 ",\"huge_bytes\":%" PRIu64 ",\"page_faults\":%" PRIu64 ",\"memory_locked\":%s,",
                 t.seconds, t.overlap, t.cpu_share, t.bytes, t.buffer, cache, s->cache > 0 ? "true" : "false",
                 huge_bytes(), t.faults, t.locked ? "true" : "false");
    if (s->pattern == PATTERN_CHASE)
        (void)printf("\"bytes_per_second\":null,\"ns_per_read\":%.3f}\n", t.ns_per_read);
    else
        (void)printf("\"bytes_per_second\":%.0f,\"ns_per_read\":null}\n", t.bytes_per_second);
}

static void print_help(void)
{
    (void)puts("usage: membw [OPTIONS]\n\n"
               "Measures how fast CPUs read the memory of one NUMA node. Prints JSON.\n\n"
               "  --memory-node N     node to place the buffer on; -1: the kernel chooses (-1)\n"
               "  --cpus LIST         CPUs to read from, one reader on each (0)\n"
               "  --buffer BYTES      buffers of all readers together; 0: 16 times the cache, at\n"
               "                      least 256 MiB (0)\n"
               "  --cache BYTES       size of the readers' last-level caches to assume, together;\n"
               "                      0: what the kernel reports. The result marks a given size\n"
               "                      as cache_given (0)\n"
               "  --seconds S         how long to read, 0.01 to 3600 (1)\n"
               "  --pattern NAME      all: every byte in sequence;\n"
               "                      line: one word of every 64-byte line in sequence;\n"
               "                      chase: every line in random order, where each line holds\n"
               "                      the address of the next (all)\n"
               "  --huge-pages NAME   none, transparent, or reserved (by vm.nr_hugepages) (none)\n"
               "  --allow-cached      accept a buffer of less than 16 times the cache\n"
               "  --version, --help\n\n"
               "Exit status: 0 success; 2 usage error; 3 not possible on this machine; 4 memory\n"
               "did not hold what was written; 6 the result could not be written.");
}

/* ---------------------------------------------------------------------------------------------
 * Main
 */

/* Refuses a buffer that would leave a node without memory: the kernel would end processes there,
 * as a buffer that is bound to a node cannot go elsewhere. */
static bool has_room(const struct settings *s, struct failure *f)
{
    uint64_t room = free_bytes(s->memory_node, s->huge_pages);
    bool reserved = s->huge_pages == HUGE_RESERVED;
    uint64_t reserve = reserved ? 0 : s->buffer / RESERVE_DIVISOR;
    /* Each reader has whole huge pages; one that is missing would end the program with SIGBUS. */
    uint64_t taken = reserved ? (uint64_t)s->readers * mapped_bytes(reader_bytes(s->buffer, s->readers), s) : s->buffer;
    if (taken + reserve <= room)
        return true;
    char where[32] = "this machine";
    if (s->memory_node >= 0)
        (void)snprintf(where, sizeof where, "node %d", (int)s->memory_node);
    return fail(f, EXIT_IMPOSSIBLE,
                "--buffer: %" PRIu64 " bytes and a reserve of %" PRIu64 " must be free on %s, which has %" PRIu64
                "; %s",
                s->buffer, reserve, where, room,
                reserved ? "reserve more huge pages there (see vm.nr_hugepages)" : "free some memory there");
}

/* Resolves the settings that depend on the machine; rejects those that are not possible on it. */
static bool resolve(struct settings *s, uint64_t *cache, bool *numa, struct failure *f)
{
    *numa = numa_available() >= 0;
    if (s->memory_node >= 0 && !*numa)
        return fail(f, EXIT_IMPOSSIBLE, "--memory-node: this kernel does not support NUMA; use -1");
    if (s->memory_node >= 0 && numa_node_size64((int)s->memory_node, NULL) <= 0)
        return fail(f, EXIT_IMPOSSIBLE, "--memory-node: this machine has no node %" PRId64 " with memory",
                    s->memory_node);
    *cache = s->cache > 0 ? s->cache : cache_bytes(s->cpus, s->readers);
    uint64_t needed = *cache * CACHE_MULTIPLE;
    if (s->buffer == 0)
        s->buffer = needed > BUFFER_MIN ? needed : BUFFER_MIN;
    if (s->buffer < needed && !s->allow_cached)
        return fail(f, EXIT_USAGE,
                    "--buffer: %" PRIu64 " is too small; a cache of %" PRIu64 " bytes requires at least %" PRIu64
                    " (or --allow-cached)",
                    s->buffer, *cache, needed);
    return has_room(s, f);
}

static int membw_main(int argc, char **argv)
{
    static struct measurement m;
    struct settings s;
    struct failure f = {0};
    uint64_t cache = 0;
    bool numa = false;
    if (!parse_arguments(&s, argc, argv, &f)) {
        (void)fprintf(stderr, "membw: %s\n", f.message);
        return f.exit_code;
    }
    if (s.help) {
        print_help();
    } else if (s.version) {
        (void)printf("membw %s (%s)\n", MEMBW_VERSION, compiler());
    } else if (resolve(&s, &cache, &numa, &f)) {
        m = (struct measurement){.settings = &s, .kernel = choose_kernel(s.pattern)};
        if (measure(&m, &f))
            report(&m, cache, numa);
        for (size_t i = 0; i < s.readers && f.exit_code != EXIT_IMPOSSIBLE; i++)
            buffer_release(&m.readers[i].buffer);
    }
    if (f.exit_code != EXIT_OK)
        (void)fprintf(stderr, "membw: %s\n", f.message);
    else if (fflush(stdout) != 0 || ferror(stdout)) {
        (void)fprintf(stderr, "membw: cannot write the result: %s\n", strerror(errno));
        return EXIT_OUTPUT;
    }
    return f.exit_code;
}

#ifndef MEMBW_NO_MAIN
int main(int argc, char **argv)
{
    return membw_main(argc, argv);
}
#endif
