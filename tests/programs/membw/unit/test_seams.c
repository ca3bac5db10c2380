/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests of membw's seams. Every test is a function; main() lists them. */
#define MEMBW_NO_MAIN
#include "../../../../files/membw.c"
#include <valgrind/valgrind.h>

static int failures;

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            failures++;                                                                              \
            (void)fprintf(stderr, "FAILED %s, line %d: %s\n", __func__, __LINE__, #condition);       \
        }                                                                                            \
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
    CHECK(good || strstr(f.message, value) != NULL); /* a refusal names the value */
    return good;
}

static void test_options_take_their_range_only(void)
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
    CHECK(parsed(&s, "--seconds", "0.01"));
    CHECK(!parsed(&s, "--seconds", "0"));
    CHECK(!parsed(&s, "--seconds", "nan"));
    CHECK(!parsed(&s, "--seconds", "1e9"));
    CHECK(parsed(&s, "--pattern", "chase") && s.pattern == PATTERN_CHASE);
    CHECK(!parsed(&s, "--pattern", "random"));
    CHECK(parsed(&s, "--huge-pages", "reserved") && s.huge_pages == HUGE_RESERVED);
    CHECK(!parsed(&s, "--huge-pages", "yes"));
}

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

static void test_kernels_sum_what_they_say(void)
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

/* Each word counts: a change of any single one is noticed, so none can go unread. */
static void test_no_word_goes_unread(void)
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

static void test_chase_visits_every_line_once(void)
{
    struct buffer b = place(CHUNK_BYTES);
    size_t lines = b.bytes / LINE_BYTES, visited = 0, neighbours = 0;
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
        at = next;
    }
    CHECK(visited == lines);
    CHECK(at == b.words);              /* one cycle, and no shorter one */
    CHECK(neighbours < lines / 100);   /* nothing that a prefetcher could follow */
    CHECK(chase(b.words, lines) == b.words && chase(b.words, lines + 3) == chase(b.words, 3));
    free(seen);
    buffer_release(&b);
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

static void test_a_wrong_word_fails_the_measurement(void)
{
    struct reader r = {0};
    struct kernel kernel = choose_kernel(PATTERN_LINE);
    r.buffer = place(4 * CHUNK_BYTES);
    CHECK(buffer_fill(&r.buffer, PATTERN_LINE));
    read_until(&r, &kernel, now_ns() + 20000000);
    CHECK(r.wrong_chunks == 0 && r.reads > 0);
    r.buffer.words[2 * CHUNK_WORDS] ^= 1;
    r.reads = 0;
    while (r.reads < 4)
        read_until(&r, &kernel, now_ns() + 20000000);
    CHECK(r.wrong_chunks > 0);
    buffer_release(&r.buffer);
}

static void test_faults_are_counted_where_there_are_any(void)
{
    struct settings s = plain;
    struct failure f;
    struct reader r = {0};
    struct kernel kernel = choose_kernel(PATTERN_LINE);
    s.buffer = 8 * CHUNK_BYTES;
    CHECK(measured(&s, &f));
    CHECK(m.readers[0].faults == 0 || RUNNING_ON_VALGRIND); /* which has faults of its own */
    /* The same without the first touch, to see that the counter can count. */
    r.buffer = place(8 * CHUNK_BYTES);
    r.buffer.sums = calloc(r.buffer.chunks, sizeof *r.buffer.sums);
    CHECK(r.buffer.sums != NULL);
    uint64_t before = thread_faults();
    while (r.reads < 8)
        read_until(&r, &kernel, 0);
    CHECK(thread_faults() - before >= 8);
    buffer_release(&r.buffer);
}

static void test_totals(void)
{
    static const struct settings two = {.readers = 2};
    m = (struct measurement){.settings = &two, .kernel = choose_kernel(PATTERN_LINE)};
    m.readers[0] = (struct reader){.began = 0, .ended = 1000000000, .reads = 1000, .cpu_ns = 500000000};
    m.readers[1] = (struct reader){.began = 100000000, .ended = 600000000, .reads = 500, .faults = 2, .cpu_ns = 500000000};
    struct totals t = sum_up(&m);
    CHECK(t.bytes == UINT64_C(1500) * CHUNK_BYTES);
    CHECK(t.bytes_per_second > 1999.9 * CHUNK_BYTES && t.bytes_per_second < 2000.1 * CHUNK_BYTES);
    CHECK(t.overlap > 0.4999 && t.overlap < 0.5001);
    CHECK(t.faults == 2 && t.cpu_share > 0.4999 && t.cpu_share < 0.5001);
}

static void test_what_is_not_possible_is_refused(void)
{
    struct settings s = plain;
    struct failure f;
    s.cpus[0] = CPU_SETSIZE - 1;
    CHECK(!measured(&s, &f) && f.exit_code == EXIT_IMPOSSIBLE && strstr(f.message, "CPU 1023") != NULL);
    struct failure g = {0};
    struct buffer b;
    CHECK(!buffer_place(&b, (size_t)1 << 46, &plain, &g) && g.exit_code == EXIT_IMPOSSIBLE);
}

int main(void)
{
    test_options_take_their_range_only();
    test_readers_share_the_buffer_in_whole_chunks();
    test_kernels_sum_what_they_say();
    test_no_word_goes_unread();
    test_chase_visits_every_line_once();
    test_a_wrong_word_fails_the_measurement();
    test_faults_are_counted_where_there_are_any();
    test_totals();
    test_what_is_not_possible_is_refused();
    (void)membw_main; /* only the real main() calls it */
    if (failures == 0)
        (void)puts("all seams hold");
    return failures != 0;
}
