# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the module redis_instances, what is wrong with them, and where the files of an instance are."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import Range, SettingError, number
from ansible_collections.memstretch.density.plugins.module_utils.redis.config import PORT

# The weakest first.
STATES = ["present", "stopped", "absent"]
SUPERVISORS = ["auto", "systemd", "daemon"]
POLICIES = [
    "noeviction",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
]
RANGES = {
    "timeout": Range(int, 1, 3600, "seconds"),
    "oom_score_adjust": Range(int, -1000, 1000, "1000 is killed first"),
    "port": PORT,
}
# The options of an instance. These are the defaults at the module's top level; an entry of instances may have its own.
OPTIONS: dict[str, dict[str, t.Any]] = {
    "name": {"type": "str", "default": ""},
    "inventory_host": {"type": "str", "default": ""},
    "owner": {"type": "str", "default": ""},
    "state": {"type": "str", "choices": STATES, "default": "present"},
    "supervisor": {"type": "str", "choices": SUPERVISORS, "default": "auto"},
    "directory": {"type": "str", "default": ""},
    "port": {"type": "int", "default": 6379},
    "bind": {"type": "list", "elements": "str", "default": ["127.0.0.1"]},
    "socket": {"type": "str", "default": ""},
    "socket_mode": {"type": "str", "default": "0700"},
    "maxmemory": {"type": "str", "default": "0"},
    "maxmemory_policy": {"type": "str", "default": "noeviction"},
    "persistence": {"type": "bool", "default": False},
    "username": {"type": "str", "default": "default"},
    "password": {"type": "str", "no_log": True},
    "extra_config": {"type": "dict", "default": {}},
    "executable": {"type": "str", "default": "redis-server"},
    "timeout": {"type": "int", "default": 30},
    "user": {"type": "str", "default": "redis"},
    "group": {"type": "str", "default": "redis"},
    "slice": {"type": "str", "default": ""},
    "oom_score_adjust": {"type": "int", "default": 200},
    "daemon_user": {"type": "str", "default": ""},
    "cgroup": {"type": "str", "default": ""},
}
# What the role calls them, where its variable has another name than the option with its prefix.
_ROLE_NAMES = {
    "timeout": "start_timeout",
    "slice": "systemd_slice",
    "oom_score_adjust": "systemd_oom_score_adjust",
    "cgroup": "daemon_cgroup",
}
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_PATH = r"/[^\s\"'\\]+"
_CGROUP = r"(/?[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*)?"
_LOOPBACK = r"-?(127\.\d+\.\d+\.\d+|::1|localhost)"
# Directives that extra_config must not set, and the options that set them.
_RESERVED = {
    "aclfile": "password",
    "bind": "bind",
    "daemonize": "supervisor",
    "dir": "directory",
    "include": "extra_config",
    "logfile": "directory",
    "maxmemory": "maxmemory",
    "maxmemory-policy": "maxmemory_policy",
    "pidfile": "directory",
    "port": "port",
    "requirepass": "password",
    "set-proc-title": "supervisor",
    "supervised": "supervisor",
    "unixsocket": "socket",
    "unixsocketperm": "socket_mode",
    "user": "username",
}


@dataclasses.dataclass(frozen=True)
class Host:
    """What decides on this host where instances live and who supervises them."""

    root: bool
    home: str
    systemd: bool
    first_process: str
    enforcing: bool

    @classmethod
    def look(cls) -> Host:
        """Look at this host."""

        def content(path: str) -> str:
            try:
                with open(path, encoding="utf-8", errors="replace") as file:
                    return file.read().strip()
            except OSError:
                return ""  # there is no SELinux, or /proc hides other users' processes

        return cls(
            root=os.geteuid() == 0,
            home=os.path.expanduser("~"),
            systemd=booted(),
            first_process=content("/proc/1/comm"),
            enforcing=content("/sys/fs/selinux/enforce") == "1",
        )


@dataclasses.dataclass(frozen=True)
class Instance:
    """One instance with all its values and paths."""

    name: str
    inventory_host: str
    owner: str
    state: str
    systemd: bool
    directory: str
    port: int
    bind: tuple[str, ...]
    socket: str
    socket_mode: str
    maxmemory: str
    maxmemory_policy: str
    persistence: bool
    username: str
    password: str = dataclasses.field(repr=False)
    extra_config: dict[str, t.Any]
    executable: str
    timeout: int
    user: str
    group: str
    slice: str
    oom_score_adjust: int
    daemon_user: str
    cgroup: str
    # Paths. The role may remove the roots when its last instance is gone; the first one only if it carries our marker.
    root: str
    data_root: str
    home: str
    data: str

    @property
    def config(self) -> str:
        return f"{self.home}/redis.conf"

    @property
    def acl(self) -> str:
        return f"{self.home}/users.acl"

    @property
    def unit(self) -> str:
        return f"memstretch-redis@{self.name}.service"

    @property
    def supervisor(self) -> str:
        return "systemd" if self.systemd else "daemon"


def expand(given: t.Mapping[str, t.Any], defaults: t.Mapping[str, t.Any], host: Host) -> Instance:
    """Return an instance with all its values and paths.

    Args:
        given: an entry of the option instances; None stands for a missing value.
        defaults: the values of the options at the top level.
        host: this host.
    """
    values = {name: defaults[name] if given.get(name) is None else given[name] for name in OPTIONS}
    chosen = (given.get("host_state"), given.get("state"), defaults["state"])
    state = max((each for each in chosen if each), key=STATES.index)
    name = values["name"] or (str(values["port"]) if values["port"] else values["inventory_host"])
    systemd = values["supervisor"] == "systemd" or (values["supervisor"] == "auto" and host.root and host.systemd)
    directory = values["directory"].rstrip("/")
    daemon_user = values["daemon_user"]
    if host.root and not systemd:
        # Anyone who can connect to a server can do what its user may, so root runs it only if the options say so.
        daemon_user = {"": values["user"], "root": ""}.get(daemon_user, daemon_user)
    of_user = not systemd and bool(daemon_user)  # the server's own user must be able to enter it
    root = directory or (
        "/etc/memstretch-redis"
        if systemd
        else "/var/lib/memstretch-redis-daemons"
        if of_user
        else f"{host.home}/.local/state/memstretch/redis"
    )
    home = f"{root}/{name}"
    data_root = "/var/lib/memstretch-redis" if systemd and not directory else root
    data = f"{data_root}/{name}" if data_root != root else f"{home}/data" if systemd or of_user else home
    sockets = f"/run/memstretch-redis/{name}" if systemd else data
    values.update(
        name=name,
        state=state,
        directory=directory,
        bind=tuple(part for each in values["bind"] for part in each.replace(",", " ").split()),
        socket=f"{sockets}/redis.sock" if values["socket"] == "auto" else values["socket"],
        maxmemory=values["maxmemory"].lower(),
        password=values["password"] or "",
        daemon_user=daemon_user,
    )
    del values["supervisor"]
    return Instance(systemd=systemd, root=root, data_root=data_root, home=home, data=data, **values)


class Problems:
    """All that is wrong with the options of a host's instances, a line for each."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.lines: list[str] = []

    def option(self, name: str) -> str:
        """Find the user's name of an option."""
        return self.prefix + (_ROLE_NAMES.get(name, name) if self.prefix else name)

    def add(self, name: str, text: str) -> None:
        """Add a line, unless another instance has added the same one."""
        line = f"{self.option(name)}: {text}"
        if line not in self.lines:
            self.lines.append(line)

    def check_text(self, name: str, value: str, pattern: str, allowed: str) -> bool:
        """Check whether a text matches a pattern as a whole, and add a line if it does not."""
        matches = bool(re.fullmatch(pattern, value))
        if not matches:
            self.add(name, f"{json.dumps(value)} is not allowed; it must be {allowed}")
        return matches

    def check_range(self, name: str, value: t.Any) -> None:
        """Add a line if a number is out of its range."""
        try:
            number(self.option(name), value, RANGES[name])
        except SettingError as error:
            if str(error) not in self.lines:
                self.lines.append(str(error))


def problems_of(
    instances: t.Sequence[Instance], supervisors: t.Sequence[str], host: Host, prefix: str = ""
) -> list[str]:
    """Return a line for each value that is not allowed: the option, the value, what is allowed.

    Args:
        instances: those of this host.
        supervisors: what each of them has as its option supervisor.
        host: this host.
        prefix: what the user's names of the options begin with.
    """
    found = Problems(prefix)
    for instance, supervisor in zip(instances, supervisors):
        _check_supervisor(found, instance, supervisor, host)
        _check_shared(found, instance)
    for instance in instances:
        allowed = '1 to 64 letters, digits, "_", "." and "-", the first one a letter or digit'
        found.check_text("name", instance.name, _NAME, allowed)
    _check_twins(found, instances)
    for instance in instances:
        if instance.state != "absent":
            _check_network(found, instance)
            _check_values(found, instance)
            _check_extra_config(found, instance)
    return found.lines


def _check_supervisor(found: Problems, instance: Instance, supervisor: str, host: Host) -> None:
    if supervisor == "systemd" and not host.root:
        found.add("supervisor", "'systemd' needs root; run it with \"become: true\", or set it to 'daemon'")
    if supervisor == "systemd" and not host.systemd:
        found.add(
            "supervisor",
            f"'systemd' needs a host that runs systemd, but this one runs {host.first_process}; set it to 'daemon'",
        )
    if supervisor == "auto" and instance.systemd and host.enforcing:
        found.add(
            "supervisor",
            "'auto' is not allowed where SELinux is enforcing, because its policy confines a Redis service to ports "
            "and directories that are not used here; set it to 'daemon', or to 'systemd' after you have changed the "
            "policy (semanage permissive -a redis_t)",
        )
    if instance.daemon_user and not instance.systemd and not host.root:
        found.add(
            "daemon_user", f'{instance.daemon_user!r} needs root; run it with "become: true", or leave the option empty'
        )


def _check_shared(found: Problems, instance: Instance) -> None:
    if instance.directory:
        found.check_text("directory", instance.directory, _PATH, "an absolute path without blanks and quotes")
    found.check_range("timeout", instance.timeout)
    found.check_range("oom_score_adjust", instance.oom_score_adjust)
    if instance.slice:
        allowed = "the name of a slice, such as fleet.slice"
        found.check_text("slice", instance.slice, r"[A-Za-z0-9:_.-]+[.]slice", allowed)
    found.check_text("cgroup", instance.cgroup, _CGROUP, "the path of a control group, such as fleet")
    allowed = "up to 200 letters, digits and _.:@/-"
    found.check_text("owner", instance.owner, r"[A-Za-z0-9_.:@/-]{0,200}", allowed)
    found.check_text("inventory_host", instance.inventory_host, r"[^\r\n\0]*", "one line")


def _check_twins(found: Problems, instances: t.Sequence[Instance]) -> None:
    for same in _grouped((each.home, each) for each in instances):
        name = json.dumps(same[0].name)
        found.add("name", f"{name} is the name of {len(same)} instances of this host; each needs its own")
    configured = [each for each in instances if each.state != "absent"]
    for same in _grouped((str(each.port), each) for each in configured if each.port):
        _add_twins(found, "port", str(same[0].port), same)
    for same in _grouped((each.socket, each) for each in configured if each.socket):
        _add_twins(found, "socket", same[0].socket, same)


def _add_twins(found: Problems, option: str, value: str, same: t.Sequence[Instance]) -> None:
    names = ", ".join(each.name for each in same)
    found.add(option, f"{value} is the {option} of {len(same)} instances of this host ({names}); each needs its own")


def _grouped(pairs: t.Iterable[tuple[str, Instance]]) -> list[list[Instance]]:
    """Return the instances that have a value in common, for each such value."""
    groups: dict[str, list[Instance]] = collections.defaultdict(list)
    for value, instance in pairs:
        groups[value].append(instance)
    return [same for same in groups.values() if len(same) > 1]


def _check_network(found: Problems, instance: Instance) -> None:
    at = f" (instance {instance.name})"
    if not PORT.low <= instance.port <= PORT.high:
        found.add("port", f"{instance.port} is out of range; it must be from 0 to 65535; 0 is no TCP{at}")
    if instance.port == 0 and not instance.socket:
        found.add("port", f"0 means no TCP, and {found.option('socket')} is empty; one of the two is needed{at}")
    if instance.port and not instance.bind:
        found.add(
            "bind",
            f"is empty; set at least one address, or set {found.option('port')} to 0 to use only a socket{at}",
        )
    for address in instance.bind:
        allowed = f"a list of IP addresses, such as 127.0.0.1{at}"
        found.check_text("bind", address, r"-?(\*|::\*|[0-9A-Za-z:.%_-]+)", allowed)
        if instance.port and not instance.password and not re.fullmatch(_LOOPBACK, address):
            found.add(
                "bind",
                f"{json.dumps(address)} is reachable from other machines, and {found.option('password')} is empty; "
                f"set a password, or bind to 127.0.0.1 or ::1{at}",
            )
    if instance.socket and (not re.fullmatch(_PATH, instance.socket) or len(os.fsencode(instance.socket)) > 107):
        found.add(
            "socket",
            f"{json.dumps(instance.socket)} is not allowed; it must be 'auto' or an absolute path of up to 107 "
            f"characters without blanks and quotes{at}",
        )
    if instance.systemd and re.match(r"(/tmp|/var/tmp)/", instance.socket):
        found.add(
            "socket",
            f"{json.dumps(instance.socket)} would be invisible to other processes, because the service has a "
            f"private /tmp; set it to 'auto' or to another path{at}",
        )
    allowed = f"0 and three octal digits, as text: '0700'{at}"
    found.check_text("socket_mode", instance.socket_mode, "0[0-7]{3}", allowed)


def _check_values(found: Problems, instance: Instance) -> None:
    at = f" (instance {instance.name})"
    # Redis' own units; a bare number is bytes.
    allowed = f"a whole number of bytes or one with the unit k, kb, m, mb, g or gb, such as 512mb; 0 means no limit{at}"
    found.check_text("maxmemory", instance.maxmemory, r"\d{1,19}(b|k|kb|m|mb|g|gb)?", allowed)
    allowed = f"one of {', '.join(POLICIES)}{at}"
    found.check_text("maxmemory_policy", instance.maxmemory_policy, "|".join(POLICIES), allowed)
    allowed = f'1 to 64 letters, digits, "_", ".", "@" and "-"{at}'
    fits = found.check_text("username", instance.username, r"[A-Za-z0-9_.@-]{1,64}", allowed)
    if fits and instance.username != "default" and not instance.password:
        found.add(
            "username",
            f"{json.dumps(instance.username)} needs a {found.option('password')}; without one there is only the user "
            f"'default'{at}",
        )


def _check_extra_config(found: Problems, instance: Instance) -> None:
    at = f" (instance {instance.name})"
    for directive, value in instance.extra_config.items():
        quoted = json.dumps(directive)
        parts = value if isinstance(value, list) else [value]
        if directive.lower() in _RESERVED:
            owner = _RESERVED[directive.lower()]
            found.add("extra_config", f"{quoted} is not allowed; it is set by {found.option(owner)}{at}")
        elif directive.lower() in ("save", "appendonly") and not instance.persistence:
            found.add("extra_config", f"{quoted} is not allowed while {found.option('persistence')} is false{at}")
        elif not re.fullmatch(r"[a-z][a-z0-9_-]*", directive):
            found.add(
                "extra_config",
                f"{quoted} is not allowed; names of Redis directives are in lower case, such as io-threads and "
                f"server_cpulist{at}",
            )
        elif any(isinstance(part, (dict, list)) or re.search(r"[\r\n\0]", str(part)) for part in parts):
            found.add(
                "extra_config",
                f"the value of {quoted} is not allowed; it must be a text of one line, a number, a boolean or a "
                f"list of these{at}",
            )
