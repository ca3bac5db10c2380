/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "health.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "process.h"

/* The eighth number of the first line: CPU time that the hypervisor gave to others. */
static uint64_t steal_ticks(void)
{
    char text[512];
    uint64_t steal = 0;
    read_small_file("/proc/stat", text, sizeof text);
    if (sscanf(text, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &steal) != 1)
        return 0;
    return steal;
}

static uint64_t waited_for_cpu(void)
{
    char text[128];
    uint64_t waited;
    read_small_file("/proc/self/schedstat", text, sizeof text);
    return sscanf(text, "%*u %" SCNu64, &waited) == 1 ? waited : NEVER;
}

struct health_sample health_now(void)
{
    struct health_sample h = {
        .at = now_ns(), .steal = steal_ticks(), .waited = waited_for_cpu(), .cpu = sched_getcpu()};
    (void)getrusage(RUSAGE_SELF, &h.usage);
    return h;
}

uint64_t peak_resident_kb(void)
{
    char text[4096];
    uint64_t kb = 0;
    read_small_file("/proc/self/status", text, sizeof text);
    const char *line = strstr(text, "VmHWM:");
    if (line == NULL || sscanf(line, "VmHWM: %" SCNu64, &kb) != 1)
        return 0;
    return kb;
}

void describe_allowed_cpus(char *to, size_t size)
{
    cpu_set_t set;
    size_t used = 0;
    to[0] = '\0';
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return;
    for (size_t first = 0; first < CPU_SETSIZE && used < size; first++) {
        if (!CPU_ISSET(first, &set))
            continue;
        size_t last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        int n =
            snprintf(to + used, size - used, last > first ? "%s%zu-%zu" : "%s%zu", used > 0 ? "," : "", first, last);
        used += n > 0 ? (size_t)n : 0;
        first = last;
    }
}

void describe_clock_source(char *to, size_t size)
{
    read_small_file("/sys/devices/system/clocksource/clocksource0/current_clocksource", to, size);
    to[strcspn(to, "\n")] = '\0';
}
