#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# List every file of a host with its mode, owner and modification time, and every unit, except what changes by itself.
set -eu
cd /
find bin boot etc home lib media mnt opt sbin srv usr var -xdev \
	\( -path var/tmp -o -path var/log -o -path var/lib/systemd \) -prune -o -printf '%p %m %u %g %T@\n' | sort
systemctl list-units --all --plain --no-legend --type=service,slice,socket | awk '{print $1, $4}' |
	grep -Ev '^(user|session|systemd-|ssh@|modprobe@)' | sort
