/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests of the parts of membw. Each test is a function; main() lists them. A comment names the
 * faults in membw.c that the test detects. No test depends on speed or on the size of a cache. */
#define _XOPEN_SOURCE 700 /* nftw */
#define MEMBW_NO_MAIN
#include "../../../../files/membw.c"
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <valgrind/valgrind.h>

static int failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            failures++;                                                                                                \
            (void)fprintf(stderr, "FAILED %s, line %d: %s\n", __func__, __LINE__, #condition);                         \
        }                                                                                                              \
    } while (0)

static const struct settings plain = {.memory_node = -1, .readers = 1, .seconds = 0.02};

static struct buffer place(size_t bytes)
{
    struct buffer b;
    struct failure f = {0};
    CHECK(buffer_place(&b, bytes, &plain, &f));
    return b;
}

/* ---- options ---- */

static bool parsed(struct settings *s, const char *option, const char *value)
{
    char program[] = "membw", first[64], second[64];
    char *argv[] = {program, first, second, NULL};
    struct failure f = {0};
    (void)snprintf(first, sizeof first, "%s", option);
    (void)snprintf(second, sizeof second, "%s", value);
    bool good = parse_arguments(s, 3, argv, &f);
    CHECK(good == (f.exit_code == EXIT_OK));
    CHECK(good || strstr(f.message, value) != NULL); /* an error message quotes the value */
    return good;
}

static void test_options_are_limited_to_their_range(void)
{
    struct settings s;
    CHECK(parsed(&s, "--cpus", "0,2,11") && s.readers == 3 && s.cpus[2] == 11);
    CHECK(!parsed(&s, "--cpus", "0,2,0"));
    CHECK(!parsed(&s, "--cpus", "0,"));
    CHECK(!parsed(&s, "--cpus", "-1"));
    CHECK(!parsed(&s, "--cpus", "1024"));
    CHECK(!parsed(&s, "--cpus", "x"));
    CHECK(parsed(&s, "--memory-node", "-1") && s.memory_node == -1);
    CHECK(!parsed(&s, "--memory-node", "-2"));
    CHECK(!parsed(&s, "--memory-node", "0x"));
    CHECK(parsed(&s, "--buffer", "17592186044416") && s.buffer == UINT64_C(1) << 44);
    CHECK(!parsed(&s, "--buffer", "17592186044417"));
    CHECK(parsed(&s, "--cache", "0") && s.cache == 0);
    CHECK(parsed(&s, "--cache", "1") && s.cache == 1);
    CHECK(parsed(&s, "--cache", "1099511627776") && s.cache == UINT64_C(1) << 40);
    CHECK(!parsed(&s, "--cache", "1099511627777"));
    CHECK(!parsed(&s, "--cache", "-1"));
    CHECK(!parsed(&s, "--cache", "32M"));
    CHECK(!parsed(&s, "--cache", ""));
    CHECK(parsed(&s, "--seconds", "0.01"));
    CHECK(!parsed(&s, "--seconds", "0"));
    CHECK(!parsed(&s, "--seconds", "nan"));
    CHECK(!parsed(&s, "--seconds", "1e9"));
    CHECK(parsed(&s, "--pattern", "chase") && s.pattern == PATTERN_CHASE);
    CHECK(!parsed(&s, "--pattern", "random"));
    CHECK(parsed(&s, "--huge-pages", "reserved") && s.huge_pages == HUGE_RESERVED);
    CHECK(!parsed(&s, "--huge-pages", "yes"));
}

#define MIB (UINT64_C(1) << 20)

/* Resolves a --cache and a --buffer; returns the buffer's bytes, or 0 if it was rejected. */
static uint64_t resolved(uint64_t cache, uint64_t buffer, bool allow_cached)
{
    struct settings s = plain;
    struct failure f = {0};
    uint64_t used = 0;
    bool numa;
    s.cache = cache;
    s.buffer = buffer;
    s.allow_cached = allow_cached;
    if (resolve(&s, &used, &numa, &f)) {
        CHECK(used == (cache > 0 ? cache : cache_bytes(s.cpus, 1)));
        return s.buffer;
    }
    CHECK(f.exit_code == EXIT_USAGE && strstr(f.message, "is too small") != NULL);
    return 0;
}

/* ---- recorded machines ---- */

static char machine[64];

/* Writes a file below the directory of the recorded machine; makes the directories above it. */
__attribute__((format(printf, 2, 3))) static void record(const char *text, const char *format, ...)
{
    char path[512];
    size_t used = (size_t)snprintf(path, sizeof path, "%s", machine);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(path + used, sizeof path - used, format, arguments);
    va_end(arguments);
    for (char *slash = path + used + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    if (file != NULL) {
        (void)fputs(text, file);
        (void)fclose(file);
    }
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static void begin_machine(void)
{
    (void)snprintf(machine, sizeof machine, "/tmp/membw-machine-XXXXXX");
    CHECK(mkdtemp(machine) != NULL);
    files_root = machine;
}

static void end_machine(void)
{
    files_root = "";
    CHECK(nftw(machine, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

/* Records the caches of a CPU: 32 KiB and 512 KiB of its own, and one that is shared. */
static void record_caches(int cpu, const char *size, const char *shared)
{
    char own[32];
    (void)snprintf(own, sizeof own, "%d\n", cpu);
    record("32K\n", "/sys/devices/system/cpu/cpu%d/cache/index0/size", cpu);
    record(own, "/sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list", cpu);
    record("512K\n", "/sys/devices/system/cpu/cpu%d/cache/index1/size", cpu);
    record(own, "/sys/devices/system/cpu/cpu%d/cache/index1/shared_cpu_list", cpu);
    record(size, "/sys/devices/system/cpu/cpu%d/cache/index2/size", cpu);
    record(shared, "/sys/devices/system/cpu/cpu%d/cache/index2/shared_cpu_list", cpu);
}

/* Two sockets of 64 CPUs each, with a last-level cache of 32 MiB for every 8 CPUs, as on an EPYC.
 * Detects: the largest cache instead of the sum; a cache that counts once for each of its CPUs;
 * caches of CPUs that no reader is on. */
static void test_each_last_level_cache_of_the_readers_counts_once(void)
{
    int cpus[128], second_of_each[16];
    begin_machine();
    for (int cpu = 0; cpu < 128; cpu++) {
        char shared[32];
        (void)snprintf(shared, sizeof shared, "%d-%d\n", cpu / 8 * 8, cpu / 8 * 8 + 7);
        record_caches(cpu, "32768K\n", shared);
        cpus[cpu] = cpu;
        second_of_each[cpu / 8] = cpu / 8 * 8 + 1;
    }
    CHECK(cache_bytes(cpus, 1) == 32 * MIB);
    CHECK(cache_bytes(cpus, 8) == 32 * MIB);
    CHECK(cache_bytes(cpus, 9) == 64 * MIB);
    CHECK(cache_bytes(cpus, 128) == 512 * MIB);
    CHECK(cache_bytes(second_of_each, 16) == 512 * MIB);
    CHECK(cache_bytes(cpus + 64, 64) == 256 * MIB);
    /* Each reader's part of the buffer is 16 times its part of the caches. */
    CHECK(reader_bytes(16 * cache_bytes(cpus, 128), 128) == 64 * MIB);
    end_machine();
}

/* Detects: one cache that is taken for several, on a machine without shared_cpu_list. */
static void test_a_machine_that_does_not_report_who_shares_has_one_cache(void)
{
    static const int cpus[] = {0, 1};
    begin_machine();
    for (int cpu = 0; cpu < 2; cpu++)
        record("33M\n", "/sys/devices/system/cpu/cpu%d/cache/index0/size", cpu);
    CHECK(cache_bytes(cpus, 2) == 33 * MIB);
    end_machine();
}

static bool room_for_readers(size_t readers, int64_t node, uint64_t buffer, enum huge_pages huge_pages)
{
    struct settings s = plain;
    s.readers = readers;
    struct failure f = {0};
    s.memory_node = node;
    s.buffer = buffer;
    s.huge_pages = huge_pages;
    bool good = has_room(&s, &f);
    CHECK(good || f.exit_code == EXIT_IMPOSSIBLE);
    CHECK(good || node < 0 || strstr(f.message, "must be free on node 1, which has") != NULL);
    return good;
}

static bool room_for(int64_t node, uint64_t buffer, enum huge_pages huge_pages)
{
    return room_for_readers(1, node, buffer, huge_pages);
}

/* Node 0 has 60 GiB free, node 1 has 24 GiB and 8 GiB of page cache. Detects: a check of the
 * machine or of another node; no reserve; "Inactive:" or "HugePages_Free" of another line. */
static void test_the_node_must_have_room_and_a_reserve(void)
{
    begin_machine();
    record("MemAvailable:   94371840 kB\nHugePages_Free:     12\nHugepagesize:  2048 kB\n", "/proc/meminfo");
    record("Node 0 MemFree: 62914560 kB\nNode 0 Inactive(file): 0 kB\n", "/sys/devices/system/node/node0/meminfo");
    record("Node 1 MemTotal: 33554432 kB\nNode 1 MemFree: 25165824 kB\n"
           "Node 1 Inactive: 9999999 kB\nNode 1 Inactive(file): 8388608 kB\n"
           "Node 1 HugePages_Total: 9\nNode 1 HugePages_Free: 5\n",
           "/sys/devices/system/node/node1/meminfo");
    uint64_t most = (UINT64_C(32) << 30) / 5 * 4; /* of 32 GiB, with a quarter of itself */
    CHECK(room_for(1, most - 16, HUGE_NONE) && !room_for(1, most + 16, HUGE_NONE));
    CHECK(!room_for(1, UINT64_C(64) << 30, HUGE_TRANSPARENT));
    CHECK(room_for(0, UINT64_C(48) << 30, HUGE_NONE) && room_for(-1, UINT64_C(72) << 30, HUGE_NONE));
    CHECK(!room_for(-1, UINT64_C(73) << 30, HUGE_NONE));
    CHECK(room_for(1, 10 * MIB, HUGE_RESERVED) && !room_for(1, 12 * MIB, HUGE_RESERVED));
    /* 4 readers with 3 MiB each need 4 MiB each. */
    CHECK(!room_for_readers(4, 1, 9 * MIB, HUGE_RESERVED) && room_for_readers(2, 1, 7 * MIB, HUGE_RESERVED));
    CHECK(room_for(-1, 24 * MIB, HUGE_RESERVED) && !room_for(-1, 26 * MIB, HUGE_RESERVED));
    end_machine();
}

/* Detects: a multiple other than 16; `<=` in place of `<`; a given cache that is ignored, or used
 * only if it is larger or smaller than the one that the kernel reports; no minimum of 256 MiB. */
static void test_the_buffer_is_at_least_16_times_the_cache(void)
{
    begin_machine();
    record("MemAvailable: 34359738368 kB\n", "/proc/meminfo");
    CHECK(resolved(4096 * MIB, 65536 * MIB, false) == 65536 * MIB);
    CHECK(resolved(CACHE_MAX, 0, false) == BUFFER_MAX);
    CHECK(resolved(0, BUFFER_MAX, false) == BUFFER_MAX);
    end_machine();
    CHECK(resolved(1 * MIB, 16 * MIB, false) == 16 * MIB);
    CHECK(resolved(1 * MIB, 16 * MIB - 1, false) == 0);
    CHECK(resolved(1 * MIB, 16 * MIB - 1, true) == 16 * MIB - 1);
    CHECK(resolved(4096 * MIB, 65536 * MIB - 1, false) == 0);
    CHECK(resolved(1, 0, false) == 256 * MIB);
    CHECK(resolved(16 * MIB, 0, false) == 256 * MIB);
    CHECK(resolved(16 * MIB + 1, 0, false) == 256 * MIB + 16);
    CHECK(cache_bytes(plain.cpus, 1) == 0 || resolved(0, 1, false) == 0);
}

/* Detects: a buffer of less than `total`, or a chunk that is shared by two readers. */
static void test_readers_share_the_buffer_in_whole_chunks(void)
{
    CHECK(reader_bytes(0, 1) == CHUNK_BYTES);
    CHECK(reader_bytes(CHUNK_BYTES, 1) == CHUNK_BYTES);
    CHECK(reader_bytes(CHUNK_BYTES + 1, 1) == 2 * CHUNK_BYTES);
    CHECK(reader_bytes(10 * (uint64_t)CHUNK_BYTES, 4) == 3 * CHUNK_BYTES);
}

/* ---- kernels ---- */

static uint64_t reference_sum(const uint64_t *words, size_t step)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < CHUNK_WORDS; i += step)
        sum += words[i];
    return sum;
}

/* Detects: a kernel that skips every second line or adds a line twice, even if the fill computes
 * the same wrong sum. */
static void test_kernels_sum_every_word_or_line(void)
{
    struct buffer b = place(CHUNK_BYTES);
    CHECK(buffer_fill(&b, PATTERN_ALL));
    CHECK(sum_all_plain(b.words) == reference_sum(b.words, 1));
    CHECK(choose_kernel(PATTERN_ALL).sum(b.words) == reference_sum(b.words, 1));
    CHECK(sum_lines(b.words) == reference_sum(b.words, LINE_WORDS));
    CHECK(b.sums[0] == reference_sum(b.words, 1));
    buffer_release(&b);
    b = place(CHUNK_BYTES);
    CHECK(buffer_fill(&b, PATTERN_LINE));
    CHECK(b.sums[0] == reference_sum(b.words, LINE_WORDS));
    buffer_release(&b);
}

/* Detects: a fill that writes nothing, or the same in each chunk, in each line or in each word. */
static void test_the_fill_does_not_repeat(void)
{
    struct buffer b = place(4 * CHUNK_BYTES);
    size_t repeated = 0;
    CHECK(buffer_fill(&b, PATTERN_ALL));
    for (size_t i = CHUNK_WORDS; i < 4 * CHUNK_WORDS; i++)
        repeated += b.words[i] == b.words[i - 1] || b.words[i] == b.words[i - LINE_WORDS] ||
                    b.words[i] == b.words[i - CHUNK_WORDS];
    CHECK(repeated == 0);
    buffer_release(&b);
}

/* Detects: a kernel, or a compiler's translation of it, that does not read a word: then a change
 * of that word cannot change the sum. */
static void test_each_word_changes_the_sum(void)
{
    struct buffer b = place(CHUNK_BYTES);
    CHECK(buffer_fill(&b, PATTERN_ALL));
    uint64_t (*const sum)(const uint64_t *) = choose_kernel(PATTERN_ALL).sum;
    for (size_t i = 0; i < CHUNK_WORDS; i += 997) {
        b.words[i]++;
        CHECK(sum(b.words) != b.sums[0]);
        CHECK(sum_all_plain(b.words) != b.sums[0]);
        b.words[i]--;
    }
    CHECK(sum(b.words) == b.sums[0]);
    uint64_t of_lines = sum_lines(b.words);
    for (size_t i = 0; i < CHUNK_WORDS; i += 997) {
        b.words[i]++;
        CHECK((sum_lines(b.words) != of_lines) == (i % LINE_WORDS == 0));
        b.words[i]--;
    }
    buffer_release(&b);
}

/* Detects: a chase over part of the buffer, in several cycles, in order, in random order within
 * blocks that a cache can hold, or with fewer loads than steps. */
static void test_a_chase_visits_every_line_once_in_random_order(void)
{
    struct buffer b = place(CHUNK_BYTES);
    size_t lines = b.bytes / LINE_BYTES, visited = 0, neighbours = 0, distance = 0;
    bool *seen = calloc(lines, sizeof *seen);
    CHECK(seen != NULL);
    buffer_link(&b);
    const uint64_t *at = b.words;
    for (size_t i = 0; seen != NULL && i < lines; i++) {
        size_t line = (size_t)(at - b.words) / LINE_WORDS;
        CHECK(line < lines && (size_t)(at - b.words) % LINE_WORDS == 0);
        visited += !seen[line];
        seen[line] = true;
        const uint64_t *next = chase(at, 1);
        neighbours += next == at + LINE_WORDS;
        distance += (size_t)(next > at ? next - at : at - next) / LINE_WORDS;
        at = next;
    }
    CHECK(visited == lines);
    CHECK(at == b.words);                /* one cycle */
    CHECK(neighbours < lines / 100);     /* no sequence that a prefetcher could follow */
    CHECK(distance / lines > lines / 4); /* a third of the buffer is the mean of random steps */
    CHECK(chase(b.words, lines) == b.words && chase(b.words, lines + 3) == chase(b.words, 3));
    free(seen);
    buffer_release(&b);
}

/* ---- the order of reads ---- */

/* Only one block of a watched buffer can be read at a time. A read of another block causes a
 * SIGSEGV, whose handler records that block and makes it the readable one. */
static struct {
    char *begin, *readable;
    size_t block_bytes, blocks, visits;
    bool in_order; /* from the first block to the last, and again from the first */
    bool seen[4 * CHUNK_BYTES / 4096];
    struct sigaction before;
} watch;

#define MAX_VISITS ((size_t)1 << 20) /* ends a test whose reads alternate between two blocks */

static void block_was_read(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    size_t block = (size_t)((char *)info->si_addr - watch.begin) / watch.block_bytes;
    if ((char *)info->si_addr < watch.begin || block >= watch.blocks) {
        (void)sigaction(SIGSEGV, &watch.before, NULL); /* not a watched read: crash */
        return;
    }
    watch.in_order = watch.in_order && block == watch.visits % watch.blocks;
    watch.seen[block] = true;
    if (++watch.visits > MAX_VISITS) {
        (void)mprotect(watch.begin, watch.blocks * watch.block_bytes, PROT_READ);
        return;
    }
    if (watch.readable != NULL)
        (void)mprotect(watch.readable, watch.block_bytes, PROT_NONE);
    watch.readable = watch.begin + block * watch.block_bytes;
    (void)mprotect(watch.readable, watch.block_bytes, PROT_READ);
}

static void start_watching(const struct buffer *b, size_t block_bytes)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = block_was_read;
    memset(&watch, 0, sizeof watch);
    watch.begin = (char *)b->words;
    watch.block_bytes = block_bytes;
    watch.blocks = b->bytes / block_bytes;
    watch.in_order = true;
    CHECK(watch.blocks <= sizeof watch.seen / sizeof watch.seen[0]);
    CHECK(sigaction(SIGSEGV, &action, &watch.before) == 0);
    CHECK(mprotect(watch.begin, b->bytes, PROT_NONE) == 0);
}

/* Returns how many blocks were read. */
static size_t stop_watching(const struct buffer *b)
{
    size_t seen = 0;
    CHECK(mprotect(watch.begin, b->bytes, PROT_READ | PROT_WRITE) == 0);
    CHECK(sigaction(SIGSEGV, &watch.before, NULL) == 0);
    for (size_t block = 0; block < watch.blocks; block++)
        seen += watch.seen[block];
    return seen;
}

/* Makes the compiler assume that other code reads and writes the reader here. In membw another
 * thread does. */
static void share(struct reader *r)
{
    __asm__ volatile("" : : "r"(r) : "memory");
}

/* Reads until at least `reads` reads were made in one call of read_until(). */
static void read_at_least(struct reader *r, const struct kernel *kernel, uint64_t reads)
{
    uint64_t duration = 10000000;
    do {
        r->reads = r->wrong_chunks = watch.visits = 0;
        share(r);
        read_until(r, kernel, now_ns() + duration);
        share(r);
        duration *= 2;
    } while (r->reads < reads);
}

/* Detects: a pass that reads half of the buffer, skips a block or a chunk, reads a chunk again
 * before the others or goes back to a block (cache-blocked order), or starts over early; a count
 * of reads that differs from what was read; reads that the compiler removed. Compilers change the
 * order within some pages, so a block is 64 KiB. */
static void test_a_pass_reads_every_block_once_from_start_to_end(void)
{
    const struct kernel kernels[] = {
        choose_kernel(PATTERN_ALL), choose_kernel(PATTERN_LINE), {"plain C", sum_all_plain}};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        struct reader r = {.buffer = place(3 * CHUNK_BYTES)};
        CHECK(buffer_fill(&r.buffer, kernels[i].sum == sum_lines ? PATTERN_LINE : PATTERN_ALL));
        start_watching(&r.buffer, 65536);
        read_at_least(&r, &kernels[i], 2 * 3);
        CHECK(stop_watching(&r.buffer) == watch.blocks);
        CHECK(watch.in_order);
        CHECK(watch.visits * watch.block_bytes == r.reads * CHUNK_BYTES);
        CHECK(r.wrong_chunks == 0);
        buffer_release(&r.buffer);
    }
}

/* Detects: a chase that does not load the lines in their order, or counts more steps than it
 * makes; lines that are linked in order or in blocks. In a buffer of N pages, one step in N is to
 * stay on its page. */
static void test_nearly_every_step_of_a_chase_leaves_the_page(void)
{
    const struct kernel kernel = choose_kernel(PATTERN_CHASE);
    struct reader r = {.buffer = place(CHUNK_BYTES)};
    buffer_link(&r.buffer);
    start_watching(&r.buffer, (size_t)sysconf(_SC_PAGESIZE));
    read_at_least(&r, &kernel, CHUNK_LINES);
    CHECK(stop_watching(&r.buffer) == watch.blocks);
    CHECK(watch.visits <= r.reads && watch.visits >= r.reads - 2 * r.reads / watch.blocks);
    buffer_release(&r.buffer);
}

/* ---- readers ---- */

static struct measurement m;

static bool measured(const struct settings *s, struct failure *f)
{
    *f = (struct failure){0};
    m = (struct measurement){.settings = s, .kernel = choose_kernel(s->pattern)};
    bool good = measure(&m, f);
    for (size_t i = 0; i < s->readers; i++)
        buffer_release(&m.readers[i].buffer);
    return good;
}

/* Detects: a sum that is not compared with the expected one. */
static void test_a_wrong_word_is_counted_in_each_pass(void)
{
    struct reader r = {0};
    struct kernel kernel = choose_kernel(PATTERN_LINE);
    r.buffer = place(4 * CHUNK_BYTES);
    CHECK(buffer_fill(&r.buffer, PATTERN_LINE));
    read_at_least(&r, &kernel, 2 * 4);
    CHECK(r.wrong_chunks == 0);
    r.buffer.words[2 * CHUNK_WORDS] ^= 1;
    read_at_least(&r, &kernel, 2 * 4);
    CHECK(r.wrong_chunks == (r.reads + 1) / 4); /* once per pass, in the third chunk */
    buffer_release(&r.buffer);
}

/* Detects: a buffer that is not written before the measurement; uncounted page faults. */
static void test_page_faults_are_counted(void)
{
    struct settings s = plain;
    struct failure f;
    struct reader r = {0};
    struct kernel kernel = choose_kernel(PATTERN_LINE);
    s.buffer = 8 * CHUNK_BYTES;
    CHECK(measured(&s, &f));
    CHECK(m.readers[0].faults == 0 || RUNNING_ON_VALGRIND); /* valgrind itself causes page faults */
    /* The first accesses to the pages of another buffer show that the counter works. */
    r.buffer = place(8 * CHUNK_BYTES);
    r.buffer.sums = calloc(r.buffer.chunks, sizeof *r.buffer.sums);
    CHECK(r.buffer.sums != NULL);
    uint64_t before = thread_faults();
    read_at_least(&r, &kernel, 8);
    CHECK(thread_faults() - before >= 8);
    buffer_release(&r.buffer);
}

static void test_totals(void)
{
    static const struct settings two = {.readers = 2};
    m = (struct measurement){.settings = &two, .kernel = choose_kernel(PATTERN_LINE)};
    m.readers[0] = (struct reader){.ended = 1000000000, .reads = 1000, .cpu_ns = 500000000};
    m.readers[1] =
        (struct reader){.began = 100000000, .ended = 600000000, .reads = 500, .faults = 2, .cpu_ns = 500000000};
    struct totals t = sum_up(&m);
    CHECK(t.bytes == UINT64_C(1500) * CHUNK_BYTES);
    CHECK(t.bytes_per_second > 1999.9 * CHUNK_BYTES && t.bytes_per_second < 2000.1 * CHUNK_BYTES);
    CHECK(t.overlap > 0.4999 && t.overlap < 0.5001);
    CHECK(t.faults == 2 && t.cpu_share > 0.4999 && t.cpu_share < 0.5001);
}

static void test_impossible_settings_are_rejected(void)
{
    struct settings s = plain;
    struct failure f;
    s.cpus[0] = CPU_SETSIZE - 1;
    CHECK(!measured(&s, &f) && f.exit_code == EXIT_IMPOSSIBLE);
    CHECK(strstr(f.message, "CPU 1023") != NULL);
    struct failure g = {0};
    struct buffer b; /* larger than any address space */
    CHECK(!buffer_place(&b, (size_t)1 << 60, &plain, &g) && g.exit_code == EXIT_IMPOSSIBLE);
}

int main(void)
{
    test_options_are_limited_to_their_range();
    test_each_last_level_cache_of_the_readers_counts_once();
    test_a_machine_that_does_not_report_who_shares_has_one_cache();
    test_the_node_must_have_room_and_a_reserve();
    test_the_buffer_is_at_least_16_times_the_cache();
    test_readers_share_the_buffer_in_whole_chunks();
    test_kernels_sum_every_word_or_line();
    test_the_fill_does_not_repeat();
    test_each_word_changes_the_sum();
    test_a_chase_visits_every_line_once_in_random_order();
    test_a_pass_reads_every_block_once_from_start_to_end();
    test_nearly_every_step_of_a_chase_leaves_the_page();
    test_a_wrong_word_is_counted_in_each_pass();
    test_page_faults_are_counted();
    test_totals();
    test_impossible_settings_are_rejected();
    (void)membw_main; /* used by main() of the program only */
    if (failures == 0)
        (void)puts("all tests passed");
    return failures != 0;
}
