/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "resp.h"

inline char *put_bytes(char *to, const char *bytes, size_t n)
{
    memcpy(to, bytes, n);
    return to + n;
}

inline char *put_text(char *to, const char *text)
{
    return put_bytes(to, text, strlen(text));
}

inline size_t count_digits(uint64_t value)
{
    size_t n = 1;
    for (uint64_t limit = 10; n < DIGITS && value >= limit; limit *= 10)
        n++;
    return n;
}

inline char *put_digits(char *to, uint64_t value, size_t n)
{
    for (size_t i = n; i-- > 0; value /= 10)
        to[i] = (char)('0' + value % 10);
    return to + n;
}

inline char *put_length(char *to, size_t length)
{
    *to++ = '$';
    return put_text(put_digits(to, length, count_digits(length)), "\r\n");
}

inline char *put_key(char *to, uint64_t key)
{
    size_t n = count_digits(key);
    return put_text(put_digits(put_length(to, n), key, n), "\r\n");
}
