/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "chooser.h"

#include <math.h>

void chooser_init(struct chooser *c, uint64_t seed, uint64_t keys, enum pattern pattern, double bias, int read_mix)
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

/* Moves a uniform key towards the middle by a random fraction of its distance. */
static inline uint64_t chooser_pull(struct chooser *c, uint64_t key)
{
    uint64_t half = c->keys / 2;
    double fraction = c->pull[(int)(rng_unit_closed(&c->rng) * (PULL_STEPS - 1))];
    if (key > half)
        return key - (uint64_t)(fraction * (double)(key - half));
    return key + (uint64_t)(fraction * (double)(half - key));
}

inline struct choice chooser_next(struct chooser *c)
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
