/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

#define WATCH_STACK (64u << 10) /* it is locked in memory */

static atomic_bool ended;

static void *watch(void *path)
{
    const struct timespec pause = to_timespec(WATCH_EVERY_NS);
    while (access((const char *)path, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR))
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    atomic_store(&ended, true);
    (void)kill(getpid(), SIGTERM);
    return NULL;
}

/*
 * Only looks count. Neither a clock that is set nor a time in which this whole machine stood still or had no CPU for
 * anybody ends the client: who renews the file did not run either.
 */
static void *watch_touched(void *path)
{
    const struct timespec pause = to_timespec(WATCH_EVERY_NS);
    struct stat about, before = {0};
    for (unsigned unchanged = 0; unchanged < LEASE_LOOKS && stat((const char *)path, &about) == 0; unchanged++) {
        if (about.st_mtim.tv_sec != before.st_mtim.tv_sec || about.st_mtim.tv_nsec != before.st_mtim.tv_nsec)
            unchanged = 0;
        before = about;
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    }
    atomic_store(&ended, true);
    (void)kill(getpid(), SIGTERM);
    return NULL;
}

static bool begin(void *(*routine)(void *), const char *path, struct failure *f)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_attr_init(&attributes);
    if (error == 0)
        error = pthread_attr_setstacksize(&attributes, WATCH_STACK);
    if (error == 0)
        error = pthread_create(&thread, &attributes, routine, (void *)(uintptr_t)path);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error == 0 || fail_resources(f, "cannot watch %s: %s", path, strerror(error));
}

bool watch_file(const char *path, struct failure *f)
{
    return begin(watch, path, f);
}

bool watch_lease(const char *path, struct failure *f)
{
    return begin(watch_touched, path, f);
}

bool watch_ended(void)
{
    return atomic_load(&ended);
}
