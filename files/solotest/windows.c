/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "windows.h"

#include "numbers.h"

struct window *windows_find(struct windows *w, uint64_t at)
{
    uint64_t number = at / w->length;
    return number < w->first ? NULL : &w->open[min_u64(number, w->first + 1) % 2];
}

uint64_t windows_end(const struct windows *w)
{
    return (w->first + 1) * w->length;
}

void windows_add_unanswered(struct windows *w, uint64_t age, uint64_t requests)
{
    struct window *oldest = &w->open[w->first % 2];
    hist_add_many(&oldest->intended, age, requests);
    hist_add_many(&oldest->punctual, age, requests);
    oldest->unanswered += requests;
}

void windows_close(struct windows *w)
{
    struct window *oldest = &w->open[w->first % 2];
    w->write(w);
    hist_clear(&oldest->server);
    hist_clear(&oldest->intended);
    hist_clear(&oldest->punctual);
    oldest->unanswered = 0;
    w->first++;
}
