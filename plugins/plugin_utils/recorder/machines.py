# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a run: the pressure of the hypervisors in a phase, and the raw records of the run."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import failure_message
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory


class Machines:
    """What was read of the machines of a run.

    Args:
        run: what the action C(benchmark_run) returned.
        directory: of the run.
    """

    def __init__(self, run: t.Mapping[str, t.Any], directory: RunDirectory) -> None:
        groups = run.get("inventory", {}).get("groups", {})
        self._directory = directory
        self._failures: dict[str, str] = {}  # why a machine could not be read at the beginning
        # The boot id of each hypervisor, if its record is known.
        self._hypervisors: dict[str, str | None] = {
            name: (run["hosts"].get(name, {}).get("kernel") or {}).get("boot_id")
            for name in groups.get("hypervisors", [])
        }

    def add(self, host: str, reading: t.Mapping[str, t.Any]) -> None:
        """Write the files and the kernel's messages in a reading, or why there are none.

        Args:
            host: its name in the inventory.
            reading: what the module C(host_memory_info) returned there.
        """
        for name, text in reading.get("files", {}).items():
            file = name.strip("/").replace("/", "-") + ".txt"
            if not os.path.exists(self._file(host, file)):  # a resumed run keeps those of its beginning
                self._write(host, file, text)
        if "log" not in reading:
            self._failures[host] = failure_message(reading)
        log = reading.get("log") or {"unknown": self._failures[host]}
        if "text" in log or "unknown" in log:  # at the beginning, messages have no text
            self._write_log(host, log)

    def take(self, document: dict[str, t.Any], seen: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
        """Put the pressure of the hypervisors into the document of a phase.

        Args:
            document: of the phase, with the pressure of the machines of the fleet.
            seen: C(machine) and C(pressure) of each host whose machine was recorded, by host.
        """
        hypervisors: dict[str, dict[str, str | None]] = {}
        for each in seen.values():
            document["pressure"][each["machine"]] = each["pressure"]
        for name, recorded in self._hypervisors.items():
            machine = seen[name]["machine"] if name in seen else recorded
            if machine in document["pressure"]:  # also of a hypervisor that is the fleet's own machine
                hypervisors[name] = {"machine": machine}
            else:
                why = f": {self._failures[name]}" if name in self._failures else ""
                hypervisors[name] = {"machine": None, "unknown": f"nothing of it was recorded in this phase{why}"}
        document["hypervisors"] = hypervisors

    def _write_log(self, host: str, log: t.Mapping[str, t.Any]) -> None:
        if "text" in log:
            text, lost = log["text"], log["lost"]
            if lost:
                text = f"({lost} earlier messages were overwritten before they were read, or are left out)\n{text}"
        else:
            text = f"(unknown: {log['unknown']})"
        path = self._file(host, "dmesg.txt")
        earlier = ""
        if os.path.exists(path):  # the part of the run before it was resumed
            with open(path, encoding="utf-8") as stream:
                earlier = stream.read()
        self._write(host, "dmesg.txt", earlier + text)

    def _write(self, host: str, name: str, text: str) -> None:
        os.makedirs(os.path.dirname(self._file(host, name)), exist_ok=True)
        self._directory.write_text(os.path.relpath(self._file(host, name), self._directory.path), text.rstrip() + "\n")

    def _file(self, host: str, name: str) -> str:
        # The name is the inventory's, so it may be an address such as fe80::1%eth0, but not a path.
        return self._directory.file("raw", re.sub(r"[^A-Za-z0-9._:%@+-]", "_", host).lstrip(".") or "host", name)
