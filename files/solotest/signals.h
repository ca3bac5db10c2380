/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Signals: the request to stop (SIGINT, SIGTERM) and the heartbeat (SIGALRM). Each sets a flag and
 * makes a blocking system call return. A request to stop is repeated every second: a signal that
 * arrives between a check of the flag and a blocking system call would otherwise go unnoticed.
 */
#ifndef SOLOTEST_SIGNALS_H
#define SOLOTEST_SIGNALS_H

#include <signal.h>
#include "failure.h"

extern volatile sig_atomic_t interrupted; /* the signal that asks the program to stop, or 0 */
extern volatile sig_atomic_t heartbeat;   /* time to look for overdue replies */

void catch_signals(void);

/* From now on, no signal of these interrupts a system call: the result is written, however slowly it is read. */
void ignore_signals(void);

/* Sets `heartbeat` every this many seconds; 0 stops that. */
void heartbeat_every(double seconds);

bool fail_interrupted(struct failure *f);

#endif
