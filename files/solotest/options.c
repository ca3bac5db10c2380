/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "chooser.h"
#include "latency.h"
#include "numbers.h"
#include "pacer.h"
#include "realtime.h"

const struct settings default_settings = {
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
    .spin_us = 0,
    .start_at = -1,
    .seed = -1,
    .cpu = -1,
    .timeout = 30,
    .connect_timeout = 1.5,
};

const char *const pattern_names[] = {"gaussian", "uniform", "sequential", NULL};
const char *const pacing_names[] = {"hybrid", "sleep", "spin", "none", NULL};
const char *const arrivals_names[] = {"periodic", "jitter", "poisson", NULL};
const char *const realtime_names[] = {"auto", "required", "off", NULL};

#define MAX_VALUE 536870912         /* 512 MB: the longest string in Redis */
#define MAX_SLOTS 65536             /* connections x pipeline */
#define MAX_RAW 20000000            /* samples: the brief's KEY_COUNT */
#define MAX_SOCKET_PATH 107         /* sun_path holds a zero byte as well */
#define MAX_SECONDS 1e9             /* 30 years: a schedule in nanoseconds fits into 63 bits */
#define MAX_SEED 9007199254740991.0 /* 2^53 - 1: any JSON reader holds it exactly */

_Static_assert(sizeof(((struct sockaddr_un *)0)->sun_path) == MAX_SOCKET_PATH + 1, "sun_path");

#define FIELD(field) offsetof(struct settings, field)
#define FLAG(name, field, help) {name, VALUE_FLAG, FIELD(field), 0, 0, NULL, NULL, help}
#define TEXT(name, field, argument, help) {name, VALUE_TEXT, FIELD(field), 0, 0, NULL, argument, help}
#define CHOICE(name, field, choices, help) {name, VALUE_CHOICE, FIELD(field), 0, 0, choices, "NAME", help}
#define INTEGER(name, field, argument, min, max, help)                                                                 \
    {name, VALUE_INTEGER, FIELD(field), min, max, NULL, argument, help}
#define REAL(name, field, argument, min, max, help) {name, VALUE_REAL, FIELD(field), min, max, NULL, argument, help}

static const struct option_spec positional_specs[] = {
    TEXT("MODE", mode, NULL, "contains `fill', `test' or both, or `ping'; any case (test)"),
    INTEGER("PORT", port, NULL, 1, 65535, "of Redis (6379)"),
    INTEGER("VALUE_SIZE", value_size, NULL, 1, MAX_VALUE, "bytes (1000)"),
    INTEGER("KEY_COUNT", key_count, NULL, 1, MAX_KEYS, "number of keys, 0 to KEY_COUNT-1, and of requests (20000000)"),
    REAL("BIAS", influence, NULL, -1e6, 1e6, "influence: pull of keys to the middle; 0 is flat (-1)"),
    REAL("FREQUENCY", rate, NULL, 1e-3, 1e9, "requests per second (1000000)"),
    INTEGER("READ_MIX", read_mix, NULL, READ_MIX_ONLY_SETS, 100,
            "percent of GETs; SET if floor(100 V) > READ_MIX, so -1 sends only SETs (100)"),
};

const struct option_spec option_specs[] = {
    TEXT("--host", host, "HOST", "name or address of Redis (127.0.0.1)"),
    TEXT("--socket", socket, "PATH", "Unix socket of Redis, instead of host and port"),
    TEXT("--user", user, "NAME", "ACL user; the password comes from the file or the environment"),
    TEXT("--password-file", password_file, "FILE", "file whose first line is the password (SOLOTEST_PASSWORD)"),
    FLAG("--tls", tls, "encrypt the connection, and verify the server's certificate"),
    TEXT("--cacert", ca_file, "FILE", "trust these CA certificates, PEM (those of this machine)"),
    TEXT("--cert", certificate, "FILE", "the client's certificate and its chain, PEM"),
    TEXT("--key", key_file, "FILE", "private key of --cert, PEM, without a password"),
    TEXT("--sni", server_name, "NAME", "name of the server, which its certificate must have (HOST)"),
    FLAG("--insecure", insecure, "do not verify the server's certificate"),
    INTEGER("--requests", requests, "N", 1, 1e12, "number of requests of a test (KEY_COUNT)"),
    REAL("--duration", duration, "SECONDS", 1e-3, MAX_SECONDS, "length of the schedule, instead of or with --requests"),
    REAL("--max-seconds", max_seconds, "SECONDS", 1e-3, MAX_SECONDS,
         "send nothing after that time, even if requests are left"),
    INTEGER("--connections", connections, "N", 1, 512, "number of connections (1)"),
    INTEGER("--pipeline", pipeline, "N", 1, 4096, "requests in flight per connection (1)"),
    CHOICE("--pattern", pattern, pattern_names, "choice of keys (gaussian, with BIAS)"),
    CHOICE("--pacing", pacing, pacing_names, "how to wait for a due time (hybrid); none is a closed loop"),
    CHOICE("--arrivals", arrivals, arrivals_names,
           "due times: evenly spaced (periodic), random in each period, or random"),
    INTEGER("--spin-us", spin_us, "N", 0, 1000000, "hybrid: spin for at least that long before the due time (0)"),
    REAL("--start-at", start_at, "EPOCH_SECONDS", 0, MAX_EPOCH_SECONDS, "start at this wall-clock time"),
    REAL("--stagger", stagger, "FRACTION", 0, 0.999999999,
         "send the first request that fraction of 1/FREQUENCY later (0)"),
    INTEGER("--seed", seed, "N", 0, MAX_SEED, "the same seed gives the same keys and values (random)"),
    REAL("--compressibility", compressibility, "R", 0, 1, "share of the values that LZ4 saves (0)"),
    CHOICE("--realtime", realtime, realtime_names,
           "run at a real-time priority while requests are sent, and sleep between them (auto: where it may)"),
    INTEGER("--cpu", cpu, "N", 0, CPU_SETSIZE - 1, "run on this CPU only"),
    REAL("--timeout", timeout, "SECONDS", 1e-3, 86400, "give up when a reply takes that long (30)"),
    REAL("--connect-timeout", connect_timeout, "SECONDS", 1e-3, 3600, "give up connecting after that time (1.5)"),
    TEXT("--raw", raw_file, "FILE", "write each request's service, response, intended, lateness, wakeup, server in ns"),
    TEXT("--schedule", schedule, "FILE", "run the phases of this file, from a common start that FILE.start holds"),
    REAL("--windows", windows, "SECONDS", 0.05, 3600,
         "print the bounds of each part of this many seconds at once, and end normally when stopped"),
    TEXT("--lease", lease, "FILE", "with --windows: end when nobody has touched this file for 5 s, or it is removed"),
    FLAG("--protect", protect, "fill without FLUSHALL: delete only own keys, refuse other data"),
    FLAG("--json", json, "print one JSON object instead of the six lines"),
    FLAG("--progress", progress, "print progress on standard error, once a second"),
    FLAG("--help", help, "print this text"),
    FLAG("--version", version, "print the version"),
};

const size_t option_spec_count = COUNT_OF(option_specs);

bool parse_integer(const char *text, int64_t *value)
{
    const char *digits = text + (*text == '-');
    if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits))
        return false;
    errno = 0;
    *value = strtoll(text, NULL, 10);
    return errno == 0;
}

bool parse_real(const char *text, double *value)
{
    if (*text == '\0' || strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && isfinite(*value);
}

bool parse_choice(const char *text, const char *const *choices, int64_t *value)
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

static bool out_of_range(struct failure *f, const struct option_spec *spec, const char *text)
{
    char allowed[160];
    if (spec->choices != NULL)
        join_choices(spec->choices, allowed, sizeof allowed);
    else
        (void)snprintf(allowed, sizeof allowed, "%s from %.16g to %.16g",
                       spec->type == VALUE_INTEGER ? "a whole number" : "a number", spec->min, spec->max);
    return fail_not_allowed(f, spec->name, text, allowed);
}

static bool set_value(struct settings *s, const struct option_spec *spec, const char *text, struct failure *f)
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
            return fail_not_allowed(f, spec->name, text, "a text that is not empty");
        memcpy(field, &text, sizeof text);
        return true;
    case VALUE_CHOICE:
        if (!parse_choice(text, spec->choices, &integer))
            return out_of_range(f, spec, text);
        memcpy(field, &integer, sizeof integer);
        return true;
    case VALUE_INTEGER:
        if (!parse_integer(text, &integer) || (double)integer < spec->min || (double)integer > spec->max)
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
        if (strlen(option_specs[i].name) == length && strncmp(option_specs[i].name, text, length) == 0)
            return &option_specs[i];
    return NULL;
}

bool set_option(struct settings *s, const char *name, const char *called, const char *text, struct failure *f)
{
    const struct option_spec *found = find_option(name, strlen(name));
    for (size_t i = 0; found == NULL && i < COUNT_OF(positional_specs); i++)
        if (strcmp(positional_specs[i].name, name) == 0)
            found = &positional_specs[i];
    struct option_spec spec = *found;
    spec.name = called;
    return set_value(s, &spec, text, f);
}

/* True for an option, false for a negative number such as a BIAS of -1 or -.5. */
static bool is_option(const char *text)
{
    return text[0] == '-' && text[1] != '\0' && text[1] != '.' && !isdigit((unsigned char)text[1]);
}

static bool parse_option(struct settings *s, int argc, char **argv, int *i, struct failure *f)
{
    const char *text = argv[*i];
    const char *equals = strchr(text, '=');
    size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text);
    const struct option_spec *spec = find_option(text, length);
    if (spec == NULL)
        return fail_usage(f, "unknown option '%.100s'; --help lists all options", text);
    if (spec->type == VALUE_FLAG) {
        if (equals != NULL)
            return fail_not_allowed(f, spec->name, equals + 1, "no value");
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

uint64_t planned_requests(const struct settings *s)
{
    if (s->windows > 0 && s->duration < 0 && s->requests < 0)
        return 0;
    if (s->duration < 0)
        return (uint64_t)(s->requests > 0 ? s->requests : s->key_count);
    if (s->pacing == PACING_NONE)
        return s->requests > 0 ? (uint64_t)s->requests : 0;
    uint64_t scheduled = (uint64_t)fmax(1, ceil(s->duration * s->rate));
    return s->requests > 0 ? min_u64(scheduled, (uint64_t)s->requests) : scheduled;
}

static bool check_tls(const struct settings *s, struct failure *f)
{
    const char *needless = s->ca_file != NULL       ? "--cacert"
                           : s->certificate != NULL ? "--cert"
                           : s->key_file != NULL    ? "--key"
                           : s->server_name != NULL ? "--sni"
                           : s->insecure            ? "--insecure"
                                                    : NULL;
    if (!s->tls && needless != NULL)
        return fail_usage(f, "%s needs --tls", needless);
    if (s->tls && s->socket != NULL)
        return fail_usage(f, "--tls is not for --socket: Redis has no TLS on a Unix socket");
    if ((s->certificate == NULL) != (s->key_file == NULL))
        return fail_usage(f, "--cert and --key need each other");
    return true;
}

static bool check_windows(struct settings *s, struct failure *f)
{
    if (s->windows <= 0)
        return s->lease == NULL || fail_usage(f, "--lease needs --windows");
    const char *needless = s->schedule != NULL        ? "--schedule"
                           : s->raw_file != NULL      ? "--raw"
                           : s->pacing == PACING_NONE ? "--pacing none"
                           : s->fill || s->ping       ? s->mode
                                                      : NULL;
    s->json = true;
    return needless == NULL || fail_usage(f, "--windows: not possible with %s", needless);
}

static bool check_schedule(struct settings *s, struct failure *f)
{
    if (s->schedule == NULL)
        return true;
    const char *needless = s->start_at >= 0           ? "--start-at"
                           : s->raw_file != NULL      ? "--raw"
                           : s->requests >= 0         ? "--requests"
                           : s->duration >= 0         ? "--duration"
                           : s->max_seconds >= 0      ? "--max-seconds"
                           : s->pacing == PACING_NONE ? "--pacing none"
                           : s->fill || s->ping       ? s->mode
                                                      : NULL;
    s->json = true;
    return needless == NULL || fail_usage(f, "--schedule: not possible with %s", needless);
}

/* Checks that concern several options. */
static bool check_combinations(struct settings *s, struct failure *f)
{
    s->fill = contains_ignoring_case(s->mode, "fill");
    s->test = contains_ignoring_case(s->mode, "test");
    s->ping = contains_ignoring_case(s->mode, "ping");
    if (!s->fill && !s->test && !s->ping)
        return fail_not_allowed(f, "MODE", s->mode, "a word that contains fill, test or both, or ping");
    if (s->socket != NULL && strlen(s->socket) > MAX_SOCKET_PATH)
        return fail_not_allowed(f, "--socket", s->socket, "up to 107 bytes");
    if (!check_windows(s, f) || !check_schedule(s, f))
        return false;
    if (s->connections * s->pipeline > MAX_SLOTS)
        return fail_usage(f, "--connections times --pipeline: '%" PRId64 "' is not allowed; allowed: up to %d",
                          s->connections * s->pipeline, MAX_SLOTS);
    if (s->pacing != PACING_NONE && (double)planned_requests(s) / s->rate > MAX_SECONDS)
        return fail_usage(
            f, "FREQUENCY: '%g' is not allowed for %" PRIu64 " requests; allowed: a schedule of up to %g seconds",
            s->rate, planned_requests(s), MAX_SECONDS);
    if (s->raw_file != NULL && planned_requests(s) > MAX_RAW)
        return fail_usage(f,
                          "--raw: '%" PRIu64 "' requests are not allowed; allowed: up to %d requests, whose samples "
                          "take %d MB of memory",
                          planned_requests(s), MAX_RAW, MAX_RAW / 1000000 * (int)sizeof(struct latencies));
    if (s->raw_file != NULL && planned_requests(s) == 0)
        return fail_usage(f, "--raw needs a known number of requests: add --requests to a closed loop");
    if (s->realtime == REALTIME_REQUIRED && (s->pacing == PACING_SPIN || s->pacing == PACING_NONE))
        return fail_usage(f, "--realtime required: not possible with --pacing %s, which would take the CPU from others",
                          pacing_names[s->pacing]);
    return check_tls(s, f);
}

bool parse_arguments(struct settings *s, int argc, char **argv, struct failure *f)
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

void print_help(void)
{
    (void)puts("usage: solotest [OPTIONS] [MODE [PORT [VALUE_SIZE [KEY_COUNT [BIAS [FREQUENCY "
               "[READ_MIX]]]]]]]\n\n"
               "Measures the latency of a Redis under an open schedule of requests. A test prints\n"
               "requests, average, minimum, maximum, p99 and p95 of its service time in seconds,\n"
               "one per line. A fill empties the Redis (FLUSHALL) and sets the keys 0 to KEY_COUNT-1\n"
               "and a note of that, memstretch:fill, from which --protect recognises them.\n"
               "A ping asks the Redis about itself and sends no load.\n\n"
               "Arguments (defaults in parentheses)");
    for (size_t i = 0; i < COUNT_OF(positional_specs); i++)
        print_spec(&positional_specs[i]);
    (void)puts("\nOptions");
    for (size_t i = 0; i < COUNT_OF(option_specs); i++)
        print_spec(&option_specs[i]);
    (void)puts("\nExit status: 0 done; 1 some requests failed; 2 usage; 3 cannot connect or\n"
               "authenticate, or not a Redis of its own; 4 connection lost, time-out or protocol error; 5 refused by "
               "--protect;\n"
               "6 output could not be written; 7 not enough memory or open files for the client;\n"
               "128 + signal if interrupted.");
}
