/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

size_t utf8_length(const unsigned char *s)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : s[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    bool overlong_or_surrogate = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
                                 (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return overlong_or_surrogate ? 0 : n;
}

bool is_control(const unsigned char *s)
{
    return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

/* Messages may quote a server, whose control characters must not reach the terminal. */
static void make_presentable(char *text)
{
    while (*text != '\0') {
        size_t n = utf8_length((const unsigned char *)text);
        if (n == 0)
            *text++ = '?';
        else if (is_control((const unsigned char *)text))
            while (n-- > 0)
                *text++ = ' ';
        else
            text += n;
    }
}

bool fail(struct failure *f, int exit_code, const char *kind, const char *format, ...)
{
    if (f->exit_code != EXIT_OK)
        return false;
    f->exit_code = exit_code;
    f->kind = kind;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(f->message, sizeof f->message, format, arguments);
    va_end(arguments);
    make_presentable(f->message);
    return false;
}

bool fail_memory(struct failure *f)
{
    return fail_resources(f, "not enough memory");
}

bool fail_not_allowed(struct failure *f, const char *name, const char *value, const char *allowed)
{
    return fail_usage(f, "%s: '%.100s' is not allowed; allowed: %s", name, value, allowed);
}
