/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Values of SETs: fresh bytes for each, which compress as the memory of programs does. A closed
 * loop makes the next ones while it can only wait for replies. The same seed gives the same values
 * in the same order, made ahead or not.
 */
#ifndef SOLOTEST_VALUES_H
#define SOLOTEST_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "random.h"

enum { VALUE_KINDS = 20 };

/* How the values of one kind are made: pieces of random bytes with filler behind. Lengths are in
 * bytes, times 2^16. */
struct value_kind {
    uint64_t piece_least, piece_span; /* of a piece, with its filler */
    uint64_t random;                  /* of the random bytes, on average */
};

struct values {
    struct byte_rng rng;
    size_t size; /* bytes of a value */
    struct value_kind kinds[VALUE_KINDS];
    bool incompressible;       /* random bytes alone */
    uint64_t made;             /* values so far: neighbours are of the same kind */
    char *ahead;               /* a ring of values that are not used yet */
    size_t room, first, ready; /* values that fit, the place of the next one, how many there are */
};

/*
 * Values of `size` bytes. `compressibility` is the share of their bytes that LZ4 saves in pages of
 * 4 KiB, from 0 (random bytes, which do not compress) to 1.
 *
 * That is a mean. Pages of real programs differ, and so do these: values come in 20 kinds of equal
 * number, from such that almost vanish to such that keep two thirds. A run of 32 KiB is of one
 * kind, so that most pages hold values of one kind, if they are written in this order.
 */
struct values values_of(struct byte_rng rng, size_t size, double compressibility);

/* Makes room to make `count` values ahead, or as many as the cache holds. Returns false if there is
 * no memory. */
bool values_reserve(struct values *v, size_t count);

void values_free(struct values *v);

void values_make_ahead(struct values *v);

/* Writes the next value. */
void values_take(struct values *v, char *to);

#endif
