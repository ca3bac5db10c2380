/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "chooser.h"

#include <math.h>

void chooser_init(struct chooser *c, uint64_t seed, uint64_t keys, enum pattern pattern,
                  double bias, int read_mix)
{
    memset(c, 0, sizeof *c);
    rng_seed(&c->rng, seed, STREAM_KEYS);
    c->keys = keys;
    c->pattern = pattern;
    c->read_mix = read_mix;
    c->pulled = pattern == PATTERN_GAUSSIAN && (bias < 0 || bias > 0);
    for (int x = 0; c->pulled && x < PULL_STEPS; x++) {
        double z = (x - 50) / bias; /* divide first: the square of a tiny bias is 0 */
        c->pull[x] = exp(-z * z / 2);
    }
}
