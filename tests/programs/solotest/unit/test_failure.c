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

static void test_no_control_character_reaches_the_terminal(void)
{
    struct failure f = {0};
    /* CSI and OSC as single characters (C1), as broken UTF-8, and letters that share their bytes. */
    CHECK(!fail(&f, EXIT_LOST, "lost", "%s",
                "a\xc2\x9b"
                "31m\xc2\x9d\x9b\x7f\xc2\xa0\xc3\x9b"));
    CHECK(strcmp(f.message, "a  31m  ? \xc2\xa0\xc3\x9b") == 0);
}

TEST_MAIN(TEST(test_the_first_failure_wins), TEST(test_no_control_character_reaches_the_terminal))
