/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Key chooser: picks the key of each request, and whether to read or write it. The same seed and
 * settings give the same sequence.
 */
#ifndef SOLOTEST_CHOOSER_H
#define SOLOTEST_CHOOSER_H

#include <stdbool.h>
#include <stdint.h>

#include "random.h"

enum pattern { PATTERN_GAUSSIAN, PATTERN_UNIFORM, PATTERN_SEQUENTIAL };
#define PULL_STEPS 101
#define READ_MIX_ONLY_SETS (-1) /* floor(V * 100) > -1 always holds */

struct chooser {
    struct rng rng;
    uint64_t keys;
    uint64_t issued;
    enum pattern pattern;
    int read_mix;
    bool pulled;
    double pull[PULL_STEPS]; /* the bell exp(-(x - 50)^2 / (2 * bias^2)) has only 101 values */
};

struct choice {
    uint64_t key;
    bool is_set;
};

void chooser_init(struct chooser *c, uint64_t seed, uint64_t keys, enum pattern pattern, double bias, int read_mix);

struct choice chooser_next(struct chooser *c);

#endif
