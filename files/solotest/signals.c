/* SPDX-License-Identifier: GPL-3.0-or-later */
#define _GNU_SOURCE
#include "signals.h"

#include <sys/time.h>
#include <unistd.h>

#include "clock.h"

volatile sig_atomic_t interrupted;
volatile sig_atomic_t heartbeat;

/* After a request to stop, the alarm repeats it every second. */
static void on_signal(int signal_number)
{
    if (signal_number == SIGALRM)
        heartbeat = 1;
    else
        interrupted = signal_number;
    if (interrupted)
        (void)alarm(1);
}

void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: system calls must return */
    struct sigaction before;
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGALRM, &action, NULL);
    if (sigaction(SIGINT, NULL, &before) != 0 || before.sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
}

void ignore_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGALRM, &action, NULL);
}

void heartbeat_every(double seconds)
{
    struct timeval period = seconds > 0 ? to_timeval(seconds) : (struct timeval){0};
    struct itimerval timer = {.it_interval = period, .it_value = period};
    (void)setitimer(ITIMER_REAL, &timer, NULL); /* cannot fail for such values */
}

bool fail_interrupted(struct failure *f)
{
    int signal_number = interrupted;
    return fail(f, EXIT_SIGNAL + signal_number, "interrupted", "interrupted by signal %d", signal_number);
}
