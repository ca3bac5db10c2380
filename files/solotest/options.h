/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Options: the settings of a run, taken from the command line. One table drives parsing, range
 * checks, messages and --help. Settings that are accepted are in range and go together.
 */
#ifndef SOLOTEST_OPTIONS_H
#define SOLOTEST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

struct settings {
    const char *mode;
    bool fill, test, ping;
    int64_t port, value_size, key_count, read_mix;
    double influence, rate;
    const char *host, *socket, *user, *password_file, *raw_file, *schedule, *lease;
    const char *ca_file, *certificate, *key_file, *server_name; /* of TLS; NULL: not given */
    int64_t requests;                                           /* -1: not given */
    double duration;                                            /* -1: not given */
    double max_seconds;                                         /* -1: not given */
    double windows;                                             /* 0: not given */
    int64_t connections, pipeline, spin_us;
    int64_t pattern, pacing, arrivals, realtime; /* enum pattern, enum pacing, enum arrivals, enum realtime */
    double start_at;                             /* -1: not given */
    double stagger;
    int64_t seed; /* -1: not given */
    double compressibility;
    int64_t cpu; /* -1: not given */
    double timeout, connect_timeout;
    bool tls, insecure, protect, json, progress, help, version;
};

extern const struct settings default_settings;

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

extern const struct option_spec option_specs[];
extern const size_t option_spec_count;
/* By enum pattern, enum pacing and enum arrivals; the last one is NULL. */
extern const char *const pattern_names[], *const pacing_names[], *const arrivals_names[], *const realtime_names[];

#define MAX_KEYS 1e12                  /* 12 digits: a key fits every buffer, and a double holds it exactly */
#define MAX_EPOCH_SECONDS 4102444800.0 /* the year 2100 */

bool parse_arguments(struct settings *s, int argc, char **argv, struct failure *f);

/* Sets what the option or argument `name` sets; a message calls it `called`. */
bool set_option(struct settings *s, const char *name, const char *called, const char *text, struct failure *f);

/* How many requests the test will send; 0 if only the clock ends it (closed loop, duration), or a request to
 * stop (windows). */
uint64_t planned_requests(const struct settings *s);

void print_help(void);

/* Accepts only digits after an optional minus; strtoll() also accepts spaces and "1abc". */
bool parse_integer(const char *text, int64_t *value);

/* Accepts only a decimal number; strtod() also accepts spaces, hexadecimal, "inf" and "nan". */
bool parse_real(const char *text, double *value);

bool parse_choice(const char *text, const char *const *choices, int64_t *value);

#endif
