# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an instance: its configuration, its users, the settings of its unit."""

from __future__ import annotations

import hashlib
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.redis.instances import Instance

# The first line of every file that we write. A directory whose redis.conf lacks it is not ours.
MARK = "# Managed by the Ansible role memstretch.density.redis: changes are overwritten."
# A file in a root directory that we created. Only such a directory is removed again.
MARKER = ".made-by-memstretch-redis"
MARKER_TEXT = "Created by the Ansible role memstretch.density.redis, which removes it with its last instance.\n"
UNIT = "memstretch-redis@.service"
# Redis has no subcommands in access control lists, and no protected commands, before this version.
PROTECTS_COMMANDS = (7, 0)
KNOWS_CHANNELS = (6, 2)

UNIT_TEXT = f"""{MARK}
# The common settings of all instances. The others are in memstretch-redis@<name>.service.d/instance.conf.
[Unit]
Description=Redis instance %i
Documentation=https://redis.io/docs/latest/
After=network.target

[Service]
Type=notify
# Loading and saving a large data set takes time; Redis notifies systemd when it is ready.
TimeoutStartSec=10min
TimeoutStopSec=10min
Restart=on-failure
LimitNOFILE=65535
UMask=0077
RuntimeDirectory=memstretch-redis/%i
RuntimeDirectoryMode=0755

CapabilityBoundingSet=
LockPersonality=yes
MemoryDenyWriteExecute=yes
NoNewPrivileges=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHome=read-only
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
SystemCallFilter=~@privileged

[Install]
WantedBy=multi-user.target
"""


def identity(instance: Instance) -> str:
    """Return the line of a configuration file that says for which host of which inventory it was written."""
    owner = f", set up by {instance.owner}" if instance.owner else ""
    return f"# Instance {instance.name} of inventory host {instance.inventory_host}{owner}"


def owner_of(text: str) -> str:
    """Return who has set up the instance of a configuration file."""
    found = re.search(r"^# Instance .*, set up by (\S+)$", text, re.MULTILINE)
    return found.group(1) if found else ""


def configuration(instance: Instance) -> str:
    """Return the text of redis.conf."""
    lines = [MARK, identity(instance), "", f"port {instance.port}"]
    if instance.port:
        lines.append("bind " + " ".join(instance.bind))
    lines.append("protected-mode yes")
    if instance.socket:
        lines += [f"unixsocket {instance.socket}", f"unixsocketperm {int(instance.socket_mode, 8):03o}"]
    lines += ["", f"dir {instance.data}"]
    if instance.systemd:
        lines += ["# systemd keeps the log and tracks the process.", "daemonize no", "supervised systemd", 'logfile ""']
    else:
        lines += [f"pidfile {instance.data}/redis.pid", f"logfile {instance.data}/redis.log"]
    if instance.password:
        lines.append(f"aclfile {instance.acl}")
    lines += ["", f"maxmemory {instance.maxmemory}", f"maxmemory-policy {instance.maxmemory_policy}"]
    if not instance.persistence:
        lines += ['save ""', "appendonly no"]
    for directive, value in sorted(instance.extra_config.items()):
        lines += [f"{directive} {_value(part)}" for part in (value if isinstance(value, list) else [value])]
    return "\n".join(lines) + "\n"


def _value(part: t.Any) -> str:
    if isinstance(part, bool):
        return "yes" if part else "no"
    return str(part) or '""'


def users(instance: Instance, version: tuple[int, int]) -> str:
    """Return the text of users.acl. It has the hash of the password only; Redis allows no comments in it."""
    rights = ["~*"] + (["&*"] if version >= KNOWS_CHANNELS else []) + ["+@all"]
    if version < PROTECTS_COMMANDS:  # later versions refuse these by themselves (enable-module-command)
        rights += ["-module", "-debug"]
    hashed = hashlib.sha256(instance.password.encode("utf-8", "surrogateescape")).hexdigest()
    others = ["user default reset off"] if instance.username != "default" else []
    return "\n".join([*others, f"user {instance.username} reset on #{hashed} {' '.join(rights)}"]) + "\n"


def dropin(instance: Instance, executable: str) -> str:
    """Return the settings that differ between the units of instances."""
    lines = [
        MARK,
        f"# Instance {instance.name}: the settings that differ between instances.",
        "[Service]",
        f"ExecStart={executable} {instance.config}",
        f"User={instance.user}",
        f"Group={instance.group}",
        f"ReadWritePaths={instance.data}",
    ]
    if instance.socket and os.path.dirname(instance.socket) != f"/run/memstretch-redis/{instance.name}":
        lines.append(f"ReadWritePaths={os.path.dirname(instance.socket)}")
    lines.append(f"OOMScoreAdjust={instance.oom_score_adjust}")
    if instance.slice:
        lines.append(f"Slice={instance.slice}")
    if 0 < instance.port < 1024:
        lines += ["AmbientCapabilities=CAP_NET_BIND_SERVICE", "CapabilityBoundingSet=CAP_NET_BIND_SERVICE"]
    return "\n".join(lines) + "\n"
