# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the role redis on this machine, with throwaway inventories. Needs no root."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ..conftest import PATIENCE, REDIS_OF_THE_PLAY, ROOT, free_ports

PLAYBOOK = [{"hosts": "all", "gather_facts": False, "roles": [{"role": "memstretch.density.redis"}]}]


class Outcome:
    """Exit status, output and task results of one run of ansible-playbook."""

    def __init__(self, run):
        self.status = run.returncode
        self.output = run.stdout + run.stderr
        start = run.stdout.find("{\n")
        assert start >= 0, self.output
        report = json.loads(run.stdout[start:])
        self.stats = report["stats"]
        self.tasks = [task for play in report["plays"] for task in play["tasks"]]

    @property
    def changed(self):
        return sum(host["changed"] for host in self.stats.values())

    def results(self, name):
        """Return the result per host of the task whose name contains a text."""
        return {
            host: result
            for task in self.tasks
            if name in task["task"]["name"]
            for host, result in task["hosts"].items()
        }

    @property
    def facts(self):
        """Return the exported facts per host, by name of the instance."""
        return {
            host: {facts["name"]: facts for facts in result["instances"]}
            for host, result in self.results("Configure, run and remove").items()
        }

    @property
    def differences(self):
        """Return the diff of the role's module for each host: name, text before, text after.

        The text about a server is only that part of its state which shows whether its configuration was current.
        """

        def part(text):
            return '"outdated"' if '"outdated"' in text else '"current"' if '"current"' in text else text

        return {
            host: [(each["before_header"], part(each["before"]), part(each["after"])) for each in result["diff"]]
            for host, result in self.results("Configure, run and remove").items()
        }

    @property
    def messages(self):
        return "\n".join(map(self.messages_of, self.stats))

    def messages_of(self, host):
        """Return the messages with which a host failed."""
        results = [task["hosts"][host] for task in self.tasks if host in task["hosts"]]
        return "\n".join(
            str(result.get("msg", "")) + "\n".join(str(item.get("msg", "")) for item in result.get("results", []))
            for result in results
            if result.get("failed") or result.get("unreachable")
        )


class Site:
    """A throwaway inventory, its files and its servers."""

    def __init__(self, directory, environment):
        self.directory, self.environment = directory, environment
        self.home = directory / "home"
        self.home.mkdir()
        self.root = directory / "redis"
        self.servers = set()
        (directory / "site.yml").write_text(json.dumps(PLAYBOOK), encoding="utf-8")
        (directory / "ansible.cfg").write_text(
            f"""[defaults]
collections_path = {ROOT / ".ansible" / "collections"}
stdout_callback = ansible.posix.json
forks = 16
localhost_warning = false
remote_tmp = {self.home / ".ansible" / "tmp"}
[connection]
pipelining = true
""",
            encoding="utf-8",
        )

    def run_role(self, hosts, *arguments, inventory=".", **variables):
        """Run the role.

        Args:
            hosts: variables by inventory hostname, or the variables of the only host.
            inventory: directory of the inventory.
        """
        if not all(isinstance(value, dict) for value in hosts.values()):
            hosts = {"one": hosts}
        content = {
            "all": {
                "hosts": hosts,
                "vars": {
                    "ansible_connection": "local",
                    "ansible_python_interpreter": sys.executable,
                    "redis_supervisor": "daemon",
                    "redis_directory": str(self.root),
                    **REDIS_OF_THE_PLAY,
                    **variables,
                },
            }
        }
        hosts_file = self.directory / inventory / "hosts.json"
        hosts_file.parent.mkdir(exist_ok=True)
        hosts_file.write_text(json.dumps(content), encoding="utf-8")
        environment = {
            **self.environment,
            "HOME": str(self.home),
            "ANSIBLE_CONFIG": str(self.directory / "ansible.cfg"),
        }
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            "-i",
            str(hosts_file),
            str(self.directory / "site.yml"),
            *arguments,
        ]
        try:
            return Outcome(
                subprocess.run(
                    command,
                    cwd=self.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    encoding="utf-8",
                    timeout=PATIENCE,
                    check=False,
                )
            )
        finally:
            for pidfile in self.directory.rglob("redis.pid"):
                text = pidfile.read_text(encoding="utf-8").strip()
                self.servers |= {int(text)} if text.isdigit() else set()

    def ok(self, *args, **kwargs):
        outcome = self.run_role(*args, **kwargs)
        assert outcome.status == 0, outcome.messages or outcome.output[-5000:]
        return outcome

    def refused(self, *args, **kwargs):
        outcome = self.run_role(*args, **kwargs)
        assert outcome.status != 0, "it was not refused"
        return outcome.messages

    def files(self):
        return (
            sorted(str(path.relative_to(self.directory)) for path in self.root.rglob("*"))
            if self.root.exists()
            else None
        )

    def own(self, pid):
        try:
            return os.readlink(f"/proc/{pid}/cwd").startswith(str(self.directory))
        except OSError:
            return False


@pytest.fixture
def site(tmp_path, bytecode_environment):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    new = Site(tmp_path, {**environment, **bytecode_environment})
    yield new
    for pid in filter(new.own, new.servers):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def ports():
    """Return four different free ports."""
    first = free_ports(4)
    return list(range(first, first + 4))


@pytest.fixture
def ask():
    """Send lines to a Redis at a port or a path, and return its reply."""

    def send(address, *lines):
        family = socket.AF_INET if isinstance(address, int) else socket.AF_UNIX
        with socket.socket(family) as client:
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", address) if isinstance(address, int) else str(address))
            client.sendall("".join(f"{line}\r\n" for line in (*lines, "QUIT")).encode())
            reply = b""
            while data := client.recv(65536):
                reply += data
        return reply.decode().removesuffix("+OK\r\n").strip()

    return send
