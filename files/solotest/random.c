/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "random.h"

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed ^ (stream * UINT64_C(0xd1342543de82ef95));
    for (size_t i = 0; i < 4; i++) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = state;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        r->s[i] = z ^ (z >> 31);
    }
}

struct byte_rng byte_rng_seeded(uint64_t seed, uint64_t phase)
{
    struct rng r;
    rng_seed(&r, seed, STREAM_VALUES + phase);
    return (struct byte_rng){r.s[0]};
}
