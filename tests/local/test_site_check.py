# SPDX-License-Identifier: GPL-3.0-or-later
"""The site check on this machine."""

from __future__ import annotations

import glob
import pathlib
import re
import socket
import struct
import subprocess

import pytest
import yaml

from .conftest import ON_THIS_MACHINE, ROOT, wait_for, write_inventory
from .machine import IDLE_LIMITS

QUICK = {
    "site_check_blocks": 3,
    "site_check_block_seconds": 0.3,
    "site_check_rate": 2000,
    "site_check_slo_p99_us": 1e8,
}
SITE = ("-e", "selftest_checks=site")


def redis_servers(process):
    """The Redis servers that a playbook has started; another test may check the site at the same time."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            is_redis = re.match(r"(/\S*/)?redis-server[\0 ]", (path / "cmdline").read_text("utf-8", "replace"))
            if is_redis and process.pid in ancestors(path.name):
                found.add(path.name)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return found


def ancestors(pid):
    while int(pid) > 1:
        pid = pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1]
        yield int(pid)


def inventory(fleet, **variables):
    path = fleet.path / "site.yml"
    hosts = {"this_machine": {**ON_THIS_MACHINE, **QUICK, **variables}}
    path.write_text(yaml.safe_dump({"hypervisors": {"hosts": hosts}}), encoding="utf-8")
    return path


def test_a_site_is_measured_and_judged_and_nothing_stays(fleet):
    found = set()
    process = fleet.start(*SITE, playbook="selftest", inventory=inventory(fleet))
    wait_for("the Redis", lambda: found.update(redis_servers(process)) or found, process)
    outcome = fleet.wait(process)
    assert outcome.status == 0, outcome.output
    assert "Site check of this_machine: avg " in outcome.output and "stolen CPU time" in outcome.output
    document = fleet.document("site_check", "site_check")
    assert len(document["measured"]["this_machine"]["blocks"]) == 3
    assert set(document["hosts"]["this_machine"]["median_us"]) == {"avg_us", "p99_us"}
    assert not [pid for pid in found if pathlib.Path(f"/proc/{pid}").exists()]


@pytest.mark.long
@pytest.mark.usefixtures("needs_root")
def test_the_redis_of_the_check_is_neither_roots_nor_anybodys(fleet):
    """Any user of the machine can reach its port, and could let root's Redis write files."""
    found = set()
    process = fleet.start(*SITE, playbook="selftest", inventory=inventory(fleet, site_check_block_seconds=3))
    wait_for("the Redis", lambda: found.update(listening(redis_servers(process))) or found, process)
    assert len(found) == 1
    for pid, port in found:
        with socket.create_connection(("127.0.0.1", port), 5) as stranger:
            stranger.sendall(b"CONFIG SET dir /root\r\n")
            assert stranger.recv(100).startswith(b"-NOAUTH")
        assert pathlib.Path(f"/proc/{pid}").stat().st_uid != 0
    assert fleet.wait(process).status == 0


def listening(pids):
    """The processes that listen, with their ports."""
    lines = subprocess.run(["ss", "-Hltnp"], check=True, capture_output=True, text=True).stdout.splitlines()
    ports = {pid: int(line.split()[3].rpartition(":")[2]) for line in lines for pid in pids if f"pid={pid}," in line}
    return set(ports.items())


@pytest.mark.long
def test_a_site_that_is_too_noisy_is_refused_if_asked_for(fleet):
    noisy = inventory(fleet, site_check_slo_p99_us=0.001, site_check_enforce=True)
    outcome = fleet.run_playbook(*SITE, playbook="selftest", inventory=noisy)
    assert outcome.status and "the site is too noisy for a study: this_machine: " in outcome.output
    assert "this_machine: the bounds of p99 are" in outcome.output
    assert "TOO NOISY" in outcome.output


def latency_limit():
    """Return the limit on the resume latency of all processors, as the kernel shows it."""
    return struct.unpack("i", pathlib.Path("/dev/cpu_dma_latency").read_bytes())[0]


@pytest.mark.long
@pytest.mark.usefixtures("needs_root")
def test_processors_are_kept_awake_for_a_study_that_does_so_only_while_it_is_measured(fleet):
    before, allowed = latency_limit(), [pathlib.Path(path).read_text("ascii") for path in glob.glob(IDLE_LIMITS)]
    assert before, "another program keeps the processors of this machine awake"
    process = fleet.start(*SITE, playbook="selftest", inventory=inventory(fleet, host_tuning_cpu_idle="awake"))
    wait_for("no processor sleeps", lambda: latency_limit() == 0, process)
    outcome = fleet.wait(process)
    assert outcome.status == 0 and latency_limit() == before, outcome.output
    assert allowed == [pathlib.Path(path).read_text("ascii") for path in glob.glob(IDLE_LIMITS)]
    # A virtual machine may have no idle states, and then nothing to say about them.
    known = bool(glob.glob("/sys/devices/system/cpu/cpu*/cpuidle/state*"))
    assert ("CPUs awake when idle" in outcome.output) is known, outcome.output
    assert fleet.document("site_check", "site_check")["hosts"]["this_machine"]["awake"] is (True if known else None)


def test_only_the_processors_of_hosts_that_will_be_tuned_are_kept_awake(fleet):
    groups = {"hypervisors": {"hosts": {"kvm": None}}, "fleet": {"hosts": {"guest": None}}}
    plays = yaml.safe_load((ROOT / "playbooks" / "parts" / "site_check.yml").read_text(encoding="utf-8"))
    tasks = [
        {
            "name": "Read the variables",
            "ansible.builtin.set_fact": {"site_cpu_idle": plays[1]["vars"]["site_cpu_idle"]},
        },
        {"name": "Show", "ansible.builtin.debug": {"msg": "{{ inventory_hostname }} is {{ site_cpu_idle }}"}},
    ]
    fleet.environment["ANSIBLE_DISPLAY_OK_HOSTS"] = "true"
    outcome = fleet.run_playbook(
        *("-e", "host_tuning_cpu_idle=awake"),
        playbook=fleet.custom_playbook(tasks, hosts="all"),
        inventory=write_inventory(fleet.path / "groups.yml", groups),
    )
    assert "kvm is awake" in outcome.output and "guest is default" in outcome.output, outcome.output


@pytest.mark.long
def test_mistakes_are_named(fleet):
    cases = [
        ({"site_check_blocks": 2}, "blocks: 2 is out of range; it must be a whole number from 3 to 1,000"),
        ({"site_check_redis": "/nonexistent/redis"}, "/nonexistent/redis"),
        ({"site_check_cpu_idle": "asleep"}, "value of cpu_idle must be one of: default, awake"),
    ]
    for wrong, text in cases:
        outcome = fleet.run_playbook(*SITE, playbook="selftest", inventory=inventory(fleet, **wrong))
        assert outcome.status and text in " ".join(outcome.output.split()), outcome.output
