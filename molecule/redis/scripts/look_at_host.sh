#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Print the state of a host that the role has configured, one line for each fact that verify.yml checks.
pid=$(systemctl show --value --property=MainPID memstretch-redis@6401.service)
exposure=$(systemd-analyze security --no-pager memstretch-redis@6401.service | awk '/Overall exposure/ {print $(NF - 2)}')
secrets=$(grep -rl 'not-to-be-foun[d]' /etc /var/lib /usr/local /proc/[0-9]*/cmdline 2>/dev/null)

echo "listening $(ss -Hltn | awk '{print $4}' | grep -v ':22$' | sort -u | xargs)"
echo "default $(systemctl is-active redis-server.service) $(systemctl is-enabled redis-server.service)"
echo "acl $(stat -c '%a %U' /etc/memstretch-redis/sock/users.acl)"
echo "config $(stat -c '%a %U %G' /etc/memstretch-redis/sock/redis.conf)"
echo "data $(stat -c '%a %U' /var/lib/memstretch-redis/sock)"
echo "socket $(stat -c '%a %U' /run/memstretch-redis/sock/redis.sock)"
echo "secrets ${secrets:-none}"
echo "exposure $(awk "BEGIN {print ($exposure < 2.5) ? \"low\" : $exposure}")"
echo "score $(cat "/proc/$pid/oom_score_adj")"
echo "failed $(systemctl --failed --no-legend | wc -l)"
