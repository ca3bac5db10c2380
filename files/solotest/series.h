/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Time series: at most 120 points with count, average, p99 and maximum of `response`, by intended
 * start; they show when a stall happened. Slots are 32 bits wide, so that all 120 histograms fit
 * into 3.5 MB. A slot stops at its maximum instead of wrapping; that would take 4 * 10^9 equal
 * values.
 */
#ifndef SOLOTEST_SERIES_H
#define SOLOTEST_SERIES_H

#include "clock.h"
#include "histogram.h"

#define SERIES_POINTS 120

struct series_point {
    uint64_t count;
    uint64_t max;
    uint64_t p99; /* set by series_finish() */
    wide sum;
};

struct series {
    uint64_t interval;
    size_t used;
    size_t latest;         /* where the latest value went: most go there as well, and a division takes long */
    uint64_t latest_begin; /* = latest * interval */
    struct series_point points[SERIES_POINTS];
    uint32_t (*slots)[HIST_SLOTS];
};

/* The shortest of 1, 2, 5, 10, ... ms that covers `duration` with SERIES_POINTS points. */
uint64_t series_interval_for(uint64_t duration);

/* Halves the resolution. Only a closed loop of unknown length needs it; the interval of a
 * schedule is chosen to fit before it starts. */
void series_coarsen(struct series *s);

uint32_t add_saturating(uint32_t a, uint32_t b);

void series_add(struct series *s, uint64_t at, uint64_t value);

/* Computes the p99s. After this the slots are free for other use. */
void series_finish(struct series *s);

#endif
