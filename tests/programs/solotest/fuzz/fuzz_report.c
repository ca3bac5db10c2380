/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Any texts and numbers in a report: the output is one JSON object and nothing else. Also any text from a
 * server that is parsed: INFO keyspace, the note of a fill and error replies.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "solotest/ownership.h"
#include "solotest/report.h"

static const char *skip_value(const char *s);

static const char *skip_string(const char *s)
{
    for (s++; *s != '"'; s++) {
        if ((unsigned char)*s < 0x20)
            return NULL;
        if (*s == '\\') {
            s++;
            if (*s == 'u') {
                for (int i = 0; i < 4; i++)
                    if (!isxdigit((unsigned char)*++s))
                        return NULL;
            } else if (*s == '\0' || strchr("\"\\/bfnrt", *s) == NULL) {
                return NULL;
            }
        }
    }
    return s + 1;
}

static const char *skip_number(const char *s)
{
    const char *digits = s + (*s == '-');
    if (!isdigit((unsigned char)*digits) || (digits[0] == '0' && isdigit((unsigned char)digits[1])))
        return NULL;
    return s + strspn(s, "0123456789+-.eE");
}

static const char *skip_container(const char *s, char close)
{
    if (*++s == close)
        return s + 1;
    for (;;) {
        if (close == '}') {
            if (*s != '"' || (s = skip_string(s)) == NULL || *s++ != ':')
                return NULL;
        }
        if ((s = skip_value(s)) == NULL)
            return NULL;
        if (*s == close)
            return s + 1;
        if (*s++ != ',')
            return NULL;
    }
}

static const char *skip_value(const char *s)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strncmp(s, words[i], strlen(words[i])) == 0)
            return s + strlen(words[i]);
    if (*s == '"')
        return skip_string(s);
    if (*s == '{' || *s == '[')
        return skip_container(s, *s == '{' ? '}' : ']');
    return skip_number(s);
}

static uint64_t take_number(const uint8_t **data, size_t *size)
{
    uint64_t value = 0;
    size_t n = *size < sizeof value ? *size : sizeof value;
    memcpy(&value, *data, n);
    *data += n;
    *size -= n;
    return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct measurement m;
    static uint32_t slots[SERIES_POINTS][HIST_SLOTS]; /* never cleared: their sums do not matter here */
    struct settings s = default_settings;
    struct outcome o = {.test = {.done = true, .measurement = &m}, .fill = {.done = true}};
    memset(&m, 0, sizeof m);
    m.series.slots = slots;
    m.series.interval = UINT64_C(1) << 31; /* no value below is beyond its end */
    for (int i = 0; i < 8; i++) {
        uint64_t value = take_number(&data, &size);
        hist_add_many(&m.service, value, 1);
        hist_add_many(&m.lateness, value >> 20, 1);
        series_add(&m.series, value >> 30, value);
    }
    s.rate = (double)take_number(&data, &size);
    s.port = (int64_t)(take_number(&data, &size) >> 1);
    o.test.started = take_number(&data, &size);
    o.fill.dbsize = (int64_t)take_number(&data, &size);
    o.health.measured = true;
    series_finish(&m.series);
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    s.host = text;
    s.json = true;
    (void)fail(&o.failure, EXIT_LOST, "protocol", "%s", text);
    char kind[ERROR_KIND_SIZE];
    error_kind_of(text, kind);
    errors_add(&o.test.exchange.errors, kind, 1);
    const char *lines[] = {find_foreign_database(text), find_expiring_keys(text)};
    for (size_t i = 0; i < COUNT_OF(lines); i++)
        if (lines[i] != NULL && (lines[i] < text || lines[i] > text + size))
            abort();
    struct note note;
    if (note_read(&note, text, size) && (note.keys < 1 || note.smallest < 1 || note.largest < note.smallest))
        abort();
    o.test.exchange.settings = &s;

    char *json = NULL;
    size_t json_size = 0;
    FILE *file = open_memstream(&json, &json_size);
    report_json(file, &s, &o);
    (void)fclose(file);
    const char *end = skip_value(json);
    if (json[0] != '{' || end == NULL || strcmp(end, "\n") != 0 || strlen(json) != json_size)
        abort();
    free(json);
    free(text);
    return 0;
}
