# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The self-test of a site: what each check of each host found, as a file for a bug report and as text.

The hosts' findings are files of one directory, one for each host and finding, written while the checks run. So a host
that is lost, or a playbook that is killed, loses no other finding.
"""

from __future__ import annotations

import copy
import os
import re
import typing as t
import urllib.parse

from ansible_collections.memstretch.density.plugins.module_utils.host.memory import settings
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.plugin_utils import selftest_answers
from ansible_collections.memstretch.density.plugins.plugin_utils.run import measurement
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA, RunDirectory, RunError

PASSED, FAILED, SKIPPED = ("passed", "failed", "skipped")
# In the order in which they run, each with the advice for a failure.
CHECKS = {
    "clock": "set the clocks of controller and host, for example with chrony",
    "transport": "the sshd of the hypervisor must allow what the VMs behind it need (AllowTcpForwarding, PermitOpen)",
    "kvm": "turn on virtualisation in the firmware, or nested virtualisation below, or test emulated VMs "
    "(selftest_emulation: true)",
    "drives": "root (ansible_become: true) and the tools of util-linux and fdisk are needed to look at drives",
    "profiles": "read the playbook's output above",
    "kernel_arguments": "roles/kernel_cmdline/README.md describes the boot loaders that are supported",
    "masters": "libvirt must answer, and show its VMs to root (ansible_become: true)",
    "page_in": "swap needs room for 32 MiB; selftest_drive must be the path of a drive",
    "budget": "use the other mechanism of the role host_tuning (host_tuning_dram_budget: {mechanism: hugepages})",
    "pressure": "the controller needs a C compiler and hiredis (make setup), the host a Redis server that starts",
    "headroom": "Linux, root and Python are needed to look at processes (ansible_become: true)",
    "vm": "playbooks/fleet.yml installs what libvirt needs; the console log of a VM is next to its disk",
    "guest_arguments": "the image needs a boot loader that roles/kernel_cmdline/README.md describes",
}
# What the role also records: the host, its settings before and after, and why it could not begin or be restored.
ABOUT, BEFORE, AFTER, BEGIN, PUT_BACK = "about", "before", "after", "begin", "put_back"
NAMES = (*CHECKS, ABOUT, BEFORE, AFTER, BEGIN, PUT_BACK)
# The parts of a host's memory record that a bug report needs. Nothing that identifies the host, no command line.
_KEPT = {
    "kernel": ("release", "version", "architecture", "hardware"),
    "cpu": None,
    "numa": None,
    "memory": None,
    "swap": None,
    "thp": None,
    "mglru": None,
    "sysctl": None,
    "nvme": None,
    "imdt": ("detected", "reason"),
    "cgroup": ("version", "memory_controller"),
}
# Checks that have a line of text for each drive, and for each kind of VM.
_LISTED = ("drives", "masters")
_COMMAND_LINE = "kernel.cmdline"
_MOST_DIFFERENCES = 10
# A stable path has the serial number of its drive in it.
_DRIVE = re.compile(r"/dev/disk/by-[a-z]+/[^\s,;:'\"()]+")

_Document = t.Mapping[str, t.Any]


def record(directory: RunDirectory, host: str, name: str, finding: _Document) -> None:
    """Write a finding of a host, in place of an earlier one of this name.

    Raises:
        RunError: it is nested too deeply, or too large.
    """
    try:
        measurement.check_document(name, finding)
    except measurement.MeasurementError as error:
        raise RunError(str(error)) from error
    directory.write_json(f"{_file_of(host)}.{name}.json", {**finding, "schema": SCHEMA})


def reason(failure: t.Mapping[str, t.Any] | None) -> str:
    """Explain why a task failed, from its result; an empty text if there is none."""
    if failure is None:
        return ""
    said = [str(failure.get(name) or "") for name in ("msg", "stderr")]
    return ": ".join(filter(None, said)) or "it gave no reason"


def recorded(directory: RunDirectory, host: str) -> dict[str, t.Any]:
    """Return the findings of a host, by name, without those of checks that did not end."""
    findings = {name: finding(directory, host, name) for name in NAMES}
    return {name: found for name, found in findings.items() if found.keys() - {"begun", "schema"}}


def finding(directory: RunDirectory, host: str, name: str) -> dict[str, t.Any]:
    """Return one finding of a host; empty if there is none."""
    path = f"{_file_of(host)}.{name}.json"
    found: dict[str, t.Any] = directory.read_json(path) if os.path.exists(directory.file(path)) else {}
    return found


def _file_of(host: str) -> str:
    """Return a host's name as a part of a file's name."""
    return urllib.parse.quote(host, safe="").replace(".", "%2E")


def judge(found: _Document, checks: t.Sequence[str], check_mode: bool = False) -> dict[str, dict[str, t.Any]]:
    """Return C(result), C(reason), C(advice), C(found) and C(seconds) of each check of a host, in the order of CHECKS.

    Args:
        found: from recorded().
        checks: names of those that were to run.
        check_mode: whether nothing was changed that had to be restored.
    """
    judged = {} if _began(found) else {BEGIN: _not_begun(found)}
    judged.update((name, _judged(found, name)) for name in CHECKS if name in checks)
    if not check_mode:
        judged[PUT_BACK] = _put_back(found)
    return judged


def _judged(found: _Document, name: str) -> dict[str, t.Any]:
    if name in found:
        result = {key: found[name][key] for key in ("result", "reason", "advice", "found", "seconds")}
        if result["result"] == FAILED:
            result["advice"] = result["advice"] or CHECKS[name]
        if name == "page_in" and result["result"] == PASSED:
            result["reason"] = _page_ins(result["found"])
        return result
    if name == "guest_arguments" and "vm" in found and found["vm"]["result"] != PASSED:
        return _finding(SKIPPED, "there is no VM to try them in", "see the check vm")
    if not _began(found):
        return _finding(SKIPPED, "the self-test did not begin", "")
    return _finding(FAILED, "it did not end; the host or the playbook was lost", "read the playbook's output above")


def _page_ins(found: _Document) -> str:
    """Compute how long page-ins took. A drive has its place in the list: its path has its serial number in it."""
    drives = found["drives"]
    took = [(f"swap ({found['swap']['tier']})", found["swap"])] if found["swap"] else []
    took += [(f"drive {number} of {len(drives)}", each["latency"]) for number, each in enumerate(drives, 1)]
    return "; ".join(f"from {what} p50 {each['p50_us']}, p99 {each['p99_us']} us" for what, each in took)


def _began(found: _Document) -> bool:
    return ABOUT in found and BEGIN not in found


def _not_begun(found: _Document) -> dict[str, t.Any]:
    """Explain why there is nothing about a host."""
    if BEGIN in found:
        return _finding(FAILED, found[BEGIN]["reason"], found[BEGIN]["advice"])
    return _finding(
        FAILED,
        "the host did not answer",
        "check that the host is on and that Ansible reaches it (ansible HOST -m ansible.builtin.ping, with the same "
        "-i)",
    )


def _put_back(found: _Document) -> dict[str, t.Any]:
    """Decide whether the host's settings are unchanged."""
    again = "run the same command again"
    if PUT_BACK in found:
        return _finding(FAILED, found[PUT_BACK]["reason"], again)
    if BEFORE not in found:
        return _finding(SKIPPED, "nothing was tried on this host", "")
    if AFTER not in found:
        return _finding(FAILED, "the settings of the host could not be read afterwards", again)
    try:
        before, after = (_flat(settings(found[each])) for each in (BEFORE, AFTER))
    except (KeyError, TypeError, AttributeError) as error:
        return _finding(FAILED, f"the settings of the host cannot be compared, they lack {error}", again)
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    if not changed:
        return _finding(PASSED, "the settings are unchanged", "")
    told = [
        f"{key} has changed" if key == _COMMAND_LINE else f"{key} was {before.get(key)} and is {after.get(key)}"
        for key in changed[:_MOST_DIFFERENCES]
    ]
    more = [f"and {len(changed) - len(told)} more"] if len(changed) > len(told) else []
    return _finding(
        FAILED, "; ".join([*told, *more]), "the self-test changes none of these; see what else runs on this host"
    )


def _finding(result: str, reason: str, advice: str) -> dict[str, t.Any]:
    return {"result": result, "reason": reason, "advice": advice, "found": {}, "seconds": 0.0}


def seconds_of(judged: t.Mapping[str, _Document]) -> float:
    """Compute how long the checks of a host took together."""
    return round(sum(each["seconds"] for each in judged.values()), 1)


def _flat(document: t.Any, name: str = "") -> dict[str, t.Any]:
    """Return the values of a document by the path of their keys."""
    if not isinstance(document, dict):
        return {name: document}
    found: dict[str, t.Any] = {}
    for key, value in document.items():
        found.update(_flat(value, f"{name}.{key}" if name else str(key)))
    return found


def about(found: _Document) -> dict[str, t.Any]:
    """Collect what a bug report needs to know of a host."""
    memory = found.get(BEFORE, {})
    kept = {
        section: {name: memory[section].get(name) for name in names} if names else memory[section]
        for section, names in _KEPT.items()
        if isinstance(memory.get(section), dict)
    }
    known = found.get(ABOUT, {})
    return {**{name: known.get(name) for name in ("system", "os")}, "programs": known.get("programs", []), **kept}


def document(
    hosts: t.Mapping[str, _Document],
    checks: t.Sequence[str],
    host_names: bool,
    controller: _Document,
    seconds: float = 0.0,
) -> dict[str, t.Any]:
    """Return the file of a self-test.

    Args:
        hosts: from recorded(), by inventory name.
        checks: names of the checks that were to run.
        host_names: whether names and addresses of hosts, and serial numbers and paths of drives, stay in.
        controller: its versions.
        seconds: how long the self-test took, with what is not a check.
    """
    judged = {host: judge(each, checks) for host, each in hosts.items()}
    found = copy.deepcopy(
        {
            host: {**about(each), "results": judged[host], "works": _answers(each, judged[host])}
            for host, each in hosts.items()
        }
    )
    for each in found.values():
        each["seconds"] = seconds_of(each["results"])
        drives = each["results"].get("drives", {}).get("found", {})
        drives.pop("serials", None)
        for drive in [] if host_names else drives.get("drives", []):
            drive.update(path=None, serial=None, summary=None)
        for group in [] if host_names else each["results"].get("masters", {}).get("found", {}).get("masters", []):
            group.update(names=None, summary=None)
        for drive in [] if host_names else each["results"].get("page_in", {}).get("found", {}).get("drives", []):
            drive.update(path=None)
    if not host_names:
        hidden = _aliases(hosts)
        found = {hidden.get(host, host): _without(each, hidden) for host, each in found.items()}
    return {
        "schema": SCHEMA,
        "controller": dict(controller),
        "checks": [name for name in CHECKS if name in checks],
        "seconds": round(seconds, 1),
        "hosts": found,
    }


def _aliases(hosts: t.Mapping[str, _Document]) -> dict[str, str]:
    """Choose a word in place of each name and address of the hosts, and for the serial numbers of their drives."""
    found: dict[str, str] = {}
    for number, (host, findings) in enumerate(hosts.items(), 1):
        names = [host, *findings.get(ABOUT, {}).get("names", [])]
        names += [name.partition(".")[0] for name in names if not re.fullmatch(r"[0-9.]+", name)]
        found.update({name: f"host-{number}" for name in names if name not in ("", "localhost", "127.0.0.1")})
        serials = findings.get("drives", {}).get("found", {}).get("serials", [])
        found.update({serial: "SERIAL" for serial in serials if serial})
    return found


def _without(document: t.Any, hidden: t.Mapping[str, str]) -> t.Any:
    """Return a document in whose texts stable paths of drives and each of the hidden words are replaced.

    Keys stay: none is from a host's owner.
    """
    words = "|".join(map(re.escape, sorted(hidden, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![A-Za-z0-9-])(?:{words})(?![A-Za-z0-9-])")

    def replaced(value: t.Any) -> t.Any:
        if isinstance(value, dict):
            return {key: replaced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        if not isinstance(value, str):
            return value
        return pattern.sub(lambda word: hidden[word[0]], _DRIVE.sub("DRIVE", value))

    return replaced(document) if hidden else document


def failures(judged: t.Mapping[str, _Document]) -> list[str]:
    """Return the names of the failed checks of each host, as "budget on kvm01"; with why and what to do if none began.

    Args:
        judged: from judge(), by host.
    """
    return [
        f"{name} on {host}" + (f" ({_because(each)})" if name == BEGIN else "")
        for host, checks in judged.items()
        for name, each in checks.items()
        if each["result"] == FAILED
    ]


def _because(each: _Document) -> str:
    return "; ".join(filter(None, (each["reason"], each["advice"])))


def lines(host: str, found: _Document, judged: t.Mapping[str, _Document]) -> list[str]:
    """Return the self-test of a host as text for the terminal.

    Args:
        host: its inventory name.
        found: from recorded().
        judged: from judge().
    """
    text = [f"Self-test of {host}: {_machine(found)}"]
    width = max(map(len, judged), default=0)
    for name, each in judged.items():
        result = each["result"].upper() if each["result"] == FAILED else each["result"]
        took = f"({each['seconds']:g} s)" if each["seconds"] and each["result"] != SKIPPED else ""
        text.append(f"  {result:7}  {name:{width}}  {each['reason']} {took}".rstrip())
        listed = each["found"].get(name, []) if name in _LISTED else []
        text += [f"  {'':7}  {'':{width}}  {one['summary']}" for one in listed]
        if each["result"] != PASSED and each["advice"]:
            text.append(f"  {'':7}  {'':{width}}  -> {each['advice']}")
    return text + [f"  {line}" for line in selftest_answers.lines(_answers(found, judged))]


def _answers(found: _Document, judged: t.Mapping[str, _Document]) -> list[dict[str, t.Any]]:
    """Say item by item what works on a host; nothing if the self-test did not begin there."""
    return selftest_answers.answers(found[ABOUT], judged) if _began(found) else []


def _machine(found: _Document) -> str:
    """Return system, kernel, processors and memory of a host, in a few words."""
    memory, known = found.get(BEFORE, {}), found.get(ABOUT, {})
    size = memory.get("memory", {}).get("total_bytes")
    cpu = memory.get("cpu", {})
    parts = (
        known.get("system"),
        f"Linux {memory['kernel'].get('release')}" if "kernel" in memory else None,
        f"{cpu.get('online')} CPU{'' if cpu.get('online') == 1 else 's'} ({cpu.get('model')})" if cpu else None,
        size_text(size) if size else None,
    )
    return ", ".join(filter(None, parts)) or "unknown"
