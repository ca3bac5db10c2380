/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * JSON: writes a document and places the commas, so that the calls read like the document.
 */
#ifndef SOLOTEST_JSON_H
#define SOLOTEST_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "numbers.h"

struct json {
    FILE *file;
    bool comma; /* a value comes before, at this level */
};

void json_raw(struct json *j, const char *text);
void json_open(struct json *j, const char *bracket);
void json_close(struct json *j, char bracket);
void json_key(struct json *j, const char *name);

/* Accepts any bytes; what is not UTF-8 becomes the replacement character. NULL becomes null. */
void json_text(struct json *j, const char *text);
void json_wide(struct json *j, wide value);

/* The shorter of two forms that reads back as the same number. */
void json_real(struct json *j, double value);

void json_key_text(struct json *j, const char *name, const char *value);
void json_key_u64(struct json *j, const char *name, uint64_t value);
void json_key_real(struct json *j, const char *name, double value);
void json_key_bool(struct json *j, const char *name, bool value);
void json_key_null(struct json *j, const char *name);

/* Seconds with all nine decimals. */
void json_key_seconds(struct json *j, const char *name, uint64_t ns);

/* A wall-clock time in ns as epoch seconds with microseconds; 0 becomes null. */
void json_key_epoch(struct json *j, const char *name, uint64_t ns);

/* A negative value means that there is none, and becomes null. */
void json_key_u64_if_given(struct json *j, const char *name, int64_t value);

#endif
