/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * RESP, the protocol of Redis: each put_ function writes a part of a command into a buffer that is
 * large enough, and returns its end.
 */
#ifndef SOLOTEST_RESP_H
#define SOLOTEST_RESP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

char *put_bytes(char *to, const char *bytes, size_t n);

char *put_text(char *to, const char *text);

#define DIGITS 20 /* of the largest 64-bit number */

size_t count_digits(uint64_t value);

/* Writes the `n` digits of a number. */
char *put_digits(char *to, uint64_t value, size_t n);

/* "$<length>\r\n", the head of a bulk string */
char *put_length(char *to, size_t length);

char *put_key(char *to, uint64_t key);

#endif
