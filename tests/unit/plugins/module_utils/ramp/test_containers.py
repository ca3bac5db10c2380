# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers of a ramp, with a script in the place of podman; tests/local has the real one."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import signal
import time
import types

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.ramp import containers, plan
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import ServerError

from .test_plan import GIVEN

PLAN = plan.checked({**GIVEN, "image": "docker.io/library/redis:7"})
# Starts a process that stays, and writes its number where podman would.
RUNS = 'sleep 600 >/dev/null 2>&1 &\necho -n $! >"$pidfile"; echo 0123abcd'
GROUP = types.SimpleNamespace(name="memstretch-ramp", admit=lambda _pid: None)


class Podman:
    """The script: it notes how it was called, and does what a test has put in the place of a command.

    Attributes:
        does: what each command does, by its words; the others do nothing.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        script = path / "podman"
        script.write_text(
            f"""#!/bin/sh
cd {shlex.quote(str(path))}
echo "$*" >>calls
case $1 in --cgroup-manager=*) shift;; esac
for word; do case $word in --pidfile=*) pidfile=${{word#*=}};; esac; done
case $1 in image|container) name=$1-$2;; *) name=$1;; esac
[ ! -e "does-$name" ] || . "./does-$name"
""",
            encoding="utf-8",
        )
        script.chmod(0o755)

    def does(self, name: str, what: str) -> None:
        (self._path / f"does-{name}").write_text(what, encoding="utf-8")

    def calls(self) -> list[str]:
        """The commands so far."""
        with contextlib.suppress(FileNotFoundError):
            return (self._path / "calls").read_text(encoding="utf-8").splitlines()
        return []


@pytest.fixture
def podman(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(containers, "_USER", os.getuid())
    return Podman(tmp_path / "bin")


@pytest.fixture
def as_root(monkeypatch):
    """Whoever runs the tests counts as root."""
    directory = containers.private_directory()
    monkeypatch.setattr(containers, "private_directory", lambda: directory)
    monkeypatch.setattr(containers.os, "geteuid", lambda: 0)


@pytest.fixture
def container(podman, tmp_path):
    """A function that starts a container, which is there until the end of the test."""
    made = []

    def start(group=GROUP, place=0):
        made.append(containers.Container(PLAN.servers[place], PLAN, group, str(tmp_path / f"{7001 + place}.1")))
        return made[-1]

    yield start
    for each in made:
        if each.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGKILL)


def until(what):
    deadline = time.monotonic() + 30
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_plan_without_an_image_is_left_as_it_is(podman):
    plain = PLAN._replace(image="")
    assert containers.prepared(plain) is plain and podman.calls() == []


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ('["valkey-server"]', "valkey-server"),
        ('["/usr/local/bin/redis-server", "--save"]', "/usr/local/bin/redis-server"),
        ('["/opt/run.sh"]', "redis-server"),
        ("null", "redis-server"),
    ],
)
def test_an_image_has_its_number_and_its_program(podman, as_root, command, program):
    podman.does("image-inspect", f"echo 'WARN of something' >&2; echo 'c84e4d {command}'")
    found = containers.prepared(PLAN)
    assert (found.image, found.redis) == ("c84e4d", program)
    swept, exists, _inspect = podman.calls()
    assert swept == "rm --force --ignore --time=0 --volumes --filter=label=memstretch.ramp"
    assert exists == "image exists docker.io/library/redis:7", "what is there is not pulled"


def test_an_image_that_is_not_there_is_pulled_once(podman, as_root):
    podman.does("image-exists", "exit 1")
    podman.does("image-inspect", "echo 'c84e4d null'")
    assert containers.prepared(PLAN).image == "c84e4d"
    assert podman.calls()[2] == "pull --quiet docker.io/library/redis:7"


@pytest.mark.parametrize(
    ("does", "named"),
    [
        ({"pull": "echo no route to host; exit 125"}, "has no image docker.io/library/redis:7 and cannot .*no route"),
        ({"image-inspect": "echo broken; exit 125"}, "density_image: podman cannot inspect docker.io.*: broken"),
        ({"rm": "echo busy; exit 1"}, "cannot remove the containers of a ramp: busy. Remove them: podman rm --force"),
    ],
)
def test_what_podman_cannot_do_is_said_in_its_words(podman, as_root, does, named):
    podman.does("image-exists", "exit 1")
    for name, what in does.items():
        podman.does(name, what)
    with pytest.raises(ServerError, match=named):
        containers.prepared(PLAN)


def test_only_root_may_start_containers(monkeypatch):
    monkeypatch.setattr(containers.os, "geteuid", lambda: 1000)
    with pytest.raises(ServerError, match="density_image: only root's containers .*ansible_become"):
        containers.prepared(PLAN)


def test_a_host_without_podman_is_told_so(tmp_path, monkeypatch, as_root):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not containers.is_installed()
    with pytest.raises(ServerError, match="podman is not a program on this host; install podman, or leave density_im"):
        containers.prepared(PLAN)


def test_a_container_starts_below_its_group_and_its_password_stands_in_no_argument(podman, container, tmp_path):
    podman.does("run", RUNS)
    found = container()
    until(lambda: found.start.ended() and not found.ended() and found.pid)
    (call,) = podman.calls()
    words = call.split()
    assert words[:3] == ["--cgroup-manager=cgroupfs", "run", "--detach"]
    assert {"--name=memstretch-ramp-7001", "--cgroup-parent=/memstretch-ramp", "--pull=never"} <= set(words)
    assert {"--cgroups=no-conmon", "--network=host", "--oom-score-adj=1000", "--cap-drop=all"} <= set(words)
    assert words[-3:] == ["--entrypoint=redis-server", "docker.io/library/redis:7", "/memstretch.conf"]
    file = tmp_path / "7001.1.conf"
    assert f"requirepass {found.login.password}\n" in file.read_text(encoding="ascii")
    assert file.stat().st_mode & 0o777 == 0o400 and found.login.password not in call
    assert f"--volume={file}:/memstretch.conf:ro" in words


def test_a_container_that_is_killed_has_ended_with_its_last_words(podman, container):
    podman.does("run", RUNS)
    podman.does("logs", "echo its last words")
    podman.does("wait", "echo WARN >&2; echo 137")
    found = container()
    until(lambda: found.ended() or found.pid)
    assert not found.ended() and not found.was_killed
    os.kill(found.pid, signal.SIGKILL)
    until(found.ended)
    podman.does("logs", "echo no such container; exit 125")
    assert found.was_killed and (found.how(), found.says()) == ("with signal 9", "its last words")


def test_a_container_that_ends_by_itself_was_not_killed(podman, container):
    podman.does("run", RUNS.replace("sleep 600", "true"))
    podman.does("wait", "echo 1")
    found = container()
    until(found.ended)
    assert not found.was_killed and found.how() == "with status 1"


def test_a_container_whose_end_podman_does_not_know_is_an_error(podman, container):
    podman.does("run", RUNS.replace("sleep 600", "true"))
    podman.does("wait", "echo no such container; exit 125")
    with pytest.raises(ServerError, match="redis1: podman does not know how its container ended: no such container"):
        until(container().ended)


def test_a_container_that_cannot_start_is_an_error_in_the_words_of_podman(podman, container, monkeypatch):
    podman.does("run", "echo 'crun: no such runtime' >&2; exit 126")
    podman.does("container-inspect", "echo 0123abcd")
    monkeypatch.setattr(containers, "killed_in", lambda _group: 0)
    found = container()
    until(found.start.ended)
    assert not found.ended()
    with pytest.raises(ServerError, match="redis1: podman cannot start its container: crun: no such runtime"):
        found.ready()


def test_a_container_that_the_kernel_kills_while_it_starts_was_killed(podman, container, monkeypatch):
    podman.does("run", "echo 'read init-p: connection reset' >&2; exit 126")
    podman.does("container-inspect", "echo 0123abcd")
    monkeypatch.setattr(containers, "killed_in", {"libpod-0123abcd": 4711}.get)
    found = container()
    until(found.ended)
    assert found.was_killed and found.pid == 4711 and "init-p" in found.says()


def test_a_container_in_another_group_is_refused(podman, container):
    def refuse(pid):
        raise BudgetError(f"process {pid} is elsewhere")

    podman.does("run", RUNS)
    with pytest.raises(BudgetError, match="elsewhere"):
        until(container(types.SimpleNamespace(name="memstretch-ramp", admit=refuse)).ended)


def test_containers_are_removed_by_one_command_whatever_happens_meanwhile(podman, container):
    podman.does("run", f"sleep 0.2; {RUNS}")
    podman.does("rm", "sleep 0.2")
    both = [container(), container(place=1)]

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        containers.remove(both, interrupt)
    assert all(each.start.status == 0 for each in both), "one that is starting is not left half made"
    assert podman.calls()[2:] == ["rm --force --ignore --time=0 --volumes memstretch-ramp-7001 memstretch-ramp-7002"]
    both[0].ended()
    both[1].ended()  # so that their processes are known, and end with the test


def test_no_containers_need_no_podman(podman):
    containers.remove([], lambda: None)
    assert podman.calls() == []
