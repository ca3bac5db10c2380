/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options: defaults, ranges and messages. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "solotest/options.h"
#include "solotest/pacer.h"
#include "check.h"

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
    CHECK(strcmp(parsed.host, "127.0.0.1") == 0 && parsed.pacing == PACING_HYBRID && parsed.spin_us == 0);
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
        {"test 65536", "PORT"},
        {"test 6379x", "PORT"},
        {"test 0x10", "PORT"},
        {"test 1e3", "PORT"},
        {"test 99999999999999999999", "PORT"},
        {"test -1", "PORT"},
        {"test 1 0", "VALUE_SIZE"},
        {"test 1 536870913", "VALUE_SIZE"},
        {"test 1 1.5", "VALUE_SIZE"},
        {"test 1 1 0", "KEY_COUNT"},
        {"test 1 1 -5", "KEY_COUNT"},
        {"test 1 1 1 nan", "BIAS"},
        {"test 1 1 1 inf", "BIAS"},
        {"test 1 1 1 1e400", "BIAS"},
        {"test 1 1 1 1.2.3", "BIAS"},
        {"test 1 1 1 -", "BIAS"},
        {"test 1 1 1 -1e7", "BIAS"},
        {"test 1 1 1 0 0", "FREQUENCY"},
        {"test 1 1 1 0 -5", "FREQUENCY"},
        {"test 1 1 1 0 2e9", "FREQUENCY"},
        {"test 1 1 1 0 1 101", "READ_MIX"},
        {"test 1 1 1 0 1 -2", "READ_MIX"},
        {"test 1 1 1 0 1 7.5", "READ_MIX"},
        {"test 1 1 1 0 1 100 8", "'8' is one argument too many"},
        {"--nonsense", "unknown option '--nonsense'"},
        {"-x", "unknown option '-x'"},
        {"--json=1", "--json: '1' is not allowed; allowed: no value"},
        {"--requests", "--requests needs a value"},
        {"--requests=", "--requests: ''"},
        {"--requests 0", "--requests"},
        {"--host=", "--host: ''"},
        {"--pattern zipf", "--pattern: 'zipf' is not allowed; allowed: gaussian, uniform, sequential"},
        {"--pacing fast", "--pacing: 'fast' is not allowed; allowed: hybrid, sleep, spin, none"},
        {"--duration 0", "--duration"},
        {"--connections 0", "--connections"},
        {"--pipeline 99999", "--pipeline"},
        {"--connections 512 --pipeline 512", "--connections times --pipeline: '262144'"},
        {"--spin-us -1", "--spin-us"},
        {"--start-at -1", "--start-at"},
        {"--stagger 1", "--stagger"},
        {"--stagger -0.1", "--stagger"},
        {"--seed -1", "--seed"},
        {"--compressibility 1.01", "--compressibility"},
        {"--cpu -1", "--cpu"},
        {"--timeout 0", "--timeout"},
        {"--connect-timeout 0", "--connect-timeout"},
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
    for (size_t i = 0; i < option_spec_count; i++) {
        const struct option_spec *spec = &option_specs[i];
        char line[96];
        if (spec->type != VALUE_INTEGER && spec->type != VALUE_REAL)
            continue;
        for (int bound = 0; bound < 2; bound++) {
            (void)snprintf(line, sizeof line, "%s=%.16g", spec->name, bound == 0 ? spec->min : spec->max);
            CHECK(parse(line));
        }
    }
}

TEST_MAIN(TEST(test_defaults), TEST(test_positionals), TEST(test_planned_requests), TEST(test_bad_usage_is_named),
          TEST(test_bounds_themselves_are_allowed))
