/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random numbers: xoshiro256++, seeded by splitmix64, and the bytes of values: wyrand. Keys and values draw
 * from streams of their own, so that one seed gives one sequence of keys whatever the size of the values.
 */
#ifndef SOLOTEST_RANDOM_H
#define SOLOTEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "numbers.h"

struct rng {
    uint64_t s[4];
};

static inline uint64_t rotate_left(uint64_t x, unsigned n)
{
    return (x << n) | (x >> (64 - n));
}

static inline uint64_t rng_next(struct rng *r)
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

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream);

#define RNG_UNITS (UINT64_C(1) << 53) /* how many values a double can tell apart in [0, 1) */

/* Uniform in [0, 1). */
static inline double rng_unit(struct rng *r)
{
    return (double)(rng_next(r) >> 11) / (double)RNG_UNITS;
}

/* Uniform in [0, 1]. */
static inline double rng_unit_closed(struct rng *r)
{
    return (double)(rng_next(r) >> 11) / (double)(RNG_UNITS - 1);
}

/* The bytes of values: wyrand (Wang Yi, public domain). Its state is a counter, so that a processor
 * works on several steps at once; a value of 1 KB takes a quarter of the time that rng_next() needs. */
struct byte_rng {
    uint64_t counter;
};

/* A zero byte becomes 1. The sum below carries into a byte's top bit exactly when its lower seven bits
 * are not all zero, and never into the next byte. */
static inline uint64_t without_zero_bytes(uint64_t w)
{
    const uint64_t low7 = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t not_zero = ((w & low7) + low7) | w;
    return w | ((~not_zero & ~low7) >> 7);
}

static inline uint64_t bytes_next(struct byte_rng *r)
{
    r->counter += UINT64_C(0xa0761d6478bd642f);
    wide product = (wide)r->counter * (r->counter ^ UINT64_C(0xe7037ed1a0b428db));
    return without_zero_bytes((uint64_t)(product >> 64) ^ (uint64_t)product);
}

#define VALUE_BLOCK 128   /* compressible values alternate random bytes and filler this often */
#define VALUE_FILLER 0x5a /* not zero: Redis values without zero bytes, as the brief wants them */

static inline void bytes_fill(struct byte_rng *r, char *to, size_t size)
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

/* A fresh value whose share `compressibility` of bytes is constant. The filler is spread in blocks,
 * because a compressed memory tier sees pages, and one page holds pieces of several values. */
static inline void value_fill(struct byte_rng *r, char *to, size_t size, double compressibility)
{
    while (size > 0) {
        size_t block = size < VALUE_BLOCK ? size : VALUE_BLOCK;
        size_t filler = (size_t)((double)block * compressibility + 0.5);
        bytes_fill(r, to, block - filler);
        memset(to + (block - filler), VALUE_FILLER, filler);
        to += block;
        size -= block;
    }
}

struct byte_rng byte_rng_seeded(uint64_t seed, uint64_t phase);

#endif
