/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "clock.h"
#include "failure.h"

void json_raw(struct json *j, const char *text)
{
    if (j->comma)
        (void)fputc(',', j->file);
    (void)fputs(text, j->file);
    j->comma = true;
}

void json_open(struct json *j, const char *bracket)
{
    json_raw(j, bracket);
    j->comma = false;
}

void json_close(struct json *j, char bracket)
{
    (void)fputc(bracket, j->file);
    j->comma = true;
}

void json_key(struct json *j, const char *name)
{
    if (j->comma)
        (void)fputc(',', j->file);
    (void)fprintf(j->file, "\"%s\":", name);
    j->comma = false;
}

void json_text(struct json *j, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (text == NULL) {
        json_raw(j, "null");
        return;
    }
    json_raw(j, "\"");
    while (*s != '\0') {
        size_t n = utf8_length(s);
        if (n == 0)
            (void)fputs("\\ufffd", j->file);
        else if (is_control(s))
            (void)fprintf(j->file, "\\u%04x", s[n - 1]); /* of two bytes, the second is the character's number */
        else if (*s == '"' || *s == '\\')
            (void)fprintf(j->file, "\\%c", *s);
        else
            (void)fwrite(s, 1, n, j->file);
        s += n > 0 ? n : 1;
    }
    (void)fputc('"', j->file);
}

void json_wide(struct json *j, wide value)
{
    char digits[40];
    size_t i = sizeof digits;
    digits[--i] = '\0';
    do
        digits[--i] = (char)('0' + (int)(value % 10));
    while ((value /= 10) != 0);
    json_raw(j, digits + i);
}

void json_real(struct json *j, double value)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%.15g", value);
    if (strtod(text, NULL) != value)
        (void)snprintf(text, sizeof text, "%.17g", value);
    json_raw(j, isfinite(value) ? text : "null");
}

static void json_bool(struct json *j, bool value)
{
    json_raw(j, value ? "true" : "false");
}

static void json_epoch(struct json *j, uint64_t ns)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64, ns / NS_PER_S, ns % NS_PER_S / NS_PER_US);
    json_raw(j, ns == 0 ? "null" : text);
}

void json_key_text(struct json *j, const char *name, const char *value)
{
    json_key(j, name);
    json_text(j, value);
}

void json_key_u64(struct json *j, const char *name, uint64_t value)
{
    json_key(j, name);
    json_wide(j, value);
}

void json_key_real(struct json *j, const char *name, double value)
{
    json_key(j, name);
    json_real(j, value);
}

void json_key_bool(struct json *j, const char *name, bool value)
{
    json_key(j, name);
    json_bool(j, value);
}

void json_key_epoch(struct json *j, const char *name, uint64_t ns)
{
    json_key(j, name);
    json_epoch(j, ns);
}

void json_key_seconds(struct json *j, const char *name, uint64_t ns)
{
    char text[40];
    (void)snprintf(text, sizeof text, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S, ns % NS_PER_S);
    json_key(j, name);
    json_raw(j, text);
}

void json_key_null(struct json *j, const char *name)
{
    json_key(j, name);
    json_raw(j, "null");
}

void json_key_u64_if_given(struct json *j, const char *name, int64_t value)
{
    if (value < 0)
        json_key_null(j, name);
    else
        json_key_u64(j, name, (uint64_t)value);
}
