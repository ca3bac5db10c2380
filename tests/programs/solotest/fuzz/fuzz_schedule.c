/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any file of a schedule, and any text of a start: it is accepted, or refused with exit status 2. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "solotest/follow.h"
#include "solotest/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct schedule plan;
    struct failure f = {0};
    uint64_t wall = 0;
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (start_parse(text, &wall) && (wall == 0 || (double)wall > MAX_EPOCH_SECONDS * 1e9))
        abort();
    if (!schedule_parse(&plan, &default_settings, "FILE", text, &f)) {
        if (f.exit_code != EXIT_USAGE || f.message[0] == '\0')
            abort();
    } else {
        for (size_t i = 0; i < plan.count; i++)
            if (planned_requests(&plan.phases[i].settings) == 0 || plan.phases[i].name[0] == '\0' ||
                (i > 0 && plan.phases[i].at <= plan.phases[i - 1].at))
                abort();
    }
    schedule_free(&plan);
    free(text);
    return 0;
}
