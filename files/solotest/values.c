/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "values.h"

#include <stdlib.h>

#define AHEAD_MAX (256u << 10) /* bytes; more would be out of the second-level cache before they are used */

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
        value_fill(&v->rng, v->ahead + (v->first + v->ready) % v->room * v->size, v->size, v->compressibility);
}

inline void values_take(struct values *v, char *to)
{
    if (v->ready == 0) {
        value_fill(&v->rng, to, v->size, v->compressibility);
        return;
    }
    memcpy(to, v->ahead + v->first * v->size, v->size);
    v->first = (v->first + 1) % v->room;
    v->ready--;
}
