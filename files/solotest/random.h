/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random numbers: xoshiro256++, seeded by splitmix64, and wyrand for the bytes of values. Keys and
 * values have separate streams, so that one seed gives the same keys whatever the size of the
 * values.
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

/* Streams of one seed. The values of a phase add its number: 0 is the fill, 1 the test. */
enum { STREAM_KEYS = 1, STREAM_VALUES = 2, STREAM_ARRIVALS = 4 };

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream);

#define RNG_UNITS (UINT64_C(1) << 53) /* evenly spaced doubles in [0, 1) */

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

/* The bytes of values: wyrand (Wang Yi, public domain). Its state is a counter, so the processor
 * can work on several steps at once: a value of 1 KB takes a quarter of the time that rng_next()
 * would take. */
struct byte_rng {
    uint64_t counter;
};

/* Replaces each zero byte by 1. The sum carries into the top bit of a byte exactly if one of its
 * lower seven bits is set, and never into the next byte. */
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

#define VALUE_BLOCK 128   /* compressible values alternate random bytes and filler in such blocks */
#define VALUE_FILLER 0x5a /* not zero: values hold no zero bytes */

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

/* Writes a fresh value; the share `compressibility` of its bytes is constant. The constant bytes
 * are spread in blocks, because compressed memory works on pages, and a page holds parts of
 * several values. */
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

/* The bytes of the values of a phase. */
struct byte_rng byte_rng_seeded(uint64_t seed, uint64_t phase);

#endif
