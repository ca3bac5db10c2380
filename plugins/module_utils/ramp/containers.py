# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The containers of a ramp: podman starts a Redis in each, below the control group of the fleet or of the references.

Podman's own programs stay in the group of the conductor, so they are not charged. A container outlives the conductor,
so what a killed one has left is found by its label.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
import time
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import children
from ansible_collections.memstretch.density.plugins.module_utils.host.background import is_running
from ansible_collections.memstretch.density.plugins.module_utils.host.children import KILLED_FIRST, Child, Spawn
from ansible_collections.memstretch.density.plugins.module_utils.host.files import private_directory
from ansible_collections.memstretch.density.plugins.module_utils.ramp import groups
from ansible_collections.memstretch.density.plugins.module_utils.ramp.kernel_words import killed_in
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import Plan, Server
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import (
    Login,
    ServerError,
    configuration,
    is_ready,
)

LABEL = "memstretch.ramp"
_PROGRAMS = ("redis-server", "valkey-server")
_CONFIGURATION = "/memstretch.conf"
# Users of the host are not those of an image, and a Redis that keeps nothing needs no rights: nobody's number.
_USER = 65534
# A start takes a tenth of a second, and longer for an image that is on a slow drive.
_START_SECONDS = 120.0
_POLL_S = 0.01
# What a shell, and so podman, adds to the number of a signal.
_BY_SIGNAL, _SIGKILL = 128, 9
_LAST_CHARACTERS = 600


class Answer(t.NamedTuple):
    """How podman ended, and all that it printed."""

    status: int
    text: str

    @property
    def words(self) -> str:
        """The end of it, in one line."""
        return " ".join(self.text[-_LAST_CHARACTERS:].split())

    @property
    def last(self) -> str:
        """The last line of it, which is the answer where podman warns of something first."""
        return self.text.strip().rpartition("\n")[2]


def _sleep() -> None:
    time.sleep(_POLL_S)


def podman(*arguments: str, meanwhile: t.Callable[[], None] = _sleep) -> Answer:
    """Run podman to its end, also if C(meanwhile), which is called again and again, raises an exception.

    Raises:
        ServerError: this machine has no podman.
    """
    with tempfile.NamedTemporaryFile(prefix="podman-", dir=private_directory()) as file:
        child = Child(Spawn([_program(), *arguments], file.name))
        try:
            while not child.ended():
                meanwhile()
        finally:
            while not child.ended():
                _sleep()
        return Answer(_exit_code(child), file.read().decode("utf-8", "replace"))


def is_installed() -> bool:
    """Return whether this machine has podman."""
    return shutil.which("podman") is not None


def _program() -> str:
    path = shutil.which("podman")
    if path is None:
        raise ServerError(
            "density_image: podman is not a program on this host; install podman, or leave density_image out for Redis "
            "servers without containers"
        )
    return path


def _exit_code(child: Child) -> int:
    status = child.status or 0
    return _BY_SIGNAL + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def prepared(plan: Plan) -> Plan:
    """Return a plan whose image is on this machine, by its number, and whose program is that of the image.

    Raises:
        ServerError: there is no such image, or no podman that may start containers.
    """
    if not plan.image:
        return plan
    if os.geteuid() != 0:
        raise ServerError(
            "density_image: only root's containers can be in the control group of a DRAM budget; become root on the "
            "hypervisors (ansible_become)"
        )
    sweep()  # after a boot, containers of an earlier ramp are still there, but no groups
    if podman("image", "exists", plan.image).status != 0:
        pulled = podman("pull", "--quiet", plan.image)
        if pulled.status != 0:
            raise ServerError(
                f"density_image: podman has no image {plan.image} and cannot pull it: {pulled.words}. Build or load it "
                "on the hypervisors, or name another"
            )
    found = podman("image", "inspect", "--format", "{{.Id}} {{json .Config.Cmd}}", plan.image)
    if found.status != 0:
        raise ServerError(f"density_image: podman cannot inspect {plan.image}: {found.words}")
    number, _space, command = found.last.partition(" ")
    first = (json.loads(command) or [""])[0]
    return plan._replace(image=number, redis=first if os.path.basename(first) in _PROGRAMS else plan.redis)


def run_arguments(plan: Plan, port: int, group: groups.RampGroup, prefix: str) -> list[str]:
    """Return the arguments by which podman starts the container of a server.

    Args:
        plan: of the ramp, from prepared().
        port: of the server.
        group: the control group that it must be in.
        prefix: of the paths of its files.
    """
    return [
        "--cgroup-manager=cgroupfs",
        "run",
        "--detach",
        f"--name={name_of(port)}",
        f"--label={LABEL}=true",
        "--pull=never",
        f"--cgroup-parent=/{group.name}",
        # Else podman's monitor of each container would be charged to the budget.
        "--cgroups=no-conmon",
        "--network=host",
        f"--oom-score-adj={KILLED_FIRST}",
        f"--user={_USER}:{_USER}",
        "--cap-drop=all",
        "--read-only",
        "--image-volume=ignore",
        "--no-healthcheck",
        "--log-driver=k8s-file",
        f"--pidfile={prefix}.pid",
        f"--volume={prefix}.conf:{_CONFIGURATION}:ro",
        f"--entrypoint={plan.redis}",
        plan.image,
        _CONFIGURATION,
    ]


def name_of(port: int) -> str:
    """Return the name of the container of a server."""
    return f"{groups.FLEET}-{port}"


class Container:
    """A container, from its start on.

    Args:
        server: of the plan.
        plan: of the ramp, from prepared().
        group: the control group that it must be in.
        prefix: of the paths of its files.

    Attributes:
        login: how to reach its Redis.
        name: what podman calls it.
        pid: of its first process, 0 as long as it is not known.
        start: podman, which starts it.
    """

    def __init__(self, server: Server, plan: Plan, group: groups.RampGroup, prefix: str) -> None:
        self._server, self._plan, self._group, self._prefix = server, plan, group, prefix
        self._began = time.monotonic()
        self.name, self.pid = name_of(server.port), 0
        self.login = Login(("127.0.0.1", server.port), secrets.token_hex(16))
        self._status: int | None = None
        self._said = ""
        _write_for(_USER, f"{prefix}.conf", configuration(server.port, self.login.password))
        self.start = Child(Spawn([_program(), *run_arguments(plan, server.port, group, prefix)], f"{prefix}.podman"))

    def ready(self) -> bool:
        """Return whether its Redis answers, from within its control group.

        Raises:
            ServerError: it cannot, or somebody else does.
            BudgetError: it is in another control group.
        """
        waited = time.monotonic() - self._began
        if not self.start.ended():
            if waited > _START_SECONDS:
                raise ServerError(f"{self._server.name}: podman has not started its container: {self.start.says()}")
            return False
        if self.start.status != 0:
            raise ServerError(f"{self._server.name}: podman cannot start its container: {self.start.says()}")
        return is_ready(self._server, self._plan, self.login, waited, self.says)

    def ended(self) -> bool:
        """Return whether its Redis has ended."""
        if self._status is None and self.start.ended():
            if self.start.status != 0:
                self._take_failed_start()
            elif not self.pid:
                with open(f"{self._prefix}.pid", encoding="ascii") as file:
                    self.pid = int(file.read())
                self._group.admit(self.pid)
            elif not is_running(self.pid):
                self._said = self._logs()
                self._status = self._exit_code()
        return self._status is not None

    def _take_failed_start(self) -> None:
        """Take it that memory ran out already while it started; other failures are ready()'s."""
        found = podman("container", "inspect", "--format", "{{.Id}}", self.name)
        self.pid = killed_in(f"libpod-{found.last}") if found.status == 0 else 0
        if self.pid:
            self._said, self._status = self.start.says(), _BY_SIGNAL + _SIGKILL

    def _exit_code(self) -> int:
        answer = podman("wait", self.name)
        if answer.status != 0:
            raise ServerError(f"{self._server.name}: podman does not know how its container ended: {answer.words}")
        return int(answer.last)

    @property
    def was_killed(self) -> bool:
        """Whether somebody has sent it SIGKILL, as the kernel does when memory runs out."""
        return self._status == _BY_SIGNAL + _SIGKILL

    def how(self) -> str:
        """Return how it ended."""
        status = self._status or 0
        return f"with signal {status - _BY_SIGNAL}" if status > _BY_SIGNAL else f"with status {status}"

    def says(self) -> str:
        """Return the end of what it printed."""
        return self._said or self._logs()

    def _logs(self) -> str:
        return podman("logs", "--tail=20", self.name).words


def _write_for(user: int, path: str, content: str) -> None:
    """Write a file that nobody but a user may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchown(descriptor, user, user)
        file.write(content)


_REMOVE = ("rm", "--force", "--ignore", "--time=0", "--volumes")


def remove(containers: t.Sequence[Container], meanwhile: t.Callable[[], None]) -> None:
    """Remove containers, in one command. Those that are starting start first.

    Args:
        containers: whether they run or not.
        meanwhile: called again and again until they are removed.

    Raises:
        ServerError: one is left.
    """
    if not containers:
        return
    starts = [container.start for container in containers]
    try:
        while not all(start.ended() for start in starts):
            meanwhile()
    finally:  # whatever ends the ramp meanwhile
        children.end(starts, 0, _START_SECONDS)
        removed = podman(*_REMOVE, *(container.name for container in containers), meanwhile=meanwhile)
    _demand(removed)


def sweep() -> None:
    """Remove what the conductor of an earlier ramp has left.

    Raises:
        ServerError: a container is left.
    """
    _demand(podman(*_REMOVE, f"--filter=label={LABEL}"))


def _demand(removed: Answer) -> None:
    if removed.status != 0:
        raise ServerError(
            f"podman cannot remove the containers of a ramp: {removed.words}. Remove them: podman rm --force "
            f"--filter label={LABEL}"
        )
