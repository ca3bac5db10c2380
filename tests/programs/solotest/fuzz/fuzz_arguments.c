/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any command line, one argument per line: it is accepted, or refused with exit status 2. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "solotest/measurement.h"
#include "solotest/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *argv[64] = {(char *)"solotest"};
    int argc = 1;
    char *text = malloc(size + 1);
    struct settings s;
    struct failure f = {0};
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *line = text; line != NULL && argc < 64; argc++) {
        argv[argc] = line;
        line = strchr(line, '\n');
        if (line != NULL)
            *line++ = '\0';
    }
    if (!parse_arguments(&s, argc, argv, &f)) {
        if (f.exit_code != EXIT_USAGE || f.message[0] == '\0')
            abort();
    } else if (!s.help && !s.version) {
        for (size_t i = 0; i < option_spec_count; i++) { /* accepted values are in range */
            double value = 0;
            int64_t integer = 0;
            const char *field = (const char *)&s + option_specs[i].offset;
            if (option_specs[i].type == VALUE_REAL) {
                memcpy(&value, field, sizeof value);
            } else if (option_specs[i].type == VALUE_INTEGER) {
                memcpy(&integer, field, sizeof integer);
                value = (double)integer;
            } else {
                continue;
            }
            if (value > -1 && !(value >= option_specs[i].min && value <= option_specs[i].max) &&
                memcmp(field, (const char *)&default_settings + option_specs[i].offset, sizeof value) != 0)
                abort();
        }
        if (!(s.fill || s.test || s.ping) || planned_requests(&s) > UINT64_C(1) << 62)
            abort();
        (void)measurement_interval(&s);
    }
    free(text);
    return 0;
}
