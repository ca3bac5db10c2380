#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# List everything that the role has left on a host. The directory of locks in /run goes with the next boot.
find / /run -xdev -path /root -prune -o -path "/run/memstretch-$(id -u)" -o -name '*memstretch*' -print
systemctl list-units --all --plain --no-legend | awk '/memstretch/ {print "unit", $1}'
pgrep --list-full redis-server
command -v redis-server || echo "no redis-server"
