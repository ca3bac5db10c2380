# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the Redis instances of a host into their states: what the module redis_instances does."""

from __future__ import annotations

import contextlib
import glob
import grp
import json
import os
import pwd
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand, run_to_end
from ansible_collections.memstretch.density.plugins.module_utils.host.files import write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.locks import locked
from ansible_collections.memstretch.density.plugins.module_utils.redis import texts
from ansible_collections.memstretch.density.plugins.module_utils.redis.config import Config, ConfigError, address_text
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Connection, Refused, fields
from ansible_collections.memstretch.density.plugins.module_utils.redis.daemon import Daemon, DaemonError, actions_for
from ansible_collections.memstretch.density.plugins.module_utils.redis.instances import (
    POLICIES,
    Host,
    Instance,
    Problems,
    expand,
    problems_of,
)
from ansible_collections.memstretch.density.plugins.module_utils.redis.place import Place
from ansible_collections.memstretch.density.plugins.module_utils.redis.units import (
    DIRECTORY,
    Unit,
    UnitError,
    can_notify,
    reload,
)

# Assumed in check mode where the server is not installed yet.
NEWEST = (99, 0)
WITH_USERS = (6, 0)
_ERRORS = (ConfigError, DaemonError, UnitError, Refused, OSError)


class InstancesError(Exception):
    """The options cannot be used on this host; nothing was changed. The text is for the user."""


class Module(t.Protocol):
    """What is used of an AnsibleModule."""

    check_mode: bool
    run_command: RunCommand

    def get_bin_path(self, arg: str) -> str | None:
        """Return the path of a program."""


def bring(module: Module, options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Compare the instances with the options, apply the difference, and return the result.

    Raises:
        InstancesError: an option is not allowed, or does not fit what is on the host.
    """
    return _Run(module, options).result()


class _Run:
    """One run of the module."""

    def __init__(self, module: Module, options: t.Mapping[str, t.Any]) -> None:
        self.module = module
        self.check_mode = module.check_mode
        self.host = Host.look()
        self.problems = Problems(options["option_prefix"])
        self.place = Place(module.check_mode)
        self.instances = [expand(each, options, self.host) for each in options["instances"]]
        supervisors = [each.get("supervisor") or options["supervisor"] for each in options["instances"]]
        self._refuse(problems_of(self.instances, supervisors, self.host, options["option_prefix"]))
        self.configured = [each for each in self.instances if each.state != "absent"]
        self.absent = [each for each in self.instances if each.state == "absent"]
        self.results = {each.config: self._described(each) for each in self.instances}
        self.changed_files: dict[str, bool] = {}
        self.warnings: list[str] = []

    def _add_places(self) -> None:
        """Return the place of each instance's files in the kernel's numbers, which are the same under all names."""
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            kernel = file.read().strip()
        for instance in self.configured:
            with contextlib.suppress(FileNotFoundError):  # check mode has not created it
                status = os.stat(instance.home)
                self.results[instance.config]["place"] = f"{kernel}:{status.st_dev}:{status.st_ino}"

    def result(self) -> dict[str, t.Any]:
        """Do everything, and return the result of the module."""
        self.servers = {each.executable: self._server(each.executable) for each in self.instances}
        missing = sorted({each.executable for each in self.configured if not self.servers[each.executable]})
        left = 0
        # Another inventory host may be the same machine and may be writing its own files at this moment.
        with contextlib.ExitStack() as locks:
            for root, same in sorted({each.root: each for each in self.configured}.items()):
                locks.enter_context(self._locked(root, same))
            self._check_host()
            if not missing or self.check_mode:
                self._configure()
        if not missing or self.check_mode:
            for instance in self.configured:
                self._guard(instance, self._run_unit if instance.systemd else self._run_daemon)
            left = self._remove()
            self._add_places()
        return {
            "changed": bool(self.place.diff),
            "diff": self.place.diff,
            "instances": [self.results[each.config] for each in self.configured],
            "missing": missing,
            "root": self.host.root,
            "systemd": self.host.systemd,
            "left": left,
            "errors": [f"{each['name']}: {each['error']}" for each in self.results.values() if each["error"]],
            "notes": self.warnings,
        }

    # --- before anything is changed ----------------------------------------------------------------------------

    @staticmethod
    def _refuse(lines: t.Sequence[str]) -> None:
        if lines:
            raise InstancesError("\n".join(lines))

    def _server(self, executable: str) -> tuple[str, tuple[int, int]] | None:
        """Return the path and version of a server; None if it is not installed."""
        path = self.module.get_bin_path(executable)
        if not path:
            return None
        environment = {"LC_ALL": "C"}
        _status, output, _errors = run_to_end(self.module.run_command, [path, "--version"], environ_update=environment)
        found = re.search(r"\bv=(\d+)\.(\d+)", output)
        return path, (int(found.group(1)), int(found.group(2))) if found else (0, 0)

    def _version(self, instance: Instance) -> tuple[int, int]:
        server = self.servers[instance.executable]
        return server[1] if server else NEWEST

    def _executable(self, instance: Instance) -> str:
        server = self.servers[instance.executable]
        return server[0] if server else f"/usr/bin/{os.path.basename(instance.executable)}"

    def _check_host(self) -> None:
        for instance in self.configured:
            if instance.password and self._version(instance) < WITH_USERS:
                number = ".".join(map(str, self._version(instance)))
                self.problems.add(
                    "password",
                    f"needs Redis 6.0 or newer; {self._executable(instance)} is {number}. Install a newer one, "
                    "or leave it empty",
                )
            if self.servers[instance.executable]:  # the package creates the user
                self._check_user(instance)
                self._check_notification(instance)
            self._warn_of_root(instance)
            self._check_directory(instance)
        self._refuse(self.problems.lines)

    def _check_notification(self, instance: Instance) -> None:
        if instance.systemd and not can_notify(self._executable(instance)):
            self.problems.add(
                "executable",
                f"{self._executable(instance)} was built without libsystemd, so systemd would wait in vain until it "
                f"says that it is ready; set {self.problems.option('supervisor')} to 'daemon', or build it with "
                "USE_SYSTEMD=yes",
            )

    def _warn_of_root(self, instance: Instance) -> None:
        is_root = os.geteuid() == 0 and not instance.systemd and not instance.daemon_user
        if is_root and instance.port and not instance.password:
            self.warnings.append(
                f"{instance.name} runs as root without a password, so every user of this host can become root by it. "
                f"Leave {self.problems.option('daemon_user')} empty, or set {self.problems.option('password')}"
            )

    def _check_user(self, instance: Instance) -> None:
        option = "user" if instance.systemd else "daemon_user"
        name = getattr(instance, option)
        try:
            user = pwd.getpwnam(name) if name else None
        except KeyError:
            self.problems.add(
                option, f"{name} is not a user of this host; set it to the user that the package created, or create it"
            )
            return
        if instance.systemd:
            try:
                grp.getgrnam(instance.group)
            except KeyError:
                self.problems.add("group", f"{instance.group} is not a group of this host")
        elif user:
            closed = _closed_to(instance.home, user.pw_uid)
            if closed:
                self.problems.add(
                    "directory",
                    f"{instance.home} cannot be reached by the user {name}, because {closed} does not let it "
                    "in; choose "
                    "another directory",
                )

    def _check_directory(self, instance: Instance) -> None:
        ours = self._our_configuration(instance)
        if ours is None:
            try:
                filled = bool(os.listdir(instance.home))
            except FileNotFoundError:
                return
            if filled:
                self.problems.add(
                    "directory",
                    f"files that this role did not create are in {instance.home}, where an instance would write "
                    "its own; "
                    f"choose another {self.problems.option('directory')} or {self.problems.option('name')}, or "
                    "move those "
                    "files",
                )
        elif self._of_others(instance, ours):
            self.problems.add(
                "name",
                f"the instance {instance.name} in {instance.home} was set up by another inventory "
                f"({texts.owner_of(ours)}); "
                f"choose another {self.problems.option('name')}, or set {self.problems.option('owner')} to that "
                "text to take "
                "it over",
            )

    @staticmethod
    def _our_configuration(instance: Instance) -> str | None:
        """Return the configuration file of an instance that the role has made."""
        try:
            with open(instance.config, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return text if text.partition("\n")[0] == texts.MARK else None

    @staticmethod
    def _of_others(instance: Instance, text: str) -> bool:
        return texts.owner_of(text) != instance.owner

    # --- the files ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self, name: str, instance: Instance) -> t.Iterator[None]:
        with contextlib.nullcontext() if self.check_mode else locked(f"the Redis of {name}", instance.timeout):
            yield

    def _guard(self, instance: Instance, step: t.Callable[[Instance], None]) -> None:
        """Do a step, unless an earlier one failed, and keep its error for the result."""
        result = self.results[instance.config]
        if not result["error"]:
            try:
                step(instance)
            except _ERRORS as error:
                result["error"] = str(error)

    def _configure(self) -> None:
        units = [each for each in self.configured if each.systemd]
        unit_changed = False
        if units:
            with self._locked("unit", units[0]):
                template = (f"{DIRECTORY}/{texts.UNIT}", texts.UNIT_TEXT, 0o644, 0, 0)
                if Place(check_mode=True).file(*template):
                    for each in units:
                        self._guard(each, self._mark)
                unit_changed = self.place.file(*template)
        for instance in self.configured:
            self.changed_files[instance.config] = unit_changed and instance.systemd
            self._guard(instance, self._write)
        if units and any(self.changed_files[each.config] for each in units) and not self.check_mode:
            reload(self.module.run_command)

    def _write(self, instance: Instance) -> None:
        if instance.systemd and self._write_files(instance, Place(check_mode=True)):
            self._mark(instance)
        changed = self._write_files(instance, self.place)
        self.changed_files[instance.config] |= changed or self._is_marked(instance)

    def _mark(self, instance: Instance) -> None:
        """Leave a mark that a unit must be restarted, before its files are written.

        A run that ends in between leaves the mark, and the next one restarts the unit although its files are right.
        """
        if os.path.isdir(instance.home) and not self.check_mode:
            write_file(self._due(instance), "", 0o600)

    def _is_marked(self, instance: Instance) -> bool:
        return instance.systemd and os.path.exists(self._due(instance))

    @staticmethod
    def _due(instance: Instance) -> str:
        return f"{instance.home}/restart-is-due"

    def _write_files(self, instance: Instance, place: Place) -> bool:
        root = 0 if instance.systemd or instance.daemon_user else os.geteuid()
        user, group = self._identity(instance)
        shared = instance.systemd or bool(instance.daemon_user)
        # An existing directory keeps its owner and mode: it may belong to the user.
        if not os.path.isdir(instance.root):
            place.directory(instance.root, 0o755 if shared else 0o700, root, os.getegid())
            place.file(f"{instance.root}/{texts.MARKER}", texts.MARKER_TEXT, 0o644, root, os.getegid())
        if not os.path.isdir(instance.data_root):
            place.directory(instance.data_root, 0o755 if shared else 0o700, root, os.getegid())
        place.directory(instance.home, 0o750 if shared else 0o700, root, group)
        changed = place.file(instance.config, texts.configuration(instance), 0o640 if shared else 0o600, root, group)
        if instance.password:
            text = texts.users(instance, self._version(instance))
            changed |= place.file(instance.acl, text, 0o600, user, group, secret=True)
        else:
            changed |= place.remove(instance.acl)
        # After the configuration, whose first line marks the directory as ours.
        if instance.data != instance.home:
            place.directory(instance.data, 0o700, user, group)
        if instance.systemd:
            place.directory(self._dropin(instance), 0o755, 0, 0)
            text = texts.dropin(instance, self._executable(instance))
            changed |= place.file(f"{self._dropin(instance)}/instance.conf", text, 0o644, 0, 0)
        return changed

    @staticmethod
    def _dropin(instance: Instance) -> str:
        return f"{DIRECTORY}/{instance.unit}.d"

    def _identity(self, instance: Instance) -> tuple[int, int]:
        """Return the user and group of the server."""
        try:
            if instance.systemd:
                return pwd.getpwnam(instance.user).pw_uid, grp.getgrnam(instance.group).gr_gid
            if instance.daemon_user:
                user = pwd.getpwnam(instance.daemon_user)
                return user.pw_uid, user.pw_gid
        except KeyError:
            if not self.check_mode:  # there, the package that creates the user is not installed yet
                raise
        return os.geteuid(), os.getegid()

    # --- the servers -------------------------------------------------------------------------------------------

    def _run_unit(self, instance: Instance) -> None:
        with self._locked(instance.config, instance):
            unit = Unit(instance.unit, self.module.run_command)
            actions = unit.actions(instance.state == "present", self.changed_files.get(instance.config, False))
            wanted = {"present": ("started", "enabled"), "stopped": ("stopped", "disabled")}[instance.state]
            self._note(instance, unit.state, dict(zip(("state", "boot"), wanted)), actions)
            if actions and not self.check_mode:
                unit.apply(actions)
                unit = Unit(instance.unit, self.module.run_command)
            if not self.check_mode and self._is_marked(instance):
                os.unlink(self._due(instance))
            if unit.active and not (actions and self.check_mode):
                self._report(instance, self._ask(instance), unit.pid)

    def _ask(self, instance: Instance) -> dict[str, str]:
        address = Config(instance.config).address
        try:
            with Connection(address, min(instance.timeout, 5)) as connection:
                connection.log_in(instance.username, instance.password)
                return fields(connection.require("INFO", "everything"))
        except Refused as refused:
            raise DaemonError(
                f"the server at {address_text(address)} refuses user {instance.username!r}: {refused}; check "
                "the username and "
                "password"
            ) from None

    def _daemon(self, instance: Instance) -> Daemon:
        return Daemon(
            config=Config(instance.config),
            executable=self._executable(instance),
            username=instance.username,
            password=instance.password,
            timeout=instance.timeout,
            cgroup=instance.cgroup,
            run_command=self.module.run_command,
            identity=self._identity(instance),
        )

    def _run_daemon(self, instance: Instance) -> None:
        with self._locked(instance.config, instance):
            daemon = self._daemon(instance)
            if not self.check_mode:
                daemon.config.require()
            process = daemon.find()
            # A play that ended early may have written the files. In check mode, they are not written yet.
            predicted = self.check_mode and process is not None and self.changed_files.get(instance.config, False)
            current = daemon.is_current(process) and not predicted
            state = "started" if instance.state == "present" else "stopped"
            actions, reason = actions_for(
                state, process, current, daemon.is_in_cgroup(process), daemon.is_of_user(process)
            )
            before = {
                "state": "started" if process else "stopped",
                "configuration": "current" if current else "outdated",
            }
            self._note(instance, before, {"state": state, "configuration": "current"}, actions, reason)
            if actions:
                process = None if self.check_mode else daemon.apply(actions, process)
            elif process:
                daemon.wait(process)
            if process:
                self._report(instance, daemon.info(), process.pid)

    def _note(
        self,
        instance: Instance,
        before: dict[str, str],
        after: dict[str, str],
        actions: t.Sequence[str],
        reason: str = "",
    ) -> None:
        result = self.results[instance.config]
        result.update(actions=list(actions), reason=reason)
        if actions:
            headers = {"before_header": instance.name, "after_header": instance.name}
            shown = {"before": json.dumps(before) + "\n", "after": json.dumps(after) + "\n"}
            self.place.diff.append({**headers, **shown})

    # --- what is reported --------------------------------------------------------------------------------------

    @staticmethod
    def _described(instance: Instance) -> dict[str, t.Any]:
        return {
            "name": instance.name,
            "inventory_host": instance.inventory_host,
            "state": "started" if instance.state == "present" else instance.state,
            "supervisor": instance.supervisor,
            "host": instance.bind[0] if instance.port else "",
            "port": instance.port,
            "socket": instance.socket,
            "config": instance.config,
            **dict.fromkeys(("pid", "version", "run_id", "used_memory", "maxmemory", "maxmemory_policy", "place")),
            "actions": [],
            "reason": "",
            "error": "",
        }

    def _report(self, instance: Instance, info: t.Mapping[str, str], pid: int | None) -> None:
        """Add what the server says about itself, as far as it is well-formed."""

        def matching(name: str, pattern: str) -> str | None:
            text = info.get(name, "")
            return text if re.fullmatch(pattern, text) else None

        def whole(name: str) -> int | None:
            text = matching(name, r"\d{1,19}")
            return None if text is None else int(text)

        self.results[instance.config].update(
            pid=pid,
            version=matching("redis_version", r"[\w.+~-]{1,40}"),
            run_id=matching("run_id", "[0-9a-f]{40}"),
            used_memory=whole("used_memory"),
            maxmemory=whole("maxmemory"),
            maxmemory_policy=matching("maxmemory_policy", "|".join(POLICIES)),
        )

    # --- the removal -------------------------------------------------------------------------------------------

    def _remove(self) -> int:
        """Remove the instances that must not exist, and return how many of the role's remain in their directories."""
        for instance in self.absent:
            self._guard(instance, self._remove_instance)
        left = 0
        for root, same in {each.root: each for each in self.absent}.items():
            with self._locked(root, same):
                left += self._remove_shared(same)
        return left

    def _remove_instance(self, instance: Instance) -> None:
        text = self._our_configuration(instance)
        if text is None:
            if os.path.isdir(instance.home):
                self.place.remove_empty(instance.home)  # an earlier run ended before it wrote the configuration
            return
        if self._of_others(instance, text):
            self.warnings.append(
                f"The instance {instance.name} in {instance.home} stays: another inventory "
                f"({texts.owner_of(text)}) has set it "
                f"up. To remove it, set {self.problems.option('owner')} to that text"
            )
            return
        with self._locked(instance.config, instance):
            if instance.systemd:
                unit = Unit(instance.unit, self.module.run_command)
                actions = unit.actions(False, False) if unit.exists else []
                self._note(instance, unit.state, {"state": "stopped", "boot": "disabled"}, actions)
                if actions and not self.check_mode:
                    unit.apply(actions)
            else:
                daemon = self._daemon(instance)
                process = daemon.find()
                actions, reason = actions_for("stopped", process)
                self._note(instance, {"state": "started"}, {"state": "stopped"}, actions, reason)
                if actions and not self.check_mode:
                    daemon.apply(actions, process)
            # Whoever removes the last instance of a directory removes the directory, so none may be half removed then.
            with self._locked(instance.root, instance):
                # The configuration goes last: without it, a run after one that was killed would not know the rest.
                if instance.systemd:
                    self.place.remove(self._dropin(instance))
                for path in dict.fromkeys([instance.data, instance.home]):
                    self.place.remove(path, last=os.path.basename(instance.config))

    def _remove_shared(self, instance: Instance) -> int:
        """Remove what the instances of a directory shared if none remains; return how many remain."""
        removed = {path for path in self.place.changes if self.check_mode}
        own = [
            path
            for path in glob.glob(glob.escape(instance.root) + "/*/redis.conf")
            if os.path.dirname(path) not in removed and _has_mark(path)
        ]
        if instance.systemd:
            every = glob.glob(f"{DIRECTORY}/memstretch-redis@*.service.d")
            others = [path for path in every if path not in removed]
            if not others:
                self.place.remove(f"{DIRECTORY}/{texts.UNIT}")
            if self.place.diff and not self.check_mode:
                reload(self.module.run_command)
            if not others and os.path.isdir("/run/memstretch-redis"):
                self.place.remove_empty("/run/memstretch-redis")
            own = own or others
        if not own:
            created = self.place.remove(f"{instance.root}/{texts.MARKER}")
            if created or not instance.directory:
                self.place.remove_empty(instance.root)
            if not instance.directory:
                self.place.remove_empty(instance.data_root)
                if "memstretch" in os.path.basename(os.path.dirname(instance.root)):
                    self.place.remove_empty(os.path.dirname(instance.root))
        return len(own)


def _has_mark(path: str) -> bool:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.readline().rstrip("\n") == texts.MARK


def _closed_to(path: str, uid: int) -> str:
    """Return the first directory above a path that does not let a user in, as its mode says; empty if all do."""
    above = os.path.dirname(path)
    closed = ""
    while above not in ("/", ""):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(above)
            if not status.st_mode & (0o100 if status.st_uid == uid else 0o001):
                closed = above
        above = os.path.dirname(above)
    return closed
