/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "hot_set.h"

#include <stdlib.h>
#include <string.h>

#include "histogram.h"
#include "signals.h"

#define HOT_SMALL 4096                      /* keys with fewer accesses are only tallied */
#define HOT_STEPS_MAX (UINT64_C(256) << 20) /* a few seconds of replaying */

const unsigned hot_permille[HOT_SHARES] = {500, 900, 990};

static int compare_descending(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x < y) - (x > y);
}

/* Adds the next hottest keys: `keys` of them, with `each` accesses each. */
static void hot_set_take(struct hot_set *h, uint64_t *covered, uint64_t keys, uint64_t each)
{
    for (size_t i = 0; i < HOT_SHARES; i++) {
        uint64_t wanted = rank_of(h->accesses, hot_permille[i]);
        if (wanted > *covered)
            h->keys[i] = h->distinct + min_u64(keys, (wanted - *covered + each - 1) / each);
    }
    *covered += keys * each;
    h->distinct += keys;
}

void hot_set_measure(struct hot_set *h, const struct chooser *initial, uint64_t accesses, uint32_t *counts,
                     size_t capacity)
{
    static uint64_t tally[HOT_SMALL]; /* number of keys, by number of accesses */
    uint64_t passes = (initial->keys + capacity - 1) / capacity;
    *h = (struct hot_set){.accesses = accesses};
    if (accesses == 0 || initial->keys > HOT_STEPS_MAX || accesses > HOT_STEPS_MAX / passes)
        return;
    uint32_t *big = malloc((size_t)(accesses / HOT_SMALL + 1) * sizeof *big);
    if (big == NULL)
        return;
    size_t big_used = 0;
    memset(tally, 0, sizeof tally);
    for (uint64_t base = 0; base < initial->keys && !interrupted; base += capacity) {
        size_t span = (size_t)min_u64(capacity, initial->keys - base);
        struct chooser replay = *initial;
        memset(counts, 0, span * sizeof *counts);
        for (uint64_t i = 0; i < accesses && !interrupted; i++) {
            uint64_t place = chooser_next(&replay).key - base; /* wraps to a huge number for keys below base */
            if (place < span)
                counts[place]++;
        }
        for (size_t i = 0; i < span; i++) {
            if (counts[i] < HOT_SMALL)
                tally[counts[i]]++;
            else
                big[big_used++] = counts[i];
        }
    }
    uint64_t covered = 0;
    qsort(big, big_used, sizeof *big, compare_descending);
    for (size_t i = 0; i < big_used; i++)
        hot_set_take(h, &covered, 1, big[i]);
    for (size_t each = HOT_SMALL - 1; each > 0; each--)
        if (tally[each] > 0)
            hot_set_take(h, &covered, tally[each], each);
    free(big);
    h->known = !interrupted;
}
