/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Test: one phase of load that is measured, from its plan to its figures.
 */
#ifndef SOLOTEST_TEST_H
#define SOLOTEST_TEST_H

#include <stdint.h>

#include "failure.h"
#include "options.h"
#include "report.h"
#include "values.h"

/* --seed, or a random one. */
uint64_t choose_seed(const struct settings *s);

struct values test_values(const struct settings *s, uint64_t seed, uint64_t phase);

/* Sets up the exchange of a test. What load_open() allocated for an earlier one stays. */
void test_plan(struct test_result *t, const struct settings *s, uint64_t seed, struct failure *f);

/* Runs a test whose connections are open, from the monotonic time `start`; 0 is now. */
void test_perform(struct test_result *t, struct outcome *o, uint64_t start);

#endif
