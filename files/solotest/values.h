/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Values of SETs: fresh bytes for each. A closed loop makes the next ones while it can only wait
 * for replies. The same seed gives the same values in the same order, made ahead or not.
 */
#ifndef SOLOTEST_VALUES_H
#define SOLOTEST_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "random.h"

struct values {
    struct byte_rng rng;
    size_t size; /* bytes of a value */
    double compressibility;
    char *ahead;               /* a ring of values that are not used yet */
    size_t room, first, ready; /* values that fit, the place of the next one, how many there are */
};

/* Makes room to make `count` values ahead, or as many as the cache holds. Returns false if there is
 * no memory. */
bool values_reserve(struct values *v, size_t count);

void values_free(struct values *v);

void values_make_ahead(struct values *v);

/* Writes the next value. */
void values_take(struct values *v, char *to);

#endif
