# SPDX-License-Identifier: GPL-3.0-or-later
"""Real Redis servers of this machine, and real playbooks that measure them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
ANSIBLE_PLAYBOOK = pathlib.Path(sys.executable).parent / "ansible-playbook"

# Small, quick, and without bounds on timing: what these tests look at must not depend on how busy the machine is.
SMALL = {
    "latency_benchmark_key_count": 500,
    "latency_benchmark_rate": 1000,
    "latency_benchmark_influences": [0],
    "latency_benchmark_read_mixes": [100, 70],
    "latency_benchmark_warmups": 1,
    "latency_benchmark_iterations": 1,
    "latency_benchmark_min_overlap": 0,
    "latency_benchmark_min_rate_ratio": 0,
    "latency_benchmark_max_lateness_p99_us": 1e9,
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_ports(count: int) -> int:
    """Return the first of so many ports in a row that nothing listens on."""
    while True:
        first = random.randrange(20000, 30000)  # below those that the kernel hands out
        try:
            with contextlib.ExitStack() as probes:
                for port in range(first, first + count):
                    probes.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


class RedisServer:
    """A redis-server of this test, on a port of its own."""

    COMMAND = ("redis-server", "-")

    def __init__(self, directory: pathlib.Path, password: str | None = None) -> None:
        self.directory, self.password = directory, password
        self.port = free_port()
        directory.mkdir()
        self.process = self.start()

    def start(self) -> subprocess.Popen:
        settings = [f"port {self.port}", "bind 127.0.0.1", "save ''", f"dir {self.directory}"]
        if self.password:
            settings.append(f'requirepass "{self.password}"')
        self.process = subprocess.Popen(self.COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.process.stdin.write("\n".join(settings) + "\n")
        self.process.stdin.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self.process
            except OSError:
                time.sleep(0.05)
        raise TimeoutError(f"redis-server on port {self.port} did not come up")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def command(self, *words: str) -> str:
        environment = {**os.environ, **({"REDISCLI_AUTH": self.password} if self.password else {})}
        return subprocess.run(
            ["redis-cli", "-p", str(self.port), *words],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=30,
        ).stdout.strip()


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


class LocalFleet:
    """A fleet of Redis servers and the playbooks to play on it."""

    def __init__(self, tmp_path: pathlib.Path) -> None:
        self.path = tmp_path
        self.results = tmp_path / "results"
        self.servers: dict[str, RedisServer] = {}
        self.playbooks: list[subprocess.Popen] = []
        self.variables: dict[str, t.Any] = dict(SMALL)
        self.environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}

    def add(self, *names: str, password: str | None = None) -> None:
        for name in names:
            self.servers[name] = RedisServer(self.path / f"redis-{name}", password)

    def inventory(self) -> pathlib.Path:
        path = self.path / "hosts.yml"
        path.write_text(
            yaml.safe_dump(
                {
                    "all": {
                        "vars": {
                            "ansible_connection": "local",
                            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                        },
                        "children": {
                            "fleet": {
                                "hosts": {
                                    name: {"latency_benchmark_port": server.port}
                                    for name, server in self.servers.items()
                                },
                                "vars": self.variables,
                            }
                        },
                    }
                }
            ),
            encoding="utf-8",
        )
        return path

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

    def start(self, *arguments: str, playbook: str = "benchmark") -> subprocess.Popen:
        process = subprocess.Popen(
            self.command(playbook, *arguments),
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
        output, dummy = process.communicate(timeout=300)
        return Outcome(process.returncode, output, (self.results / "latest").resolve())

    def run_playbook(
        self, *arguments: str, playbook: str = "benchmark", inventory: pathlib.Path | None = None
    ) -> Outcome:
        done = subprocess.run(
            self.command(playbook, *arguments, inventory=inventory),
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, (self.results / "latest").resolve())

    def wait_for_phase(self, process: subprocess.Popen, name: str) -> None:
        """Return soon after the phase before the named one has been written, so while that one goes on."""
        deadline = time.monotonic() + 120
        while not (self.results / "latest" / "phases" / name).exists():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, f"{name} was not written"
            time.sleep(0.05)

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

    def wait_for_clients(self, count: int) -> list[int]:
        deadline = time.monotonic() + 60
        while len(self.clients()) < count:
            assert time.monotonic() < deadline, "the clients did not start"
            time.sleep(0.02)
        return self.clients()

    def close(self) -> None:
        for process in self.playbooks:
            if process.poll() is None:  # only after a test that failed
                process.terminate()
                process.wait()
        for server in self.servers.values():
            server.kill()
        for pid in self.clients():
            os.kill(pid, signal.SIGTERM)


@pytest.fixture
def fleet(tmp_path: pathlib.Path) -> t.Iterator[LocalFleet]:
    assert shutil.which("redis-server"), "redis-server is not installed; make test-local installs it"
    made = LocalFleet(tmp_path)
    yield made
    made.close()
