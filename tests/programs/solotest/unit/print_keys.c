/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Prints the choices of solotest's key chooser, for the statistics in test_statistics.py. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "solotest/chooser.h"
#include "solotest/options.h"

/* usage: print_keys SEED KEYS PATTERN BIAS READ_MIX COUNT */
int main(int argc, char **argv)
{
    static struct chooser c;
    int64_t pattern;
    if (argc != 7 || !parse_choice(argv[3], pattern_names, &pattern))
        return EXIT_USAGE;
    chooser_init(&c, strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), (enum pattern)pattern,
                 strtod(argv[4], NULL), atoi(argv[5]));
    for (long i = atol(argv[6]); i > 0; i--) {
        struct choice choice = chooser_next(&c);
        (void)printf("%" PRIu64 " %d\n", choice.key, choice.is_set);
    }
    return 0;
}
