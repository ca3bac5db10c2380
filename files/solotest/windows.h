/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Windows: the bounds of the latencies for each part of a test, while it runs. A request belongs to the window
 * in which it was due. A window is closed when all of its requests are answered, and at the end of the next
 * window at the latest: what is missing then counts with its age, as unanswered. So two windows are open at a
 * time.
 */
#ifndef SOLOTEST_WINDOWS_H
#define SOLOTEST_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"

struct window {
    uint64_t unanswered;
    struct histogram server, intended, punctual;
};

struct windows {
    uint64_t length;                        /* ns */
    uint64_t first;                         /* the number of the oldest window that is open */
    uint64_t too_late;                      /* replies for windows that were closed */
    struct window open[2];                  /* by number modulo 2 */
    void (*write)(const struct windows *w); /* the oldest one, which is complete */
};

/* The open window of a request that was due so long after the start; NULL if it is closed. */
struct window *windows_find(struct windows *w, uint64_t at);

/* When the oldest window ends, after the start. */
uint64_t windows_end(const struct windows *w);

/* Adds requests of the oldest window with the time that they have waited. */
void windows_add_unanswered(struct windows *w, uint64_t age, uint64_t requests);

/* Writes the oldest window and begins another one. */
void windows_close(struct windows *w);

#endif
