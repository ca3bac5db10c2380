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

static inline char *put_bytes(char *to, const char *bytes, size_t n)
{
    memcpy(to, bytes, n);
    return to + n;
}

static inline char *put_text(char *to, const char *text)
{
    return put_bytes(to, text, strlen(text));
}

#define DIGITS 20 /* of the largest 64-bit number */

/* Writes the digits to the end of `digits` and returns how many there are. */
static inline size_t decimal(char digits[DIGITS], uint64_t value)
{
    size_t n = 0;
    do
        digits[DIGITS - ++n] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    return n;
}

/* "$<length>\r\n", the head of a bulk string */
static inline char *put_length(char *to, size_t length)
{
    char digits[DIGITS];
    size_t n = decimal(digits, length);
    *to++ = '$';
    return put_text(put_bytes(to, digits + DIGITS - n, n), "\r\n");
}

static inline char *put_key(char *to, uint64_t key)
{
    char digits[DIGITS];
    size_t n = decimal(digits, key);
    return put_text(put_bytes(put_length(to, n), digits + DIGITS - n, n), "\r\n");
}

#endif
