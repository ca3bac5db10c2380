/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests of solotest's seams without a Redis. Every test is a function; main() lists them. */
#include "../offline.h"

static int failures;
static const char *current;

#define CHECK(condition)                                                                             \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            failures++;                                                                              \
            (void)fprintf(stderr, "FAILED %s, line %d: %s\n", current, __LINE__, #condition);        \
        }                                                                                            \
    } while (0)

/* ---- random numbers and values ---- */

static void test_rng_repeats_and_streams_differ(void)
{
    struct rng a, b, c;
    rng_seed(&a, 7, 1);
    rng_seed(&b, 7, 1);
    rng_seed(&c, 7, 2);
    bool same = true, other = true;
    for (int i = 0; i < 100; i++) {
        uint64_t x = rng_next(&a);
        same = same && x == rng_next(&b);
        other = other && x == rng_next(&c);
    }
    CHECK(same);
    CHECK(!other);
}

static void test_units_stay_in_their_range(void)
{
    struct rng r;
    double sum = 0;
    rng_seed(&r, 3, 1);
    for (int i = 0; i < 100000; i++) {
        double u = rng_unit(&r), v = rng_unit_closed(&r);
        CHECK(u >= 0 && u < 1 && v >= 0 && v <= 1);
        sum += u;
    }
    CHECK(fabs(sum / 100000 - 0.5) < 0.005);
}

static void test_only_zero_bytes_are_replaced(void)
{
    struct rng r;
    rng_seed(&r, 5, 1);
    for (int i = 0; i < 100000; i++) {
        uint64_t plain = rng_next(&r), fixed = without_zero_bytes(plain);
        for (unsigned shift = 0; shift < 64; shift += 8) {
            uint64_t from = plain >> shift & 0xff, to = fixed >> shift & 0xff;
            CHECK(to == (from == 0 ? 1 : from));
        }
    }
}

/* Each byte but 0 and 1 equally often, at each of the eight places and after each bit of the byte before. */
static void test_bytes_of_values_are_uniform(void)
{
    enum { DRAWS = 1000000 };
    static uint32_t seen[8][256], after[2][256];
    struct byte_rng r = {12345};
    unsigned before = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t w = bytes_next(&r);
        for (unsigned place = 0; place < 8; place++) {
            unsigned byte = w >> 8 * place & 0xff;
            seen[place][byte]++;
            after[before & 1][byte]++;
            before = byte;
        }
    }
    for (unsigned place = 0; place < 8; place++) {
        double chi2 = 0, expected = DRAWS / 256.0;
        CHECK(seen[place][0] == 0);
        for (unsigned byte = 2; byte < 256; byte++)
            chi2 += pow(seen[place][byte] - expected, 2) / expected;
        CHECK(chi2 > 170 && chi2 < 350); /* 254 degrees of freedom: 254 +- 22.5 */
    }
    for (unsigned byte = 2; byte < 256; byte++)
        CHECK(fabs((double)after[0][byte] / after[1][byte] - 127.0 / 129) < 0.06);
}

static void test_values_have_no_zero_byte_at_any_size(void)
{
    static const double shares[] = {0, 0.3, 0.5, 1};
    char value[400];
    struct byte_rng r = {1};
    for (size_t size = 1; size < sizeof value; size++)
        for (size_t s = 0; s < COUNT_OF(shares); s++) {
            memset(value, 0, sizeof value);
            value_fill(&r, value, size, shares[s]);
            CHECK(memchr(value, 0, size) == NULL);
            CHECK(value[size] == 0);
        }
}

static void test_compressibility_is_the_share_of_filler(void)
{
    static char value[1280];
    struct byte_rng r = {1};
    for (int percent = 0; percent <= 100; percent += 25) {
        value_fill(&r, value, sizeof value, percent / 100.0);
        size_t longest = 0, filler = 0;
        for (size_t i = 0; i < sizeof value; i++) {
            longest = value[i] == VALUE_FILLER ? longest + 1 : 0;
            filler += longest >= 8 ? (longest == 8 ? 8 : 1) : 0; /* runs that no chance makes */
        }
        CHECK(llabs((long long)filler - (long long)sizeof value * percent / 100) <= 20);
    }
}

/* ---- key chooser ---- */

static void test_keys_stay_in_range(void)
{
    static const uint64_t counts[] = {1, 2, 3, 100, 1000001, (uint64_t)MAX_KEYS};
    static const double biases[] = {0, -1, 1e-300, 0.5, 10, 1e6, -1e6};
    struct chooser c;
    for (size_t n = 0; n < COUNT_OF(counts); n++)
        for (size_t b = 0; b < COUNT_OF(biases); b++)
            for (enum pattern p = PATTERN_GAUSSIAN; p <= PATTERN_SEQUENTIAL; p++) {
                chooser_init(&c, 1, counts[n], p, biases[b], 50);
                for (int i = 0; i < 2000; i++)
                    CHECK(chooser_next(&c).key < counts[n]);
            }
}

static void test_extreme_biases(void)
{
    struct chooser c;
    uint64_t middle = 0;
    chooser_init(&c, 1, 1000, PATTERN_GAUSSIAN, 1e6, 100);
    for (int i = 0; i < 1000; i++) { /* every pull is complete but for the last unit's truncation */
        uint64_t key = chooser_next(&c).key;
        CHECK(key >= 499 && key <= 501);
    }
    chooser_init(&c, 1, 1000, PATTERN_GAUSSIAN, 1e-300, 100);
    for (int i = 0; i < 100000; i++) /* only x = 50 pulls: one in a hundred */
        middle += chooser_next(&c).key == 500;
    CHECK(middle > 900 && middle < 1300);
}

static void test_sequential_keys_and_only_sets(void)
{
    struct chooser c;
    chooser_init(&c, 1, 3, PATTERN_SEQUENTIAL, -1, READ_MIX_ONLY_SETS);
    for (uint64_t i = 0; i < 300; i++) {
        struct choice choice = chooser_next(&c);
        CHECK(choice.key == i % 3 && choice.is_set);
    }
}

static double share_of_sets(int read_mix)
{
    struct chooser c;
    int sets = 0;
    chooser_init(&c, 11, 1000, PATTERN_GAUSSIAN, 10, read_mix);
    for (int i = 0; i < 1000000; i++)
        sets += chooser_next(&c).is_set;
    return sets / 1e6;
}

static void test_share_of_sets(void)
{
    CHECK(fabs(share_of_sets(70) - 0.29) < 0.002); /* 29 %, not 30 %: floor(100 V) > 70 */
    CHECK(fabs(share_of_sets(0) - 0.99) < 0.002);
    CHECK(share_of_sets(99) < 0.0001);
    CHECK(fabs(share_of_sets(100)) < 1e-9);
}

/* ---- histogram ---- */

static void test_slots_are_hdr_histograms(void)
{
    /* value and index as HdrHistogram (1, 2^63 - 1, 2 digits) computes them */
    static const struct {
        uint64_t value;
        size_t index;
    } golden[] = {{0, 0},      {1, 1},      {255, 255},     {256, 256},    {257, 256},      {258, 257},
                  {511, 383},  {512, 384},  {1000, 506},    {50000, 1219}, {1000000, 1780}, {1000000000, 3054},
                  {INT64_MAX, HIST_SLOTS - 1}};
    for (size_t i = 0; i < COUNT_OF(golden); i++)
        CHECK(hist_index(golden[i].value) == golden[i].index);
}

static void test_slots_tile_all_values(void)
{
    uint64_t lowest = 0;
    for (size_t i = 0; i < HIST_SLOTS; i++) {
        uint64_t highest = hist_highest_in(i);
        CHECK(hist_index(lowest) == i && hist_index(highest) == i);
        CHECK(highest - lowest <= lowest / 128);
        lowest = highest + 1;
    }
    CHECK(lowest == (uint64_t)INT64_MAX + 1);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

#define SAMPLES 200000

/* From 100 ns to 100 s, evenly on a logarithmic scale. */
static void make_samples(uint64_t *samples)
{
    struct rng r;
    rng_seed(&r, 9, 1);
    for (size_t i = 0; i < SAMPLES; i++)
        samples[i] = (uint64_t)(100 * pow(10, rng_unit(&r) * 9));
}

static void test_percentiles_against_raw_samples(void)
{
    static uint64_t samples[SAMPLES];
    static struct histogram h;
    wide sum = 0;
    make_samples(samples);
    for (size_t i = 0; i < SAMPLES; i++) {
        hist_add(&h, samples[i]);
        sum += samples[i];
    }
    qsort(samples, SAMPLES, sizeof samples[0], compare_u64);
    CHECK(h.count == SAMPLES && h.sum == sum);
    CHECK(h.min == samples[0] && h.max == samples[SAMPLES - 1]);
    for (unsigned permille = 1; permille <= 1000; permille++) {
        uint64_t truth = samples[rank_of(SAMPLES, permille) - 1];
        uint64_t reported = hist_percentile(&h, permille);
        CHECK(reported >= truth);
        CHECK((double)reported <= (double)truth * (1 + 1.0 / 128));
    }
}

static void test_merging_any_split_gives_the_whole(void)
{
    static uint64_t samples[SAMPLES];
    static struct histogram whole, parts[3];
    make_samples(samples);
    for (size_t i = 0; i < SAMPLES; i++) {
        hist_add(&whole, samples[i]);
        hist_add(&parts[samples[i] % 3], samples[i]);
    }
    for (size_t i = 0; i < HIST_SLOTS; i++)
        CHECK(whole.slots[i] == parts[0].slots[i] + parts[1].slots[i] + parts[2].slots[i]);
    CHECK(whole.sum == parts[0].sum + parts[1].sum + parts[2].sum);
}

static void test_nothing_is_cut_off(void)
{
    static struct histogram h;
    hist_add(&h, UINT64_MAX);
    hist_add(&h, 0);
    CHECK(h.count == 2 && h.min == 0 && h.max == INT64_MAX);
    CHECK(hist_percentile(&h, 999) == INT64_MAX && hist_percentile(&h, 500) == 0);
}

static void test_empty_histogram(void)
{
    static struct histogram h;
    CHECK(hist_percentile(&h, 990) == 0);
    CHECK(fabs(hist_mean(&h)) < 1e-9);
}

static void test_ranks(void)
{
    CHECK(rank_of(1, 500) == 1 && rank_of(2, 500) == 1 && rank_of(3, 500) == 2);
    CHECK(rank_of(100, 990) == 99 && rank_of(101, 990) == 100 && rank_of(1000, 999) == 999);
    CHECK(rank_of(UINT64_MAX, 1000) == UINT64_MAX);
}

/* ---- time series ---- */

static void test_series_interval(void)
{
    CHECK(series_interval_for(0) == NS_PER_MS);
    for (uint64_t duration = 1; duration < UINT64_C(1000000000000000000); duration = duration * 3 + 1) {
        uint64_t interval = series_interval_for(duration);
        CHECK(duration / interval < SERIES_POINTS);
        CHECK(interval == NS_PER_MS || duration / interval >= SERIES_POINTS / 3);
    }
}

static void test_series_keeps_everything_when_coarsened(void)
{
    static struct series s;
    static struct histogram whole;
    struct rng r;
    rng_seed(&r, 4, 1);
    s.interval = 1000;
    s.slots = calloc(SERIES_POINTS, sizeof *s.slots);
    for (uint64_t at = 0; at < 1000000; at += 7) {
        uint64_t value = rng_next(&r) % 1000000;
        series_add(&s, at, value);
        hist_add(&whole, value);
    }
    CHECK(s.interval == 16000 && s.used == 1000000 / 16000 + 1);
    uint64_t count = 0, max = 0, slots = 0;
    wide sum = 0;
    for (size_t i = 0; i < s.used; i++) {
        count += s.points[i].count;
        sum += s.points[i].sum;
        max = max_u64(max, s.points[i].max);
        for (size_t k = 0; k < HIST_SLOTS; k++)
            slots += s.slots[i][k];
    }
    CHECK(count == whole.count && slots == whole.count && sum == whole.sum && max == whole.max);
    series_finish(&s);
    for (size_t i = 0; i + 1 < s.used; i++)
        CHECK(s.points[i].p99 > 970000 && s.points[i].p99 <= s.points[i].max);
    free(s.slots);
}

static void test_series_slots_stop_at_their_top(void)
{
    CHECK(add_saturating(UINT32_MAX, 1) == UINT32_MAX);
    CHECK(add_saturating(UINT32_MAX - 1, 1) == UINT32_MAX);
    CHECK(add_saturating(3, 4) == 7);
}

/* ---- pacer ---- */

static void test_due_times_are_exact(void)
{
    struct pacer p = {.start = 1000, .period = 1e9L / 3};
    CHECK(pacer_due(&p, 0) == 1000);
    for (uint64_t i = 0; i < UINT64_C(3000000000); i = i * 3 + 3) /* multiples of 3 */
        CHECK(pacer_due(&p, i) - 1000 + 1 >= i / 3 * NS_PER_S && pacer_due(&p, i) - 1000 <= i / 3 * NS_PER_S);
    p.period = 1e9L / 5000;
    for (uint64_t i = 1; i < UINT64_C(1000000000000); i *= 7)
        CHECK(pacer_due(&p, i) == 1000 + i * 200000);
}

static void test_waiting_never_ends_early(void)
{
    static const uint64_t spins[] = {40 * NS_PER_US, 0, NEVER};
    for (size_t i = 0; i < COUNT_OF(spins); i++)
        for (int k = 0; k < 20; k++) {
            struct pacer p = {.spin = spins[i]};
            uint64_t due = now_ns() + 200 * NS_PER_US;
            CHECK(pacer_wait(&p, due) >= due);
        }
}

/* What a learning pacer spins after sleeps that end so late, one after the other. */
static uint64_t learn(struct pacer *p, uint64_t overslept, int times)
{
    for (int i = 0; i < times; i++)
        pacer_learn(p, overslept);
    return p->spin;
}

static void test_late_sleeps_raise_the_spin_and_early_ones_lower_it(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .spin = 40000, .spin_min = 40000};
    CHECK(learn(&p, 40000, 1) == 40000); /* in time, at the least */
    CHECK(learn(&p, 40001, 1) == 45000);
    CHECK(learn(&p, 45001, 1) == 50000);
    CHECK(learn(&p, 0, 1) == 49500);
    CHECK(learn(&p, 49500, 1) == 49000);
    CHECK(learn(&p, 0, 100) == 40000);
}

static void test_the_spin_settles_where_few_sleeps_are_late(void)
{
    /* Sleeps end 20 to 100 us late, evenly: one in eleven is later than 92.7 us. */
    struct pacer p = {.mode = PACING_HYBRID, .spin = 40000, .spin_min = 40000};
    struct rng r;
    int late = 0;
    rng_seed(&r, 7, 1);
    for (int i = 0; i < 101000; i++) {
        uint64_t overslept = 20000 + (uint64_t)(rng_unit(&r) * 80000);
        late += i >= 1000 && overslept > p.spin;
        pacer_learn(&p, overslept);
    }
    CHECK(late > 8500 && late < 9700); /* of 100,000 */
    CHECK(p.spin > 80000 && p.spin < 105000);
}

static void test_the_spin_has_bounds(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .spin = 40000, .spin_min = 40000};
    CHECK(learn(&p, NS_PER_S, 1000) == SPIN_MAX_NS);
    p = (struct pacer){.mode = PACING_HYBRID, .spin = 300000, .spin_min = 300000}; /* --spin-us 300 */
    CHECK(learn(&p, NS_PER_S, 1000) == 300000);
    CHECK(learn(&p, 0, 1000) == 300000);
    p = (struct pacer){.mode = PACING_HYBRID}; /* --spin-us 0 */
    CHECK(learn(&p, 0, 10) == 0);
    CHECK(learn(&p, 1, 1) == SPIN_UP_NS);
}

static void test_only_hybrid_pacing_learns(void)
{
    static const struct pacer pacers[] = {
        {.mode = PACING_SLEEP}, {.mode = PACING_SPIN, .spin = NEVER}, {.mode = PACING_NONE}};
    for (size_t i = 0; i < COUNT_OF(pacers); i++) {
        struct pacer p = pacers[i];
        CHECK(learn(&p, NS_PER_S, 10) == pacers[i].spin);
        CHECK(learn(&p, 0, 10) == pacers[i].spin);
    }
}

static void test_a_wait_too_short_to_sleep_lowers_the_spin(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .spin = 150000, .spin_min = 40000};
    for (int i = 0; i < 10; i++)
        (void)pacer_wait(&p, now_ns() + 20 * NS_PER_US);
    /* Nothing, if this process was away when it should have waited. */
    CHECK(p.spin < 150000 && p.spin >= 150000 - 10 * SPIN_DOWN_NS);
}

static void test_an_interruption_ends_waiting(void)
{
    struct pacer p = {.spin = NEVER};
    interrupted = SIGTERM;
    uint64_t due = now_ns() + 3600 * NS_PER_S;
    CHECK(pacer_wait(&p, due) < due);
    p.spin = 0;
    CHECK(pacer_wait(&p, due) < due);
    interrupted = 0;
}

/* ---- the four latencies ---- */

static struct latencies request(struct slot *s, uint64_t intended, uint64_t sent, uint64_t replied,
                                uint64_t read_delay)
{
    s->intended = intended;
    s->sent = sent;
    struct latencies l = slot_complete(s, replied, read_delay);
    CHECK(l.intended == l.response + l.lateness);
    return l;
}

static void test_a_client_on_time(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 1020, 0);
    CHECK(l.service == 20 && l.response == 20 && l.intended == 20 && l.lateness == 0);
    l = request(&s, 1200, 1226, 1250, 0); /* woke up 26 late: not the server's fault */
    CHECK(l.service == 24 && l.response == 24 && l.intended == 50 && l.lateness == 26);
}

static void test_a_stalled_server_is_charged(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 51000, 0);
    CHECK(l.service == 50000 && l.response == 50000 && l.lateness == 0);
    l = request(&s, 1200, 51000, 51020, 0); /* had to wait for the one before: coordinated omission */
    CHECK(l.service == 20 && l.response == 49820 && l.intended == 49820 && l.lateness == 0);
    l = request(&s, 60000, 60000, 60020, 0);
    CHECK(l.response == 20 && l.lateness == 0);
}

static void test_a_stalled_client_is_charged(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 51000, 51020, 0);
    CHECK(l.response == 20 && l.intended == 50020 && l.lateness == 50000);
    l = request(&s, 1200, 51020, 51040, 0); /* catches up: still the client's stall */
    CHECK(l.service == 20 && l.response == 20 && l.intended == 49840 && l.lateness == 49820);
    l = request(&s, 60000, 60000, 60020, 0);
    CHECK(l.response == 20 && l.lateness == 0);
}

static void test_a_client_stopped_while_the_reply_waits(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 51000, 49980);
    CHECK(l.service == 50000 && l.response == 20 && l.intended == 50000 && l.lateness == 49980);
    l = request(&s, 1200, 51000, 51020, 0);
    CHECK(l.response == 20 && l.lateness == 49800);
}

static void test_a_closed_loop_has_only_service(void)
{
    struct slot s = {0};
    uint64_t now = 1000;
    for (int i = 0; i < 10; i++) {
        struct latencies l = request(&s, now, now + 3, now + 23, 0);
        CHECK(l.service == 20 && l.response == 20 && l.intended == 23 && l.lateness == 3);
        now += 23;
    }
}

/* Against the queue itself: random service times, random late wake-ups. */
static void test_response_is_lindleys(void)
{
    struct rng r;
    struct slot s = {0};
    uint64_t free_at = 0, ideal_free_at = 0;
    rng_seed(&r, 21, 1);
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t due = 1000 + i * 200;
        uint64_t service = rng_next(&r) % 1000 == 0 ? 50000 : 20 + rng_next(&r) % 100;
        uint64_t sent = max_u64(due, free_at) + (rng_next(&r) % 1000 == 0 ? 30000 : rng_next(&r) % 50);
        struct latencies l = request(&s, due, sent, sent + service, 0);
        uint64_t ideal_reply = max_u64(due, ideal_free_at) + service;
        CHECK(l.response == ideal_reply - due && l.service == service && l.intended == sent + service - due);
        free_at = sent + service;
        ideal_free_at = ideal_reply;
    }
}

static void test_a_stepped_clock_does_no_harm(void)
{
    struct slot s = {0};
    struct latencies l = request(&s, 1000, 1000, 3000, UINT64_MAX);
    CHECK(l.response == 0 && l.lateness == 2000);
}

/* ---- errors ---- */

static void test_error_kinds(void)
{
    static const struct {
        const char *text, *kind;
    } cases[] = {{"OOM command not allowed", "OOM"}, {"LOADING Redis is loading", "LOADING"},
                 {"ERR unknown", "ERR"},             {"", "ERR"},
                 {"no such thing", "ERR"},           {"MOVED", "MOVED"},
                 {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA x", "ERR"}, {"Weird case", "ERR"},
                 {"OOM\"quote", "ERR"},              {"NO_AUTH x", "NO_AUTH"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char kind[ERROR_KIND_SIZE];
        error_kind_of(cases[i].text, kind);
        CHECK(strcmp(kind, cases[i].kind) == 0);
    }
}

static void test_errors_are_counted_whatever_their_number(void)
{
    struct errors e = {0};
    char text[256];
    for (int i = 0; i < 40; i++) {
        char kind[8];
        (void)snprintf(kind, sizeof kind, "E%d", i % 20);
        errors_add(&e, kind, 1);
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < e.used; i++)
        sum += e.kinds[i].count;
    CHECK(e.total == 40 && sum == 40 && e.used == ERROR_KINDS);
    CHECK(strcmp(e.kinds[ERROR_KINDS - 1].kind, "other") == 0);
    errors_describe(&e, text, sizeof text);
    CHECK(strncmp(text, "E0 2, E1 2, ", 12) == 0);
    errors_describe(&e, text, 10); /* too small is only cut off */
    CHECK(strlen(text) == 9);
}

static void test_the_first_failure_wins(void)
{
    struct failure f = {0};
    CHECK(!fail(&f, EXIT_LOST, "lost", "the server said %s", "\033[2J\nbye"));
    CHECK(!fail(&f, EXIT_OUTPUT, "output", "later"));
    CHECK(f.exit_code == EXIT_LOST && strcmp(f.message, "the server said  [2J bye") == 0);
}

/* ---- options ---- */

static struct settings parsed;
static struct failure parse_failure;

static bool parse(const char *line)
{
    static char copy[512];
    char *argv[32] = {(char *)"solotest"};
    int argc = 1;
    (void)snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        argv[argc++] = word;
    memset(&parse_failure, 0, sizeof parse_failure);
    return parse_arguments(&parsed, argc, argv, &parse_failure);
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

static void test_defaults(void)
{
    CHECK(parse("") && parsed.test && !parsed.fill && parsed.port == 6379 && parsed.value_size == 1000);
    CHECK(parsed.key_count == 20000000 && near(parsed.influence, -1) && near(parsed.rate, 1e6));
    CHECK(parsed.read_mix == 100 && planned_requests(&parsed) == 20000000 && near(parsed.connect_timeout, 1.5));
    CHECK(strcmp(parsed.host, "127.0.0.1") == 0 && parsed.pacing == PACING_HYBRID && parsed.spin_us == 40);
}

static void test_positionals(void)
{
    CHECK(parse("FillTest 7000 10 100 -1.5 0.25 70"));
    CHECK(parsed.fill && parsed.test && parsed.port == 7000 && parsed.value_size == 10);
    CHECK(parsed.key_count == 100 && near(parsed.influence, -1.5) && near(parsed.rate, 0.25));
    CHECK(parsed.read_mix == 70);
    CHECK(parse("--json prefill --seed=3 7000 --requests 5 10 20 -.5") && parsed.fill && !parsed.test);
    CHECK(parsed.json && parsed.seed == 3 && parsed.requests == 5 && near(parsed.influence, -.5));
    CHECK(parse("--json -- MyTest 7000") && parsed.test && parsed.port == 7000);
}

static void test_planned_requests(void)
{
    CHECK(parse("test 1 1 10 0 100 --duration 2.5") && planned_requests(&parsed) == 250);
    CHECK(parse("test 1 1 10 0 100 --duration 0.001") && planned_requests(&parsed) == 1);
    CHECK(parse("test 1 1 10 0 100 --duration 2 --requests 7") && planned_requests(&parsed) == 7);
    CHECK(parse("test 1 1 10 0 100 --duration 2 --pacing none") && planned_requests(&parsed) == 0);
    CHECK(parse("test 1 1 10 0 100 --pacing none") && planned_requests(&parsed) == 10);
}

static void test_bad_usage_is_named(void)
{
    static const struct {
        const char *line, *part;
    } cases[] = {
        {"wrong", "MODE: 'wrong'"},
        {"test 0", "PORT: '0' is not allowed; allowed: a whole number from 1 to 65535"},
        {"test 65536", "PORT"}, {"test 6379x", "PORT"}, {"test 0x10", "PORT"}, {"test 1e3", "PORT"},
        {"test 99999999999999999999", "PORT"}, {"test -1", "PORT"},
        {"test 1 0", "VALUE_SIZE"}, {"test 1 536870913", "VALUE_SIZE"}, {"test 1 1.5", "VALUE_SIZE"},
        {"test 1 1 0", "KEY_COUNT"}, {"test 1 1 -5", "KEY_COUNT"},
        {"test 1 1 1 nan", "BIAS"}, {"test 1 1 1 inf", "BIAS"}, {"test 1 1 1 1e400", "BIAS"},
        {"test 1 1 1 1.2.3", "BIAS"}, {"test 1 1 1 -", "BIAS"}, {"test 1 1 1 -1e7", "BIAS"},
        {"test 1 1 1 0 0", "FREQUENCY"}, {"test 1 1 1 0 -5", "FREQUENCY"}, {"test 1 1 1 0 2e9", "FREQUENCY"},
        {"test 1 1 1 0 1 101", "READ_MIX"}, {"test 1 1 1 0 1 -2", "READ_MIX"}, {"test 1 1 1 0 1 7.5", "READ_MIX"},
        {"test 1 1 1 0 1 100 8", "'8' is one argument too many"},
        {"--nonsense", "unknown option '--nonsense'"}, {"-x", "unknown option '-x'"},
        {"--json=1", "--json: '1' is not allowed; allowed: no value"}, {"--requests", "--requests needs a value"},
        {"--requests=", "--requests: ''"}, {"--requests 0", "--requests"}, {"--host=", "--host: ''"},
        {"--pattern zipf", "--pattern: 'zipf' is not allowed; allowed: gaussian, uniform, sequential"},
        {"--pacing fast", "--pacing: 'fast' is not allowed; allowed: hybrid, sleep, spin, none"},
        {"--duration 0", "--duration"}, {"--connections 0", "--connections"}, {"--pipeline 99999", "--pipeline"},
        {"--connections 512 --pipeline 512", "--connections times --pipeline: '262144'"}, {"--spin-us -1", "--spin-us"},
        {"--start-at -1", "--start-at"}, {"--stagger 1", "--stagger"}, {"--stagger -0.1", "--stagger"},
        {"--seed -1", "--seed"}, {"--compressibility 1.01", "--compressibility"}, {"--cpu -1", "--cpu"},
        {"--timeout 0", "--timeout"}, {"--connect-timeout 0", "--connect-timeout"},
        {"--raw x --pacing none --duration 1", "--raw needs"},
        {"test 1 1 1000000000000 0 0.001", "FREQUENCY: '0.001' is not allowed for 1000000000000 requests"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CHECK(!parse(cases[i].line));
        bool named = strstr(parse_failure.message, cases[i].part) != NULL;
        CHECK(named && parse_failure.exit_code == EXIT_USAGE);
        if (!named)
            (void)fprintf(stderr, "  %s -> %s\n", cases[i].line, parse_failure.message);
    }
}

static void test_bounds_themselves_are_allowed(void)
{
    for (size_t i = 0; i < COUNT_OF(option_specs); i++) {
        const struct option_spec *spec = &option_specs[i];
        char text[64];
        if (spec->type != VALUE_INTEGER && spec->type != VALUE_REAL)
            continue;
        for (int bound = 0; bound < 2; bound++) {
            struct settings s = default_settings;
            struct failure f = {0};
            (void)snprintf(text, sizeof text, "%.16g", bound == 0 ? spec->min : spec->max);
            CHECK(set_value(&s, spec, text, &f));
        }
    }
}

/* ---- JSON ---- */

static char *json_of(void (*write)(struct json *, const void *), const void *what)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    struct json j = {.file = file};
    write(&j, what);
    (void)fclose(file);
    return text;
}

static void write_text(struct json *j, const void *text)
{
    json_text(j, text);
}

static void write_wide(struct json *j, const void *value)
{
    wide w;
    memcpy(&w, value, sizeof w);
    json_wide(j, w);
}

static void write_real(struct json *j, const void *value)
{
    double d;
    memcpy(&d, value, sizeof d);
    json_real(j, d);
}

static void check_json(void (*write)(struct json *, const void *), const void *what, const char *expected)
{
    char *text = json_of(write, what);
    CHECK(strcmp(text, expected) == 0);
    if (strcmp(text, expected) != 0)
        (void)fprintf(stderr, "  got %s, expected %s\n", text, expected);
    free(text);
}

static void test_json_texts(void)
{
    check_json(write_text, "plain", "\"plain\"");
    check_json(write_text, NULL, "null");
    check_json(write_text, "a\"b\\c\n\x7f\x01", "\"a\\\"b\\\\c\\u000a\\u007f\\u0001\"");
    check_json(write_text, "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    check_json(write_text, "\xff\xc3", "\"\\ufffd\\ufffd\"");
    check_json(write_text, "\xc0\xaf\xed\xa0\x80\xf5", "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void test_json_numbers(void)
{
    wide big = ~(wide)0, zero = 0;
    check_json(write_wide, &big, "340282366920938463463374607431768211455");
    check_json(write_wide, &zero, "0");
    check_json(write_real, &(double){0.1}, "0.1");
    check_json(write_real, &(double){1.0 / 3}, "0.33333333333333331");
    check_json(write_real, &(double){5000}, "5000");
    check_json(write_real, &(double){INFINITY}, "null");
}

/* ---- replies ---- */

static const char four_replies[] = "$5\r\nhello\r\n$-1\r\n-OOM no memory\r\n:7\r\n";

static void check_four_replies(struct offline *o)
{
    CHECK(o->load.ok == 1 && o->load.errors.total == 3 && o->load.in_flight == 0);
    CHECK(o->measurement->service.count == 1);
    CHECK(o->load.errors.used == 3 && strcmp(o->load.errors.kinds[0].kind, "nil") == 0);
    CHECK(strcmp(o->load.errors.kinds[1].kind, "OOM") == 0 && strcmp(o->load.errors.kinds[2].kind, "type") == 0);
}

static void test_replies_torn_anywhere(void)
{
    size_t size = sizeof four_replies - 1;
    for (size_t cut = 0; cut <= size; cut++) {
        struct offline o;
        offline_open(&o, 5, 100, 4);
        offline_measure(&o);
        offline_send(&o);
        CHECK(o.load.in_flight == 4);
        CHECK(load_consume(&o.load, &o.conn, four_replies, cut, now_ns(), 0));
        CHECK(load_consume(&o.load, &o.conn, four_replies + cut, size - cut, now_ns(), 0));
        check_four_replies(&o);
        offline_close(&o);
    }
}

static void test_replies_byte_by_byte(void)
{
    struct offline o;
    offline_open(&o, 5, 100, 4);
    offline_measure(&o);
    offline_send(&o);
    for (size_t i = 0; i + 1 < sizeof four_replies; i++)
        CHECK(load_consume(&o.load, &o.conn, four_replies + i, 1, now_ns(), 0));
    check_four_replies(&o);
    offline_close(&o);
}

static void test_values_of_another_size_are_values(void)
{
    struct offline o;
    offline_open(&o, 5, 100, 2);
    offline_send(&o);
    CHECK(load_consume(&o.load, &o.conn, "$1\r\nx\r\n$0\r\n\r\n", 13, now_ns(), 0));
    CHECK(o.load.ok == 2 && o.load.errors.total == 0);
    offline_close(&o);
}

static void test_sets_want_ok(void)
{
    struct offline o;
    offline_open(&o, 5, READ_MIX_ONLY_SETS, 3);
    offline_send(&o);
    CHECK(o.load.sets == 3);
    CHECK(load_consume(&o.load, &o.conn, "+OK\r\n$-1\r\n+OK\r\n", 15, now_ns(), 0));
    CHECK(o.load.ok == 2 && o.load.errors.total == 1);
    offline_close(&o);
}

static void test_protocol_errors(void)
{
    static const char *const bad[] = {"HTTP/1.1 200 OK\r\n", "$x\r\n", "+OK\r\n+OK\r\n+OK\r\n"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct offline o;
        offline_open(&o, 5, READ_MIX_ONLY_SETS, 2);
        offline_send(&o);
        CHECK(!load_consume(&o.load, &o.conn, bad[i], strlen(bad[i]), now_ns(), 0));
        CHECK(o.failure.exit_code == EXIT_LOST && strcmp(o.failure.kind, "protocol") == 0);
        CHECK(o.load.ok + o.load.errors.total == o.load.sent && o.load.in_flight == 0);
        offline_close(&o);
    }
}

static void test_an_endless_reply_is_cut_short(void)
{
    static const char *const heads[] = {"$536870912\r\n", "*1000000000\r\n", "+"};
    static char much[65536];
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        struct offline o;
        int chunks = 0;
        offline_open(&o, 5, 100, 1);
        offline_send(&o);
        for (size_t k = 0; k < sizeof much; k += 4)
            memcpy(much + k, i == 1 ? ":1\r\n" : "xxxx", 4);
        CHECK(load_consume(&o.load, &o.conn, heads[i], strlen(heads[i]), now_ns(), 0));
        while (chunks < 100 && load_consume(&o.load, &o.conn, much, sizeof much, now_ns(), 0))
            chunks++;
        CHECK(chunks < 20 && strcmp(o.failure.kind, "protocol") == 0);
        offline_close(&o);
    }
}

static void test_commands_on_the_wire(void)
{
    struct offline o;
    char wire[4096];
    unsigned key;
    int length;
    offline_open(&o, 300, READ_MIX_ONLY_SETS, 1);
    offline_send(&o);
    ssize_t n = recv(o.peer, wire, sizeof wire - 1, MSG_DONTWAIT);
    CHECK(n > 300);
    wire[n > 0 ? n : 0] = '\0';
    CHECK(sscanf(wire, "*3\r\n$3\r\nSET\r\n$%d\r\n%u\r\n$300\r\n", &length, &key) == 2);
    CHECK(key < 1000 && length == snprintf(NULL, 0, "%u", key));
    CHECK(strlen(wire) == (size_t)n && (size_t)n == 13 + 4 + (size_t)length + 2 + 6 + 300 + 2);
    offline_close(&o);
    offline_open(&o, 300, 100, 1);
    offline_send(&o);
    n = recv(o.peer, wire, sizeof wire - 1, MSG_DONTWAIT);
    wire[n > 0 ? n : 0] = '\0';
    CHECK(sscanf(wire, "*2\r\n$3\r\nGET\r\n$%d\r\n%u\r\n", &length, &key) == 2);
    offline_close(&o);
}

static void test_decimals(void)
{
    static const uint64_t values[] = {0, 9, 10, 99, 12345678901, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char digits[DIGITS], theirs[24];
        size_t n = decimal(digits, values[i]);
        (void)snprintf(theirs, sizeof theirs, "%" PRIu64, values[i]);
        CHECK(strlen(theirs) == n && memcmp(digits + DIGITS - n, theirs, n) == 0);
    }
}

/* ---- hot set ---- */

static uint64_t keys_for_share(const uint32_t *sorted, size_t keys, uint64_t accesses, unsigned permille)
{
    uint64_t covered = 0;
    for (size_t i = 0; i < keys; i++) {
        covered += sorted[i];
        if (covered >= rank_of(accesses, permille))
            return i + 1;
    }
    return keys;
}

static void test_hot_set_against_counting(void)
{
    static const double biases[] = {0, -1, 25};
    static uint32_t counts[1000], scratch[300]; /* scratch: four passes */
    for (size_t b = 0; b < COUNT_OF(biases); b++) {
        struct chooser initial, c;
        struct hot_set h;
        uint64_t accesses = 500000, distinct = 0;
        chooser_init(&initial, 8, COUNT_OF(counts), PATTERN_GAUSSIAN, biases[b], 70);
        c = initial;
        memset(counts, 0, sizeof counts);
        for (uint64_t i = 0; i < accesses; i++)
            counts[chooser_next(&c).key]++;
        qsort(counts, COUNT_OF(counts), sizeof counts[0], compare_descending);
        while (distinct < COUNT_OF(counts) && counts[distinct] > 0)
            distinct++;
        hot_set_measure(&h, &initial, accesses, scratch, COUNT_OF(scratch));
        CHECK(h.known && h.distinct == distinct && h.accesses == accesses);
        for (size_t i = 0; i < HOT_SHARES; i++)
            CHECK(h.keys[i] == keys_for_share(counts, COUNT_OF(counts), accesses, hot_permille[i]));
    }
}

static void test_a_hot_set_that_is_too_much_work_is_unknown(void)
{
    static uint32_t scratch[10];
    struct chooser c;
    struct hot_set h;
    chooser_init(&c, 1, (uint64_t)MAX_KEYS, PATTERN_UNIFORM, 0, 100);
    hot_set_measure(&h, &c, 1000000, scratch, COUNT_OF(scratch));
    CHECK(!h.known);
    hot_set_measure(&h, &c, 0, scratch, COUNT_OF(scratch));
    CHECK(!h.known);
}

/* ---- protection ---- */

static void test_foreign_databases(void)
{
    CHECK(find_foreign_database("# Keyspace\r\n") == NULL);
    CHECK(find_foreign_database("# Keyspace\r\ndb0:keys=5,expires=0,avg_ttl=0\r\n") == NULL);
    CHECK(find_foreign_database("# Keyspace\r\ndb0:keys=5,expires=0\r\ndb3:keys=1,expires=0\r\n") != NULL);
    CHECK(find_foreign_database("db15:keys=1") != NULL);
    CHECK(find_foreign_database("db15:keys=0") == NULL);
    CHECK(find_foreign_database("") == NULL && find_foreign_database("\n\n") == NULL);
}

static void test_canonical_numbers(void)
{
    static const char *const good[] = {"0", "7", "12345678901234567890"};
    static const char *const bad[] = {"", "00", "07", "-1", "1a", "user:1", " 1", "123456789012345678901"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        CHECK(is_canonical_number(good[i], strlen(good[i])));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK(!is_canonical_number(bad[i], strlen(bad[i])));
    CHECK(!is_canonical_number("1\0002", 3));
}

#define TEST(name) {#name, name}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {
        TEST(test_rng_repeats_and_streams_differ),
        TEST(test_units_stay_in_their_range),
        TEST(test_only_zero_bytes_are_replaced),
        TEST(test_bytes_of_values_are_uniform),
        TEST(test_values_have_no_zero_byte_at_any_size),
        TEST(test_compressibility_is_the_share_of_filler),
        TEST(test_keys_stay_in_range),
        TEST(test_extreme_biases),
        TEST(test_sequential_keys_and_only_sets),
        TEST(test_share_of_sets),
        TEST(test_slots_are_hdr_histograms),
        TEST(test_slots_tile_all_values),
        TEST(test_percentiles_against_raw_samples),
        TEST(test_merging_any_split_gives_the_whole),
        TEST(test_nothing_is_cut_off),
        TEST(test_empty_histogram),
        TEST(test_ranks),
        TEST(test_series_interval),
        TEST(test_series_keeps_everything_when_coarsened),
        TEST(test_series_slots_stop_at_their_top),
        TEST(test_due_times_are_exact),
        TEST(test_waiting_never_ends_early),
        TEST(test_late_sleeps_raise_the_spin_and_early_ones_lower_it),
        TEST(test_the_spin_settles_where_few_sleeps_are_late),
        TEST(test_the_spin_has_bounds),
        TEST(test_only_hybrid_pacing_learns),
        TEST(test_a_wait_too_short_to_sleep_lowers_the_spin),
        TEST(test_an_interruption_ends_waiting),
        TEST(test_a_client_on_time),
        TEST(test_a_stalled_server_is_charged),
        TEST(test_a_stalled_client_is_charged),
        TEST(test_a_client_stopped_while_the_reply_waits),
        TEST(test_a_closed_loop_has_only_service),
        TEST(test_response_is_lindleys),
        TEST(test_a_stepped_clock_does_no_harm),
        TEST(test_error_kinds),
        TEST(test_errors_are_counted_whatever_their_number),
        TEST(test_the_first_failure_wins),
        TEST(test_defaults),
        TEST(test_positionals),
        TEST(test_planned_requests),
        TEST(test_bad_usage_is_named),
        TEST(test_bounds_themselves_are_allowed),
        TEST(test_json_texts),
        TEST(test_json_numbers),
        TEST(test_replies_torn_anywhere),
        TEST(test_replies_byte_by_byte),
        TEST(test_values_of_another_size_are_values),
        TEST(test_sets_want_ok),
        TEST(test_protocol_errors),
        TEST(test_an_endless_reply_is_cut_short),
        TEST(test_commands_on_the_wire),
        TEST(test_decimals),
        TEST(test_hot_set_against_counting),
        TEST(test_a_hot_set_that_is_too_much_work_is_unknown),
        TEST(test_foreign_databases),
        TEST(test_canonical_numbers),
    };
    for (size_t i = 0; i < COUNT_OF(tests); i++) {
        current = tests[i].name;
        tests[i].run();
    }
    (void)printf("%zu tests, %d failed checks\n", COUNT_OF(tests), failures);
    return failures == 0 ? 0 : 1;
}
