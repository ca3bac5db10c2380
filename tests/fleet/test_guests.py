# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that boot: a VM on each of two hypervisors. They are emulated, and take their minutes; the other files here need none that boots."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import time
import typing as t

import pytest

from .conftest import ANSIBLE_PLAYBOOK, FLEET, IMAGES, ROOT, Lab, Outcome

GOLDEN = ROOT / ".cache" / "golden"
PATIENCE = 1800
# Two phases of 20 s; nothing here is about speed.
LOAD = {
    "latency_benchmark_key_count": 2000,
    "latency_benchmark_requests": 1000,
    "latency_benchmark_rate": 50,
    "latency_benchmark_influences": [0],
    "latency_benchmark_read_mixes": [100],
    "latency_benchmark_warmups": 0,
    "latency_benchmark_iterations": 2,
    "latency_benchmark_pacing": "sleep",
    "latency_benchmark_max_clock_offset": 60,
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
    "latency_benchmark_min_overlap": 0,
    "latency_benchmark_min_rate_ratio": 0,
    "latency_benchmark_max_lateness_p99_us": 1e9,
}


class Guests:
    """A fleet of real VMs of one golden image, and what it is made with."""

    def __init__(self, lab: Lab, image: str, **options: t.Any) -> None:
        if not (GOLDEN / f"{image}.qcow2").exists():
            pytest.fail(f"there is no {GOLDEN / image}.qcow2; make test-guests builds it")
        shutil.copyfile(GOLDEN / f"{image}.qcow2", lab.path / "golden" / f"{image}.qcow2")
        self.lab = lab
        self.options = {
            "vm_fleet_image": f"{IMAGES}/golden/{image}.qcow2",
            "vm_fleet_memory": "384M",
            "vm_fleet_disk_growth": "200M",
            "vm_fleet_address_timeout": PATIENCE,
            "vm_fleet_connection_timeout": PATIENCE,
            "vm_fleet_stop_timeout": 60,
            **options,
        }

    def play(self, playbook: str = "fleet", *arguments: str, **options: t.Any) -> Outcome:
        return self.lab.play(playbook, *arguments, timeout=PATIENCE, **{**self.options, **options})

    def later(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        """A later run, which has the fleet's own inventory only; the hypervisors, which are this machine, are not tuned."""
        return subprocess.Popen(
            [str(ANSIBLE_PLAYBOOK.parent / command), "-i", str(self.lab.path / "fleet" / "inventory.yml"), *arguments],
            cwd=ROOT,
            env=self.lab.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def read(self, *words: str) -> dict[str, str]:
        """What a command says in each VM."""
        process = self.later("ansible", "fleet", "-m", "ansible.builtin.command", "-a", " ".join(words))
        output, dummy = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, output
        said = re.findall(
            r"^(\S+) \| CHANGED \| rc=0 >>\n(.*?)(?=^\S+ \| CHANGED|\Z)", output, re.MULTILINE | re.DOTALL
        )
        return {name: text.strip() for name, text in said}

    def remove(self) -> None:
        outcome = self.play("teardown")
        assert outcome.status == 0, outcome.output
        assert not any(each.vms() for each in self.lab.hypervisors)


# First, as long as no other fleet of this name is there.
def test_cloud_init_takes_name_and_keys_from_the_seed(fleet: Lab) -> None:
    guests = Guests(fleet, "cloud-init", vm_fleet_count=1)
    outcome = guests.play("fleet", "-e", "profile=dram")
    assert outcome.status == 0, outcome.output
    try:
        assert guests.read("hostname") == {f"{FLEET}-001": f"{FLEET}-001"}
        assert (
            "DataSourceNoCloud"
            in guests.read("cat", "/run/cloud-init/cloud-id", "/run/cloud-init/result.json")[f"{FLEET}-001"]
        )
    finally:
        guests.remove()


@pytest.fixture(scope="module")
def guests(lab: Lab) -> t.Iterator[Guests]:
    """Two VMs, one on each hypervisor, with the kernel arguments of the brief's recipe."""
    guests = Guests(lab, "debian", vm_fleet_count=2, hypervisors=2)
    outcome = guests.play("fleet", "-e", "profile=swap_2018")
    assert outcome.status == 0, outcome.output
    yield guests
    guests.remove()


def test_the_kernels_of_the_vms_have_the_arguments_of_the_profile(guests: Guests) -> None:
    assert [each.vms("--state-running") for each in guests.lab.hypervisors] == [{f"{FLEET}-001"}, {f"{FLEET}-002"}]
    found = guests.read("cat", "/proc/cmdline")
    assert set(found) == {f"{FLEET}-001", f"{FLEET}-002"}
    assert all(set(line.split()) >= {"nohz=off", "highres=off", "lapic=notscdeadline"} for line in found.values()), (
        found
    )
    assert {name: name for name in found} == guests.read("hostname")
    again = guests.play("fleet", "-e", "profile=swap_2018")
    assert again.status == 0 and again.changed == 0, again.output


def test_a_vm_that_is_killed_in_the_middle_of_a_phase(guests: Guests, tmp_path: pathlib.Path) -> None:
    variables = json.dumps({**LOAD, "results_dir": str(tmp_path), "run_id": "killed", "profile": "swap_2018"})
    process = guests.later("ansible-playbook", str(ROOT / "playbooks" / "site.yml"), "-e", variables)
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "killed" / "phases" / "02-i0-r100-1.json").exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the first phase has not ended"
        time.sleep(0.5)
    time.sleep(5)
    guests.lab.hypervisors[1].virsh("destroy", f"{FLEET}-002")
    output, dummy = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0, output
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text(encoding="utf-8"))
    assert summary["verdict"] == "invalid" and summary["fleet"]["failed"] == [f"{FLEET}-002"], summary
    last = json.loads((tmp_path / "killed" / "phases" / "03-i0-r100-2.json").read_text(encoding="utf-8"))
    assert [host for host, result in last["hosts"].items() if not result.get("failed")] == [f"{FLEET}-001"], last
    assert f"{FLEET}-002" in output

    started = guests.play("fleet", "-e", "profile=swap_2018")
    assert started.status == 0 and guests.lab.hypervisors[1].vms("--state-running") == {f"{FLEET}-002"}, started.output


def test_a_vm_that_loses_its_network_is_named(guests: Guests) -> None:
    host = guests.lab.hypervisors[1]
    card = host.virsh("domiflist", f"{FLEET}-002").split()[0]
    host.virsh("domif-setlink", f"{FLEET}-002", card, "down")
    try:
        outcome = guests.play(
            "fleet", "-e", "profile=swap_2018", vm_fleet_connection_timeout=20, vm_fleet_address_timeout=20
        )
    finally:
        host.virsh("domif-setlink", f"{FLEET}-002", card, "up")
    assert outcome.status != 0 and f"{FLEET}-002" in outcome.output, outcome.output
    assert f"fatal: [{FLEET}-001]" not in outcome.output
