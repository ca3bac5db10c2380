/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "schedule.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "numbers.h"

#define HEADER "solotest-schedule 1"
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
#define MOST_SECONDS 1e9

/* Words of a phase and the options whose meaning and range they have. */
static const struct {
    const char *word, *option;
} words[] = {
    {"requests", "--requests"},       {"rate", "FREQUENCY"}, {"influence", "BIAS"},      {"read_mix", "READ_MIX"},
    {"max_seconds", "--max-seconds"}, {"seed", "--seed"},    {"arrivals", "--arrivals"},
};

/* Where the parser is, for messages. */
struct place {
    const char *file;
    size_t line;
    struct failure *failure;
};

static bool refuse_line(const struct place *at, const char *name, const char *value, const char *allowed)
{
    return fail_usage(at->failure, "%.200s:%zu: %.64s: '%.100s' is not allowed; allowed: %s", at->file, at->line, name,
                      value, allowed);
}

static bool read_seconds(const struct place *at, const char *name, const char *text, double *seconds)
{
    return (parse_real(text, seconds) && *seconds >= 0 && *seconds <= MOST_SECONDS) ||
           refuse_line(at, name, text, "seconds from 0 to 1e+09");
}

static bool set_word(const struct place *at, struct phase *phase, const char *word, const char *value)
{
    double seconds;
    struct failure inner = {0};
    if (strcmp(word, "at") == 0) {
        if (!read_seconds(at, word, value, &seconds))
            return false;
        phase->at = seconds_to_ns(seconds);
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcmp(word, words[i].word) == 0)
            return set_option(&phase->settings, words[i].option, word, value, &inner) ||
                   fail_usage(at->failure, "%.200s:%zu: %s", at->file, at->line, inner.message);
    return refuse_line(at, "phase", word, "at, requests, rate, influence, read_mix, max_seconds, seed, arrivals");
}

static bool check_phase(const struct place *at, const struct schedule *plan, const struct phase *phase, bool timed)
{
    if (!timed)
        return refuse_line(at, phase->name, "", "a phase with at=SECONDS");
    if (phase->settings.requests < 0)
        return refuse_line(at, phase->name, "", "a phase with requests=N");
    if ((double)phase->settings.requests / phase->settings.rate > MOST_SECONDS)
        return refuse_line(at, phase->name, "", "requests and a rate that take up to 1e+09 seconds");
    if (plan->count > 0 && phase->at <= plan->phases[plan->count - 1].at)
        return refuse_line(at, "at", phase->name, "phases in the order of their times");
    for (size_t i = 0; i < plan->count; i++)
        if (strcmp(plan->phases[i].name, phase->name) == 0)
            return refuse_line(at, "phase", phase->name, "a name that no other phase has");
    return true;
}

static bool parse_phase(const struct place *at, struct schedule *plan, const struct settings *s, char *text)
{
    struct phase *phase = &plan->phases[plan->count];
    char *rest = NULL, *name = strtok_r(text, " ", &rest);
    bool timed = false;
    if (name == NULL || strlen(name) >= PHASE_NAME_SIZE || strspn(name, NAME_CHARACTERS) != strlen(name))
        return refuse_line(at, "phase", name != NULL ? name : "",
                           "a name of 1 to 64 letters, digits, '.', '_' and '-'");
    *phase = (struct phase){.settings = *s};
    phase->settings.schedule = NULL;
    (void)snprintf(phase->name, sizeof phase->name, "%s", name);
    for (char *word = strtok_r(NULL, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        if (equals == NULL)
            return refuse_line(at, "phase", word, "words of the form NAME=VALUE");
        *equals = '\0';
        if (!set_word(at, phase, word, equals + 1))
            return false;
        timed = timed || strcmp(word, "at") == 0;
    }
    if (!check_phase(at, plan, phase, timed))
        return false;
    plan->count++;
    return true;
}

static bool parse_line(const struct place *at, struct schedule *plan, const struct settings *s, char *line)
{
    static const char release[] = "release_within ", phase[] = "phase ";
    if (at->line == 1)
        return strcmp(line, HEADER) == 0 || refuse_line(at, "the first line", line, HEADER);
    if (strncmp(line, release, sizeof release - 1) == 0)
        return read_seconds(at, "release_within", line + sizeof release - 1, &plan->release_within);
    if (strncmp(line, phase, sizeof phase - 1) != 0)
        return refuse_line(at, "line", line, "release_within SECONDS, or phase NAME and its words");
    return plan->count < MOST_PHASES ? parse_phase(at, plan, s, line + sizeof phase - 1)
                                     : refuse_line(at, "phase", line, "up to 10000 phases");
}

bool schedule_parse(struct schedule *plan, const struct settings *s, const char *file, char *text, struct failure *f)
{
    struct place at = {.file = file, .failure = f};
    size_t lines = 1;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    *plan = (struct schedule){.phases = calloc(min_u64(lines, MOST_PHASES), sizeof *plan->phases)};
    if (plan->phases == NULL)
        return fail_memory(f);
    for (char *line = text, *end; *line != '\0'; line = end) {
        end = strchrnul(line, '\n');
        if (*end == '\n')
            *end++ = '\0';
        at.line++;
        if (!parse_line(&at, plan, s, line))
            return false;
    }
    if (plan->count == 0 || plan->release_within <= 0)
        return fail_not_allowed(f, "--schedule", file, "a file with release_within and at least one phase");
    return true;
}

/* Reads a regular file; a FIFO would wait for ever. */
static char *read_file(const char *path)
{
    struct stat about;
    size_t used = 0;
    ssize_t n = 1;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode))
        text = calloc(1, SCHEDULE_BYTES + 2);
    while (text != NULL && n > 0 && used <= SCHEDULE_BYTES)
        if ((n = read(fd, text + used, SCHEDULE_BYTES + 1 - used)) > 0)
            used += (size_t)n;
    if (fd >= 0)
        (void)close(fd);
    if (text != NULL && (n < 0 || used > SCHEDULE_BYTES || strlen(text) != used)) {
        free(text);
        text = NULL;
    }
    return text;
}

bool schedule_read(struct schedule *plan, const struct settings *s, struct failure *f)
{
    char *text = read_file(s->schedule);
    if (text == NULL)
        return fail_not_allowed(f, "--schedule", s->schedule, "a readable text file of up to 1 MiB");
    bool ok = schedule_parse(plan, s, s->schedule, text, f);
    free(text);
    return ok;
}

void schedule_free(struct schedule *plan)
{
    free(plan->phases);
    *plan = (struct schedule){0};
}
