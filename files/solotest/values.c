/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

#define AHEAD_MAX (256u << 10) /* bytes; more would be out of the second-level cache before they are used */
#define RUN_BYTES (32u << 10)  /* values of one kind in a row: eight pages */
#define KIND_STEP 7            /* from one run to the next; has no common divisor with the number of kinds */
#define PAGE_BYTES 4096.0
#define RANDOM_LEAST 0.5          /* bytes of a piece; pieces become longer before they have fewer */
#define FIXED (UINT64_C(1) << 16) /* 1, as a fixed-point number */

/* No four bytes of it occur twice, and none is zero: values hold no zero bytes. */
static const char FILLER[] = "memstretch.value";
#define FILLER_BYTES (sizeof FILLER - 1)

/*
 * Pages of six programs at work, by the size to which LZ4 compresses them: mypy, gcc, go, node,
 * perl and sqlite, 2,600 pages of each, of 2026-11-27. Each row is a twentieth of these pages: its
 * mean size, and the pieces that give this size and the same number of sequences (LZ4's literals
 * with the match behind). tests/bench/values.py takes such a sample and compares sizes and times.
 */
static const struct {
    double compressed;    /* bytes of a page of 4 KiB */
    double piece, random; /* mean bytes of a piece; the random ones among them */
} SAMPLE[VALUE_KINDS] = {
    {89, 579.7, 0.67},  {456, 74.1, 1.46},  {572, 53.6, 1.01},  {662, 46.4, 1.23},   {868, 30.3, 0.76},
    {1009, 24.8, 0.73}, {1102, 22.2, 0.88}, {1169, 19.9, 1.04}, {1229, 19.2, 1.29},  {1297, 16.1, 1.30},
    {1340, 16.4, 1.51}, {1363, 15.2, 1.31}, {1433, 13.9, 1.24}, {1503, 13.2, 1.25},  {1577, 12.7, 1.32},
    {1675, 19.7, 3.79}, {1841, 14.8, 2.89}, {2520, 15.3, 5.67}, {2793, 24.7, 12.44}, {2843, 23.5, 12.04},
};

/* The factor by which the sample's sizes must be scaled, each at most to a whole page, so that
 * their mean is `share` of a page. */
static double size_factor(double share)
{
    double low = 0, high = PAGE_BYTES / SAMPLE[0].compressed;
    for (int i = 0; i < 60; i++) {
        double factor = (low + high) / 2, sum = 0;
        for (size_t k = 0; k < VALUE_KINDS; k++)
            sum += fmin(1, factor * SAMPLE[k].compressed / PAGE_BYTES);
        if (sum < share * VALUE_KINDS)
            low = factor;
        else
            high = factor;
    }
    return low;
}

/* The sample's kind `k`, scaled. A piece costs its random bytes and what LZ4 needs to name the
 * match. So a smaller size means fewer random bytes, and longer pieces once there are hardly any. */
static struct value_kind scaled_kind(size_t k, double factor, size_t size)
{
    double piece = SAMPLE[k].piece, random = SAMPLE[k].random;
    double match = SAMPLE[k].compressed / PAGE_BYTES * piece - random;
    double share = factor * SAMPLE[k].compressed / PAGE_BYTES;
    if (share >= 1) {
        random = (double)size; /* no filler */
    } else if (share * piece - match >= RANDOM_LEAST) {
        random = share * piece - match;
    } else {
        random = fmin(random, RANDOM_LEAST);
        piece = share > 0 ? (match + random) / share : (double)size;
    }
    if (piece >= (double)size) {
        piece = (double)size;
        random = share > 0 ? random : 0;
    }
    return (struct value_kind){
        .piece_least = (uint64_t)((0.75 * piece + 0.5) * FIXED),
        .piece_span = (uint64_t)(0.5 * piece * FIXED),
        .random = (uint64_t)(random * FIXED),
    };
}

struct values values_of(struct byte_rng rng, size_t size, double compressibility)
{
    struct values v = {.rng = rng, .size = size, .incompressible = compressibility == 0};
    double factor = size_factor(1 - compressibility);
    for (size_t k = 0; k < VALUE_KINDS; k++)
        v.kinds[k] = scaled_kind(k, factor, size);
    return v;
}

static void fill_pieces(struct byte_rng *r, const struct value_kind *kind, char *to, size_t size)
{
    for (size_t at = 0; at < size;) {
        uint64_t chance = bytes_next(r);
        uint64_t piece = (kind->piece_least + kind->piece_span * (chance & (FIXED - 1)) / FIXED) / FIXED;
        uint64_t random = (kind->random + (chance >> 16 & (FIXED - 1))) / FIXED;
        piece = min_u64(max_u64(piece, 1), size - at);
        random = min_u64(random, piece);
        bytes_fill(r, to + at, random);
        for (at += random, piece -= random; piece > 0;) {
            size_t some = min_u64(piece, FILLER_BYTES);
            memcpy(to + at, FILLER, some);
            at += some;
            piece -= some;
        }
    }
}

static void fill_next(struct values *v, char *to)
{
    if (v->incompressible) {
        bytes_fill(&v->rng, to, v->size);
        return;
    }
    uint64_t run = v->made++ / max_u64(RUN_BYTES / v->size, 1);
    fill_pieces(&v->rng, &v->kinds[run * KIND_STEP % VALUE_KINDS], to, v->size);
}

bool values_reserve(struct values *v, size_t count)
{
    size_t most = AHEAD_MAX / v->size;
    v->room = count < most ? count : most;
    v->ahead = malloc(v->room * v->size);
    return v->ahead != NULL || v->room == 0;
}

void values_free(struct values *v)
{
    free(v->ahead);
    *v = (struct values){0};
}

inline void values_make_ahead(struct values *v)
{
    for (; v->ready < v->room; v->ready++)
        fill_next(v, v->ahead + (v->first + v->ready) % v->room * v->size);
}

inline void values_take(struct values *v, char *to)
{
    if (v->ready == 0) {
        fill_next(v, to);
        return;
    }
    memcpy(to, v->ahead + v->first * v->size, v->size);
    v->first = (v->first + 1) % v->room;
    v->ready--;
}
