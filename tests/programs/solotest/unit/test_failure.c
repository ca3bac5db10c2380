/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Failures: the first one wins, and its message is safe to print. */
#define _GNU_SOURCE
#include <string.h>

#include "solotest/failure.h"
#include "check.h"

static void test_the_first_failure_wins(void)
{
    struct failure f = {0};
    CHECK(!fail(&f, EXIT_LOST, "lost", "the server said %s", "\033[2J\nbye"));
    CHECK(!fail(&f, EXIT_OUTPUT, "output", "later"));
    CHECK(f.exit_code == EXIT_LOST && strcmp(f.message, "the server said  [2J bye") == 0);
}

TEST_MAIN(
    TEST(test_the_first_failure_wins))
