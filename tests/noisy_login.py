# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A user as people have it: sudo asks for a password each time and lectures, and .bashrc prints."""

PASSWORD = "it's a sudo password"
BASHRC = """echo "Welcome to $(hostname)"
echo "/usr/bin/redis-server"
printf 'no newline at the end: '
echo "you have mail" >&2
"""
SUDO_DEFAULTS = "Defaults lecture=always, timestamp_timeout=0\n"
