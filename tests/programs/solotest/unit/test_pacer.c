/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pacer: due times, and what it learns from late sleeps. */
#define _GNU_SOURCE
#include "solotest/pacer.h"
#include "solotest/random.h"
#include "check.h"

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

static struct pacer random_pacer(enum arrivals arrivals, uint64_t seed)
{
    struct pacer p = {.start = 1000, .period = 200000, .arrivals = arrivals};
    rng_seed(&p.rng, seed, STREAM_ARRIVALS);
    return p;
}

static void test_jitter_stays_within_each_period(void)
{
    struct pacer p = random_pacer(ARRIVALS_JITTER, 3);
    long double sum = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t due = pacer_due(&p, i);
        CHECK(due >= 1000 + i * 200000 && due <= 1000 + (i + 1) * 200000);
        CHECK(pacer_due(&p, i) == due); /* asking again changes nothing */
        sum += (long double)(due - 1000 - i * 200000);
    }
    CHECK(fabsl(sum / 100000 - 100000) < 1000); /* 5 standard errors */
}

static void test_poisson_has_exponential_gaps(void)
{
    struct pacer p = random_pacer(ARRIVALS_POISSON, 4);
    long double sum = 0, squares = 0;
    uint64_t last = 1000, above = 0, n = 1000000;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t due = pacer_due(&p, i);
        long double gap = (long double)(due - last) / 200000;
        CHECK(due >= last);
        sum += gap;
        squares += gap * gap;
        above += gap > 3;
        last = due;
    }
    /* Mean 1, mean square 2, and e^-3 of the gaps above 3; 5 standard errors each. */
    CHECK(fabsl(sum / n - 1) < 0.005L && fabsl(squares / n - 2) < 0.0224L);
    CHECK(fabsl((long double)above / n - expl(-3)) < 0.0011L);
}

static void test_arrivals_follow_the_seed(void)
{
    for (enum arrivals a = ARRIVALS_JITTER; a <= ARRIVALS_POISSON; a++) {
        struct pacer first = random_pacer(a, 5), same = random_pacer(a, 5), other = random_pacer(a, 6);
        uint64_t equal = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t due = pacer_due(&first, i);
            CHECK(due == pacer_due(&same, i));
            equal += due == pacer_due(&other, i);
        }
        CHECK(equal < 10);
    }
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

#define RARELY ((long double)NS_PER_S) /* a period in which any spinning is a small part */

/* `spin` after a number of sleeps that each end so late. */
static uint64_t learn(struct pacer *p, uint64_t overslept, int times)
{
    for (int i = 0; i < times; i++)
        pacer_learn(p, overslept, since(p->spin, overslept));
    return p->spin;
}

static void test_late_sleeps_raise_the_spin_and_early_ones_lower_it(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .period = RARELY, .spin = 60000, .spin_min = 45000};
    CHECK(learn(&p, 60001, 1) == 65000);
    CHECK(learn(&p, 65001, 1) == 70000);
    CHECK(learn(&p, 0, 1) == 69500);
    CHECK(learn(&p, 69500, 1) == 69000); /* just in time */
    CHECK(learn(&p, 0, 100) == 45000);
    p = (struct pacer){.mode = PACING_HYBRID, .period = RARELY, .spin = 20000, .spin_min = 10000};
    CHECK(learn(&p, 20001, 1) == 22500);
    CHECK(learn(&p, 0, 5) == 22400);
    CHECK(learn(&p, 0, 1000) == 10000);
}

/* Sleeps end `least` to `most` late, evenly. Returns how many of 100,000 end too late, and how long each spins. */
static int count_late_sleeps(struct pacer *p, double least, double most, uint64_t *spun)
{
    struct rng r;
    int late = 0;
    rng_seed(&r, 7, 1);
    for (int i = 0; i < 110000; i++) {
        uint64_t overslept = (uint64_t)(least + rng_unit(&r) * (most - least));
        late += i >= 10000 && overslept > p->spin;
        *spun += i >= 10000 ? since(p->spin, overslept) : 0;
        pacer_learn(p, overslept, since(p->spin, overslept));
    }
    *spun /= 100000;
    return late;
}

static void test_the_spin_settles_where_few_sleeps_are_late(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .period = RARELY, .spin = 40000};
    uint64_t spun = 0;
    int late = count_late_sleeps(&p, 20000, 100000, &spun);
    CHECK(late > 8500 && late < 9700); /* one in eleven, those later than 92.7 us */
    CHECK(p.spin > 80000 && p.spin < 105000);
    late = count_late_sleeps(&p, 3000, 15000, &spun);
    CHECK(late > 740 && late < 850); /* one in 126 */
    CHECK(p.spin > 13000 && p.spin < 17500);
    late =
        count_late_sleeps(&p, 25000, 41000, &spun); /* 40 us are too few for one in 126, and enough for one in eleven */
    CHECK(late > 1000 && late < 8000);
    CHECK(p.spin > 38000 && p.spin < 43000);
}

/* As where neighbours take the CPU: one sleep in eleven ends later than 132 us, and to spin so long would take 30 % of it. */
static void test_spinning_takes_a_small_part_of_the_time(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .period = 200000, .spin = SPIN_MAX_NS};
    uint64_t spun = 0;
    int late = count_late_sleeps(&p, 5000, 145000, &spun);
    CHECK(spun > 22500 && spun < 27500); /* one part in eight is 25 us */
    CHECK(late > 20000 && late < 60000);
    p = (struct pacer){.mode = PACING_HYBRID, .period = 200000, .spin_min = 100000}; /* --spin-us 100 */
    (void)count_late_sleeps(&p, 5000, 20000, &spun);
    CHECK(p.spin == 100000);
}

static void test_the_spin_begins_where_it_would_settle(void)
{
    static const struct {
        uint64_t least, step, min, settled;
    } sleeps[] = {{3000, 100, 0, 12800},          {20000, 800, 0, 92000},    {35000, 100, 0, SPIN_CHEAP_NS + 4000},
                  {100000, 1000, 0, SPIN_MAX_NS}, {3000, 100, 25000, 25000}, {34000, 65, 0, SPIN_CHEAP_NS}};
    for (size_t i = 0; i < COUNT_OF(sleeps); i++) {
        uint64_t late[REHEARSALS];
        struct pacer p = {.mode = PACING_HYBRID, .spin = 40000, .spin_min = sleeps[i].min};
        for (uint64_t k = 0; k < REHEARSALS; k++) /* in no order */
            late[k * 37 % REHEARSALS] = sleeps[i].least + k * sleeps[i].step;
        pacer_settle(&p, late, REHEARSALS);
        CHECK(p.spin == sleeps[i].settled);
    }
}

static void test_the_rehearsal_ends_before_the_start(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .spin = 33333};
    uint64_t now = now_ns();
    pacer_rehearse(&p, now + REHEARSAL_NS); /* no time for a single sleep */
    CHECK(p.spin == 33333);
    pacer_rehearse(&p, NEVER);
    CHECK(p.spin != 33333 && p.spin <= SPIN_MAX_NS && now_ns() - now >= (uint64_t)REHEARSALS * REHEARSAL_NS);
    p = (struct pacer){.mode = PACING_SLEEP};
    pacer_rehearse(&p, NEVER);
    CHECK(p.spin == 0);
}

static void test_the_spin_has_bounds(void)
{
    struct pacer p = {.mode = PACING_HYBRID, .period = RARELY, .spin = 40000, .spin_min = 40000};
    CHECK(learn(&p, NS_PER_S, 1000) == SPIN_MAX_NS);
    p = (struct pacer){.mode = PACING_HYBRID, .period = RARELY, .spin = 300000, .spin_min = 300000}; /* --spin-us 300 */
    CHECK(learn(&p, NS_PER_S, 1000) == 300000);
    CHECK(learn(&p, 0, 1000) == 300000);
    p = (struct pacer){.mode = PACING_HYBRID, .period = RARELY}; /* --spin-us 0 */
    CHECK(learn(&p, 0, 10) == 0);
    CHECK(learn(&p, 1, 1) == SPIN_CHEAP_UP_NS);
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
    struct pacer p = {.mode = PACING_HYBRID, .period = RARELY, .spin = 150000, .spin_min = 40000};
    for (int i = 0; i < 10; i++)
        (void)pacer_wait(&p, now_ns() + 20 * NS_PER_US);
    /* Less than ten steps if this process was away while it should have waited. */
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

TEST_MAIN(TEST(test_due_times_are_exact), TEST(test_jitter_stays_within_each_period),
          TEST(test_poisson_has_exponential_gaps), TEST(test_arrivals_follow_the_seed),
          TEST(test_waiting_never_ends_early), TEST(test_late_sleeps_raise_the_spin_and_early_ones_lower_it),
          TEST(test_the_spin_settles_where_few_sleeps_are_late), TEST(test_spinning_takes_a_small_part_of_the_time),
          TEST(test_the_spin_begins_where_it_would_settle), TEST(test_the_rehearsal_ends_before_the_start),
          TEST(test_the_spin_has_bounds), TEST(test_only_hybrid_pacing_learns),
          TEST(test_a_wait_too_short_to_sleep_lowers_the_spin), TEST(test_an_interruption_ends_waiting))
