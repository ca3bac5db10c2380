/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The client's own health: whatever makes its result doubtful. */
#ifndef SOLOTEST_HEALTH_H
#define SOLOTEST_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "pacer.h"

struct health_sample {
    struct rusage usage;
    uint64_t at, steal;
    int cpu;
};

struct health {
    bool measured;
    bool memory_locked;
    const struct pacer *hybrid; /* the pacer that learned how late sleeps end, if one did */
    struct health_sample first, last;
};

struct health_sample health_now(void);

/* The peak of this process. getrusage() would include what it was before exec: a shell, a Python. */
uint64_t peak_resident_kb(void);

bool is_realtime(void);

/* "0-1,4" */
void describe_allowed_cpus(char *to, size_t size);

/* Empty when it cannot be read. */
void describe_clock_source(char *to, size_t size);

#endif
