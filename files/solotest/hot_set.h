/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Hot set: how many keys received 50, 90 and 99 % of the accesses. The chooser is repeatable, so
 * the accesses are replayed after the run instead of being counted during it. The counters use the
 * memory of the time series, which is free by then; keys that do not fit are counted in further
 * passes.
 */
#ifndef SOLOTEST_HOT_SET_H
#define SOLOTEST_HOT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chooser.h"

#define HOT_SHARES 3

extern const unsigned hot_permille[HOT_SHARES];

struct hot_set {
    bool known;
    uint64_t accesses, distinct;
    uint64_t keys[HOT_SHARES];
};

/* `known` stays false if replaying would take too long, or a signal asks the program to
 * stop. `counts` is working memory. */
void hot_set_measure(struct hot_set *h, const struct chooser *initial, uint64_t accesses, uint32_t *counts,
                     size_t capacity);

#endif
