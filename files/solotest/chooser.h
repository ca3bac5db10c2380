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

void chooser_init(struct chooser *c, uint64_t seed, uint64_t keys, enum pattern pattern,
                  double bias, int read_mix);

/* Moves a uniform key towards the middle by a random fraction of its distance. */
static inline uint64_t chooser_pull(struct chooser *c, uint64_t key)
{
    uint64_t half = c->keys / 2;
    double fraction = c->pull[(int)(rng_unit_closed(&c->rng) * (PULL_STEPS - 1))];
    if (key > half)
        return key - (uint64_t)(fraction * (double)(key - half));
    return key + (uint64_t)(fraction * (double)(half - key));
}

static inline struct choice chooser_next(struct chooser *c)
{
    struct choice choice;
    if (c->pattern == PATTERN_SEQUENTIAL)
        choice.key = c->issued % c->keys;
    else
        choice.key = (uint64_t)(rng_unit(&c->rng) * (double)c->keys);
    if (c->pulled)
        choice.key = chooser_pull(c, choice.key);
    choice.is_set = c->read_mix < 100 && (int)(rng_unit_closed(&c->rng) * 100) > c->read_mix;
    c->issued++;
    return choice;
}

#endif
