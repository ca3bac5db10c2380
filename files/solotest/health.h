/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Health of the client: whatever makes its result doubtful, such as page faults, context switches
 * and stolen CPU time.
 */
#ifndef SOLOTEST_HEALTH_H
#define SOLOTEST_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "pacer.h"
#include "realtime.h"

struct health_sample {
    struct rusage usage;
    uint64_t at, steal;
    uint64_t waited; /* ns for a CPU, since the process began; NEVER: the kernel does not tell */
    int cpu;
};

struct health {
    bool measured;
    bool memory_locked;
    struct realtime_state realtime;
    const struct pacer *hybrid; /* the pacer, if it is hybrid */
    struct health_sample first, last;
};

struct health_sample health_now(void);

/* The peak of resident memory. getrusage() would include the process before exec(): a shell, or
 * Python. */
uint64_t peak_resident_kb(void);

/* The CPUs that this process may use, such as "0-1,4". */
void describe_allowed_cpus(char *to, size_t size);

/* The kernel's clock source; empty if it cannot be read. */
void describe_clock_source(char *to, size_t size);

#endif
