/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "reply.h"

#include <string.h>

#include "numbers.h"
#include "options.h"

void reply_begin(struct reply *r)
{
    r->size = r->body = r->line_size = 0;
    r->type = '\0';
    r->is_nil = r->complete = r->after_return = false;
    r->length = -1;
    r->problem = NULL;
    r->text[0] = '\0';
    r->elements = 1;
}

static void element_done(struct reply *r)
{
    r->complete = --r->elements == 0;
}

/* Begins a value or an array of `count` bytes or elements; -1 is nil. */
static void take_count(struct reply *r, char type, int64_t count, bool outermost)
{
    if (count < -1 || count > INT32_MAX) {
        r->problem = "a length that no reply has";
    } else if (count == -1) {
        r->is_nil = r->is_nil || outermost;
        element_done(r);
    } else if (type == '$') {
        r->length = outermost ? count : -1;
        r->body = (uint64_t)count + 2;
    } else {
        r->elements += (uint64_t)count;
        element_done(r);
    }
}

static void take_line(struct reply *r)
{
    bool outermost = r->type == '\0';
    int64_t number = 0;
    r->line[r->line_size] = '\0';
    char type = r->line[0];
    if (outermost) {
        r->type = type;
        memcpy(r->text, r->line_size > 0 ? r->line + 1 : "", r->line_size > 0 ? r->line_size : 1);
    }
    r->line_size = 0;
    if (type == '+' || type == '-')
        element_done(r);
    else if (type == '\0' || strchr(":$*", type) == NULL)
        r->problem = "a reply of an unknown type";
    else if (!parse_integer(r->line + 1, &number))
        r->problem = "a reply without its number";
    else if (type == ':')
        element_done(r);
    else
        take_count(r, type, number, outermost);
}

static void take_line_byte(struct reply *r, char byte)
{
    if (r->after_return && byte == '\n') {
        r->after_return = false;
        take_line(r);
        return;
    }
    r->after_return = byte == '\r';
    if (!r->after_return && r->line_size < sizeof r->line - 1)
        r->line[r->line_size++] = byte;
}

static size_t take_body(struct reply *r, const char *data, size_t size)
{
    if (r->body > 2) {
        size_t n = (size_t)min_u64(size, r->body - 2);
        r->body -= n;
        return n;
    }
    if (*data != (r->body == 2 ? '\r' : '\n'))
        r->problem = "a value without its line end";
    else if (--r->body == 0)
        element_done(r);
    return 1;
}

size_t reply_take(struct reply *r, const char *data, size_t size)
{
    size_t used = 0;
    while (used < size && !r->complete && r->problem == NULL) {
        if (r->body > 0)
            used += take_body(r, data + used, size - used);
        else
            take_line_byte(r, data[used++]);
    }
    r->size += used;
    return used;
}
