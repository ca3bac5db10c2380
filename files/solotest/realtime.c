/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "realtime.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "pacer.h"
#include "process.h"

#define CAP_SYS_NICE_BIT 23
#define PRIORITY 1

static bool has_the_right(void)
{
    char text[4096];
    uint64_t capabilities = 0;
    struct rlimit most = {0};
    read_small_file("/proc/self/status", text, sizeof text);
    const char *line = strstr(text, "CapEff:");
    if (line != NULL && sscanf(line, "CapEff: %" SCNx64, &capabilities) == 1 &&
        (capabilities >> CAP_SYS_NICE_BIT & 1) != 0)
        return true;
    return getrlimit(RLIMIT_RTPRIO, &most) == 0 && most.rlim_cur >= PRIORITY;
}

static void say_why(struct realtime_state *r, int error)
{
    if (error != EPERM)
        (void)snprintf(r->refused, sizeof r->refused, "%s", strerror(error));
    else if (has_the_right())
        (void)snprintf(r->refused, sizeof r->refused,
                       "this cpu control group has no real-time budget "
                       "(CONFIG_RT_GROUP_SCHED): give it cpu.rt_runtime_us, or start the client outside of it");
    else
        (void)snprintf(r->refused, sizeof r->refused,
                       "it needs root, CAP_SYS_NICE, or a limit of RLIMIT_RTPRIO (ulimit -r) of 1");
}

static bool is_realtime(void)
{
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    return policy == SCHED_FIFO || policy == SCHED_RR;
}

bool realtime_begin(struct realtime_state *r, const struct settings *s, struct failure *f)
{
    struct sched_param first = {.sched_priority = PRIORITY};
    bool sleeps = s->pacing == PACING_HYBRID || s->pacing == PACING_SLEEP;
    *r = (struct realtime_state){.got = is_realtime()};
    if (r->got || s->realtime == REALTIME_OFF || !sleeps)
        return true;
    r->got = r->changed = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0;
    if (r->got)
        return true;
    say_why(r, errno);
    return s->realtime == REALTIME_AUTO ||
           fail_resources(f, "--realtime required: real-time priority was refused: %s", r->refused);
}

void realtime_end(struct realtime_state *r)
{
    struct sched_param none = {0};
    if (r->changed)
        (void)sched_setscheduler(0, SCHED_OTHER, &none);
    r->changed = false;
}
