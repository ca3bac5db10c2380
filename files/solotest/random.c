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

static inline uint64_t rotate_left(uint64_t x, unsigned n)
{
    return (x << n) | (x >> (64 - n));
}

inline uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

inline double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) / (double)RNG_UNITS;
}

inline double rng_unit_closed(struct rng *r)
{
    return (double)(rng_next(r) >> 11) / (double)(RNG_UNITS - 1);
}

inline uint64_t without_zero_bytes(uint64_t w)
{
    const uint64_t low7 = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t not_zero = ((w & low7) + low7) | w;
    return w | ((~not_zero & ~low7) >> 7);
}

inline uint64_t bytes_next(struct byte_rng *r)
{
    r->counter += UINT64_C(0xa0761d6478bd642f);
    wide product = (wide)r->counter * (r->counter ^ UINT64_C(0xe7037ed1a0b428db));
    return without_zero_bytes((uint64_t)(product >> 64) ^ (uint64_t)product);
}

inline void bytes_fill(struct byte_rng *r, char *to, size_t size)
{
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), to += sizeof(uint64_t)) {
        uint64_t w = bytes_next(r);
        memcpy(to, &w, sizeof w);
    }
    if (size > 0) {
        uint64_t w = bytes_next(r);
        memcpy(to, &w, size);
    }
}
