/* SPDX-License-Identifier: GPL-3.0-or-later */
/* JSON: writes a document and keeps track of commas, so that its callers read like the document. */
#ifndef SOLOTEST_JSON_H
#define SOLOTEST_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "numbers.h"

struct json {
    FILE *file;
    bool comma; /* something stands before, at this level */
};

void json_raw(struct json *j, const char *text);
void json_open(struct json *j, const char *bracket);
void json_close(struct json *j, char bracket);
void json_key(struct json *j, const char *name);

/* Any bytes in, valid JSON out: what is not UTF-8 becomes the replacement character. */
void json_text(struct json *j, const char *text);
void json_wide(struct json *j, wide value);

/* The shortest of the two forms that reads back as the same number. */
void json_real(struct json *j, double value);

void json_key_text(struct json *j, const char *name, const char *value);
void json_key_u64(struct json *j, const char *name, uint64_t value);
void json_key_real(struct json *j, const char *name, double value);
void json_key_bool(struct json *j, const char *name, bool value);
void json_key_null(struct json *j, const char *name);

/* A wall-clock time in ns as epoch seconds with microseconds; 0 stands for none. */
void json_key_epoch(struct json *j, const char *name, uint64_t ns);

/* Options that were not given are negative in the settings. */
void json_key_u64_if_given(struct json *j, const char *name, int64_t value);

#endif
