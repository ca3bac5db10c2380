/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Hot set: how many keys took 50, 90 and 99 % of the accesses. The chooser is repeatable, so the run
 * is replayed afterwards instead of being burdened with counting; the memory is lent by the series,
 * which is done by then. Keys that do not fit are counted in further passes.
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

void hot_set_measure(struct hot_set *h, const struct chooser *initial, uint64_t accesses, uint32_t *counts,
                     size_t capacity);

#endif
