# SPDX-License-Identifier: GPL-3.0-or-later
"""Real Redis servers of this machine, and real playbooks that measure them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import typing as t

import pytest
import redis
import yaml
from xdist.scheduler import LoadScopeScheduling

from ansible_collections.memstretch.density.plugins.module_utils.host.files import private_directory

from .machine import RECORDS

ROOT = pathlib.Path(__file__).resolve().parents[2]
ANSIBLE_PLAYBOOK = pathlib.Path(sys.executable).parent / "ansible-playbook"
STRETCHED = ROOT / "inventories" / "stretched" / "hosts.yml"
DEMO = ROOT / "inventories" / "demo" / "hosts.yml"
RAMP = ROOT / "inventories" / "ramp" / "hosts.yml"
LOCAL = ROOT / "inventories" / "local" / "hosts.yml"

# Seconds that anything may take here. No test is about speed, and other tests use the machine at the same time.
PATIENCE = 1500
# What a playbook has launched ends by itself within this time, also without its controller.
WITHOUT_CONTROLLER = 45

# Small, quick, and without bounds on timing: what these tests look at must not depend on how busy the machine is.
SMALL = {
    "latency_benchmark_key_count": 500,
    "latency_benchmark_rate": 1000,
    "latency_benchmark_influences": [0],
    "latency_benchmark_read_mixes": [100],
    "latency_benchmark_warmups": 0,
    "latency_benchmark_iterations": 1,
    "latency_benchmark_min_overlap": 0,
    "latency_benchmark_gap_seconds": 1,
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
    "site_check": False,  # it takes 20 seconds
}
ON_THIS_MACHINE = {
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}

# In the environment of the playbooks of a test: its directory.
MARK = "MEMSTRETCH_TEST"
# The servers of the role redis stay until a teardown, and Ansible keeps a connection open for a minute.
NOT_OURS = ("redis-server", "valkey-server", "ssh")

# Below the ports that the kernel hands out. Each process of tests has a range of its own: workers, and other lanes.
_FIRST_PORT, _PORTS_OF_PROCESS, _RANGES = 20000, 1000, 12
_ports = itertools.count(random.randrange(_PORTS_OF_PROCESS))
_held: list[socket.socket] = []


# Their tests change this machine (swap, sysctl, control groups, loop devices that are detached and attached again), or
# fail if another does at the same time.
CHANGES_THIS_MACHINE = tuple(
    f"tests/local/{name}"
    for name in (
        "swap/",
        "test_boot_loader.py::",
        "test_charged_dram.py::",
        "test_clean.py::test_everything",  # makes a file in /var/tmp, which is compared
        "test_density.py::",
        "test_demo.py::test_a_mark",
        "test_demo.py::test_after_ctrl_c",
        "test_demo.py::test_root",
        "test_experiments.py::test_throughput_of",  # what fits depends on the free memory and swap
        "test_headroom.py::",
        "test_page_in.py::test_each",
        "test_page_in.py::test_swap",
        "test_fresh_hypervisor.py::test_check_mode",
        "test_noisy_host.py::",
        "test_plan.py::test_a_plan_for_existing_servers",
        "test_plan.py::test_the_budget",
        "test_ramp.py::",
        "test_ramp_containers.py::",
        "test_selftest.py::",
        "test_site_check.py::test_processors",
        "test_study.py::test_a_budget",
        "test_study.py::test_a_search",
        "test_study.py::test_an_",
        "test_study.py::test_the_first",
        "test_tuning.py::",
        "test_writeback.py::",
    )
)


# Servers in pytest's directories, which only the user of the tests can enter.
DAEMON_OF_THE_PLAY = {"daemon_user": "root"} if os.geteuid() == 0 else {}
REDIS_OF_THE_PLAY = {f"redis_{name}": value for name, value in DAEMON_OF_THE_PLAY.items()}


def daemons_in(path: pathlib.Path) -> dict[str, str]:
    """Return the variables of the role redis for servers of the tests' user in a directory."""
    return {"redis_supervisor": "daemon", "redis_directory": str(path), **REDIS_OF_THE_PLAY}


class OneMachine(LoadScopeScheduling):
    """Send the tests that change this machine to one worker of pytest-xdist, and each other test to the next free one.

    The mark xdist_group would do this, but pytest-xdist 3.8 ignores it under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        return "machine" if nodeid.startswith(CHANGES_THIS_MACHINE) else nodeid


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The lane local-user runs next to the lanes that change this machine."""
    for item in items:
        alone = item.get_closest_marker("root") or item.get_closest_marker("long")
        if item.nodeid.startswith(CHANGES_THIS_MACHINE) and not alone:
            raise pytest.UsageError(f"{item.nodeid} is in CHANGES_THIS_MACHINE, so it must use steady_machine")


def pytest_xdist_make_scheduler(config: pytest.Config, log: t.Any) -> OneMachine:
    return OneMachine(config, log)


def free_ports(count: int) -> int:
    """Return the first of this many ports in a row that nothing listens on and that no other test is given."""
    own = own_ports()
    while True:
        first = own[next(_ports) % len(own)]
        numbers = range(first, first + count)
        for _skipped in range(count - 1):
            next(_ports)
        if numbers[-1] in own and all(map(_is_free, numbers)):
            return first


@functools.cache
def own_ports() -> range:
    """Return a range of ports that no other process of these tests has, whoever runs it, until this one has ended.

    A socket with the name of the range holds it: in the same network namespace, and not longer than the process.
    """
    for number in range(_RANGES):
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0memstretch-test-ports-{number}")
        except OSError:
            holder.close()
            continue
        _held.append(holder)
        return range(_FIRST_PORT + number * _PORTS_OF_PROCESS, _FIRST_PORT + (number + 1) * _PORTS_OF_PROCESS)
    raise RuntimeError(f"{_RANGES} processes run tests of tests/local on this machine; wait until one has ended")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_for(what: str, condition: t.Callable[[], t.Any], process: subprocess.Popen | None = None) -> t.Any:
    """Return the value of the condition as soon as it is true; process must not end before."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert process is None or process.poll() is None, f"{what}: too late\n{process.communicate()[0]}"
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)
    return found


def holds(text: str, words: t.Iterable[str]) -> bool:
    """Decide whether a text has all of these words."""
    return all(word in text for word in words)


def write_inventory(path: pathlib.Path, groups: dict[str, t.Any], **variables: t.Any) -> pathlib.Path:
    """Write an inventory whose hosts are all this machine, with variables that also localhost has."""
    of_all = {**ON_THIS_MACHINE, **variables}
    path.write_text(yaml.safe_dump({"all": {"vars": of_all, "children": groups}}), encoding="utf-8")
    return path


def smaller_inventory(path: pathlib.Path, directory: pathlib.Path, *hosts: str, **variables: t.Any) -> pathlib.Path:
    """Write an inventory of the collection into a directory, with only these hosts in its fleet: each takes time.

    Args:
        variables: of all of its hosts, in addition.
    """
    inventory = yaml.safe_load(path.read_text(encoding="utf-8"))
    inventory["all"]["vars"].update(variables)
    inventory["all"]["children"]["fleet"]["hosts"] = dict.fromkeys(hosts)
    directory.mkdir()
    (directory / "group_vars").symlink_to(path.parent / "group_vars")
    smaller = directory / path.name
    smaller.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    return smaller


class RedisServer:
    """A redis-server of this test, on a port of its own."""

    COMMAND = ("redis-server", "-")

    def __init__(self, directory: pathlib.Path, password: str | None = None) -> None:
        self.directory, self.password = directory, password
        self.port = free_ports(1)
        directory.mkdir()
        self.process = self.start()

    def settings(self) -> list[str]:
        settings = [f"port {self.port}", "bind 127.0.0.1", "save ''", f"dir {self.directory}"]
        if self.password:
            settings.append(f'requirepass "{self.password}"')
        return settings

    def start(self) -> subprocess.Popen:
        self.process = subprocess.Popen(self.COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        assert self.process.stdin
        self.process.stdin.write("\n".join(self.settings()) + "\n")
        self.process.stdin.close()
        wait_for(f"redis-server on port {self.port}", self._answers)
        return self.process

    def _answers(self) -> bool:
        assert self.process.poll() is None, f"redis-server on port {self.port} ended with {self.process.returncode}"
        return self.answers_on(self.port)

    @staticmethod
    def answers_on(port: int) -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def command(self, *words: str) -> str:
        """Return the reply to a command, as redis-py reads it."""
        with redis.Redis(
            port=self.port, password=self.password, socket_timeout=PATIENCE, decode_responses=True
        ) as client:
            return str(client.execute_command(*words))


@dataclasses.dataclass
class Outcome:
    """How a playbook ended."""

    status: int
    output: str
    run: pathlib.Path

    @property
    def summary(self) -> dict[str, t.Any]:
        return json.loads((self.run / "summary.json").read_text(encoding="utf-8"))

    def phase(self, name: str) -> dict[str, t.Any]:
        return json.loads((self.run / "phases" / name).read_text(encoding="utf-8"))

    @property
    def phase_files(self) -> list[str]:
        return sorted(path.name for path in (self.run / "phases").iterdir())


class Process(t.NamedTuple):
    """What /proc tells of a process."""

    name: str
    parent: int
    words: list[str]
    environment: list[str]


def processes() -> dict[int, Process]:
    """Return the processes of this machine by their ids, but for those that belong to another user."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            name, _none, rest = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")
            words, environment = (
                (entry / file).read_text(encoding="utf-8", errors="replace").rstrip("\0").split("\0")
                for file in ("cmdline", "environ")
            )
            found[int(entry.name)] = Process(name.partition("(")[2], int(rest.split()[1]), words, environment)
    return found


class LocalFleet:
    """A fleet of Redis servers on this machine, and the playbooks that run on it."""

    def __init__(self, tmp_path: pathlib.Path, environment: dict[str, str]) -> None:
        self.path = tmp_path
        self.results = tmp_path / "results"
        self.servers: dict[str, RedisServer] = {}
        self.playbooks: list[subprocess.Popen] = []
        self.variables: dict[str, t.Any] = dict(SMALL)
        self.environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
            MARK: str(tmp_path),
            **environment,
        }

    def add(self, *names: str, password: str | None = None) -> None:
        for name in names:
            self.servers[name] = RedisServer(self.path / f"redis-{name}", password)

    def session(self) -> pathlib.Path | None:
        """The directory in which the clients of the newest run leave their results; None before they are released."""
        try:
            plan = json.loads((self.results / "latest" / "schedule.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return pathlib.Path(private_directory()) / f"session-{plan['session']}"

    def finished(self, member: int = 0) -> list[str]:
        """The names of the phases that the client of a host has finished by now."""
        session = self.session()
        output = session / str(member) / "output" if session else None
        if output is None or not output.exists():
            return []
        lines = [
            json.loads(line) for line in output.read_text(encoding="utf-8").splitlines(keepends=True) if "\n" in line
        ]
        return [line["phase"] for line in lines if "phase" in line]

    def wait_for_phase(self, number: int, process: subprocess.Popen) -> None:
        """Return in the phase that follows this many others. It must be long enough for that."""
        wait_for("the start", self.session, process)
        wait_for(f"{number} phases", lambda: len(self.finished()) >= number and self.clients(), process)

    def inventory(self) -> pathlib.Path:
        hosts = {name: {"latency_benchmark_port": server.port} for name, server in self.servers.items()}
        return write_inventory(self.path / "hosts.yml", {"fleet": {"hosts": hosts, "vars": self.variables}})

    def custom_playbook(self, tasks: list[dict[str, t.Any]], **play: t.Any) -> str:
        """Write a playbook with these tasks, as a user would, and return its path."""
        path = self.path / "custom.yml"
        path.write_text(
            yaml.safe_dump([{"hosts": "fleet", "gather_facts": False, **play, "tasks": tasks}]), encoding="utf-8"
        )
        return str(path)

    def command(self, playbook: str = "benchmark", *arguments: str, inventory: pathlib.Path | None = None) -> list[str]:
        path = ROOT / "playbooks" / f"{playbook}.yml" if "/" not in playbook else pathlib.Path(playbook)
        return [
            str(ANSIBLE_PLAYBOOK),
            "-i",
            str(inventory or self.inventory()),
            str(path),
            "-e",
            f"results_dir={self.results}",
            *arguments,
        ]

    def start(
        self, *arguments: str, playbook: str = "benchmark", inventory: pathlib.Path | None = None
    ) -> subprocess.Popen:
        process = subprocess.Popen(
            self.command(playbook, *arguments, inventory=inventory),
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.playbooks.append(process)
        return process

    def wait(self, process: subprocess.Popen) -> Outcome:
        output, dummy = process.communicate(timeout=PATIENCE)
        return Outcome(process.returncode, output, (self.results / "latest").resolve())

    def run_playbook(
        self, *arguments: str, playbook: str = "benchmark", inventory: pathlib.Path | None = None
    ) -> Outcome:
        return self.wait(self.start(*arguments, playbook=playbook, inventory=inventory))

    def messages(
        self, tasks: list[dict[str, t.Any]], inventory: pathlib.Path | None = None, **play: t.Any
    ) -> list[str]:
        """Run tasks that must all fail, in one playbook, and return the message of each."""
        path = self.path / "messages.json"
        blocks: list[dict[str, t.Any]] = [
            {
                "name": f"Case {number}",
                "block": [task],
                "rescue": [{"ansible.builtin.set_fact": {f"case_{number}": "{{ ansible_failed_result.msg }}"}}],
            }
            for number, task in enumerate(tasks)
        ]
        found = [f"case_{number} | default('It did not fail')" for number in range(len(tasks))]
        keep = {
            "ansible.builtin.copy": {"content": f"{{{{ [{', '.join(found)}] | to_json }}}}", "dest": str(path)},
            "run_once": True,
        }
        outcome = self.run_playbook(playbook=self.custom_playbook([*blocks, keep], **play), inventory=inventory)
        assert outcome.status == 0, outcome.output
        return json.loads(path.read_text(encoding="utf-8"))

    def not_refused(
        self,
        role: str,
        cases: t.Sequence[tuple[dict[str, t.Any], str]],
        inventory: pathlib.Path | None = None,
        **play: t.Any,
    ) -> list[tuple[str, str]]:
        """Run a role of the collection with each of these variables; return the cases whose message lacks the text."""
        include = {"ansible.builtin.include_role": {"name": f"memstretch.density.{role}"}}
        messages = self.messages([{**include, "vars": variables} for variables, dummy in cases], inventory, **play)
        found = zip(cases, messages)
        return [(text, message) for (dummy, text), message in found if text not in " ".join(message.split())]

    def document(self, run: str, name: str) -> dict[str, t.Any]:
        """Return a document in the directory of a run."""
        return json.loads((self.results / run / f"{name}.json").read_text(encoding="utf-8"))

    def clients(self) -> list[int]:
        """The pids of the clients that load the servers of this test."""
        ports = {str(server.port) for server in self.servers.values()}
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if "/solotest-" in words[0] and ports & set(words):
                    found.append(int(entry.name))
        return found

    def sessions(self) -> set[str]:
        """The names of the directories in which the hosts of all runs of this test keep their results."""
        texts = [path.read_text(encoding="utf-8") for path in self.results.glob("*/run.json")]
        return {f"session-{found}" for text in texts for found in re.findall(r'"id": *"([0-9a-f]{8,64})"', text)}

    def running(self) -> dict[int, str]:
        """What the playbooks of this test have started and no longer wait for, but for Redis servers, by pid.

        Each process inherits the mark in its environment, whatever has started it.
        """
        of_the_test = {pid: each for pid, each in processes().items() if f"{MARK}={self.path}" in each.environment}
        waited_for = {process.pid for process in self.playbooks if process.poll() is None}
        while more := {pid for pid, each in of_the_test.items() if each.parent in waited_for} - waited_for:
            waited_for |= more
        return {
            pid: " ".join(each.words)
            for pid, each in of_the_test.items()
            if pid not in waited_for and each.name not in NOT_OURS
        }

    def leftovers(self) -> list[t.Any]:
        """Our processes and files that are left on this machine after the runs of this test."""
        private = pathlib.Path(private_directory())
        return [*self.running().values(), *(path for path in private.glob("session-*") if path.name in self.sessions())]

    def stop_playbooks(self) -> None:
        """End the playbooks that still run, as they do only after a test that failed."""
        for process in self.playbooks:
            if process.poll() is None:
                process.terminate()
                process.wait()

    def close(self) -> None:
        self.stop_playbooks()
        for server in self.servers.values():
            server.kill()
        for pid in (*self.running(), *self.instances()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def instances(self) -> list[int]:
        """The pids of the servers that the role redis has started, and left after a test that failed."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                is_redis = (entry / "comm").read_text(encoding="utf-8").strip() == "redis-server"
                if is_redis and (entry / "cwd").resolve().is_relative_to(self.path):
                    found.append(int(entry.name))
        return found


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The client, built by hand, as a user of the module alone would build it."""
    path = tmp_path_factory.mktemp("client") / "solotest"
    sources = [ROOT / "files" / "solotest.c", *sorted((ROOT / "files" / "solotest").glob("*.c"))]
    subprocess.run(["cc", "-std=c11", "-O2", "-o", path, *sources, "-lhiredis", "-lm"], check=True)
    return path


@pytest.fixture
def steady_machine(request: pytest.FixtureRequest, needs_root: None) -> None:
    """This machine, which nothing but this test changes meanwhile."""
    assert request.node.nodeid.startswith(CHANGES_THIS_MACHINE), "add this test to CHANGES_THIS_MACHINE"


@pytest.fixture
def untuned_machine(steady_machine: None) -> None:
    """This machine, which these tests may change and restore."""
    if RECORDS.exists():
        pytest.fail(f"{RECORDS} is there: this machine carries a profile; restore it first (playbooks/restore.yml)")


@pytest.fixture
def fleet(tmp_path: pathlib.Path, bytecode_environment: dict[str, str]) -> t.Iterator[LocalFleet]:
    assert shutil.which("redis-server"), "redis-server is not installed; make test-local installs it"
    made = LocalFleet(tmp_path, bytecode_environment)
    yield made
    made.stop_playbooks()
    deadline = time.monotonic() + WITHOUT_CONTROLLER
    while (running := made.running()) and time.monotonic() < deadline:
        time.sleep(0.2)
    made.close()
    assert not running, "something went on after its playbook"
