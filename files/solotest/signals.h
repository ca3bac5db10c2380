/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Signals: the request to stop (SIGINT, SIGTERM) and the heartbeat (SIGALRM). Both only set a flag; a system
 * call that blocks returns. A signal that asks to stop is repeated every second, so that none gets lost
 * between a look at the flag and a system call that blocks.
 */
#ifndef SOLOTEST_SIGNALS_H
#define SOLOTEST_SIGNALS_H

#include <signal.h>
#include "failure.h"

extern volatile sig_atomic_t interrupted; /* the signal that asks us to stop */
extern volatile sig_atomic_t heartbeat;   /* time to look for requests that got no reply */

void catch_signals(void);

/* Every so many seconds; 0 ends it. */
void heartbeat_every(double seconds);

bool fail_interrupted(struct failure *f);

#endif
