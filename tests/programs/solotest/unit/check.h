/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by all unit tests: CHECK() counts a failed check and goes on; TEST_MAIN() runs the tests that it lists. */
#ifndef CHECK_H
#define CHECK_H

#include <stddef.h>
#include <stdio.h>

#include "solotest/numbers.h"

static int failures;
static const char *current;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            failures++;                                                                                                \
            (void)fprintf(stderr, "FAILED %s, line %d: %s\n", current, __LINE__, #condition);                          \
        }                                                                                                              \
    } while (0)

struct test {
    const char *name;
    void (*run)(void);
};

static inline int run_tests(const struct test *tests, size_t count, const char *program)
{
    for (size_t i = 0; i < count; i++) {
        current = tests[i].name;
        tests[i].run();
    }
    (void)printf("%s: %zu tests, %d failed checks\n", program, count, failures);
    return failures == 0 ? 0 : 1;
}

#define TEST(name) {#name, name}
#define TEST_MAIN(...)                                                                                                 \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        static const struct test tests[] = {__VA_ARGS__};                                                              \
        return run_tests(tests, COUNT_OF(tests), argc > 0 ? argv[0] : "");                                             \
    }

#endif
