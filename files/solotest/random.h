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

uint64_t rng_next(struct rng *r);

/* Streams of one seed. The values of a phase add its number: 0 is the fill, 1 the test. */
enum { STREAM_KEYS = 1, STREAM_VALUES = 2, STREAM_ARRIVALS = 4 };

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream);

#define RNG_UNITS (UINT64_C(1) << 53) /* evenly spaced doubles in [0, 1) */

/* Uniform in [0, 1). */
double rng_unit(struct rng *r);

/* Uniform in [0, 1]. */
double rng_unit_closed(struct rng *r);

/* The bytes of values: wyrand (Wang Yi, public domain). Its state is a counter, so the processor
 * can work on several steps at once: a value of 1 KB takes a quarter of the time that rng_next()
 * would take. */
struct byte_rng {
    uint64_t counter;
};

/* Replaces each zero byte by 1. The sum carries into the top bit of a byte exactly if one of its
 * lower seven bits is set, and never into the next byte. */
uint64_t without_zero_bytes(uint64_t w);

uint64_t bytes_next(struct byte_rng *r);

/* Fills with bytes that are not zero. */
void bytes_fill(struct byte_rng *r, char *to, size_t size);

/* The bytes of the values of a phase. */
struct byte_rng byte_rng_seeded(uint64_t seed, uint64_t phase);

#endif
