/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "errors.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The last entry counts all kinds for which there is no other entry left. */
void errors_add(struct errors *e, const char *kind, uint64_t count)
{
    if (count == 0)
        return;
    size_t i = 0;
    while (i < e->used && i < ERROR_KINDS - 1 && strcmp(e->kinds[i].kind, kind) != 0)
        i++;
    if (i == e->used) {
        (void)snprintf(e->kinds[i].kind, sizeof e->kinds[i].kind, "%s", i < ERROR_KINDS - 1 ? kind : "other");
        e->used++;
    }
    e->kinds[i].count += count;
    e->total += count;
}

void error_kind_of(const char *text, char kind[ERROR_KIND_SIZE])
{
    size_t n = 0;
    while (n + 1 < ERROR_KIND_SIZE && (isupper((unsigned char)text[n]) || text[n] == '_'))
        n++;
    if (n == 0 || (text[n] != ' ' && text[n] != '\0')) {
        text = "ERR";
        n = 3;
    }
    memcpy(kind, text, n);
    kind[n] = '\0';
}

void errors_describe(const struct errors *e, char *to, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < e->used && used < size; i++) {
        int n =
            snprintf(to + used, size - used, "%s%s %" PRIu64, i > 0 ? ", " : "", e->kinds[i].kind, e->kinds[i].count);
        used += n > 0 ? (size_t)n : 0;
    }
}
