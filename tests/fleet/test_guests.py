# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests that boot: one emulated VM on each of two hypervisors. They take minutes; the other files here boot none."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
import time
import typing as t

import pytest

from .conftest import FLEET, IMAGES, ROOT, Lab, Outcome
from .ssh_machines import MEMORY
from .test_density import SETTINGS, VALUES, unchanged

GOLDEN = ROOT / ".cache" / "golden"
BOOT_TIMEOUT_S = 1800
# Two phases of 20 s. The limits accept any speed: these tests do not measure.
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
}

MIB = 2**20
# Those that the lab's libvirt uses.
CONTROLLERS = ("memory", "cpuacct", "cpuset", "devices", "blkio", "unified")
RAMP_LOAD = {
    **SETTINGS,
    **VALUES,
    "density_references": 1,
    "latency_benchmark_port": 6379,
    "latency_benchmark_password": "secret",
}
# MiB that are enough for one guest of 384 MiB under emulation, but not for two.
FULL = 600


class Guests:
    """A fleet of VMs that boot from one golden image."""

    def __init__(self, lab: Lab, image: str, **options: t.Any) -> None:
        if not (GOLDEN / f"{image}.qcow2").exists():
            pytest.fail(f"{GOLDEN / image}.qcow2 does not exist; make test-guests builds it")
        shutil.copyfile(GOLDEN / f"{image}.qcow2", lab.path / "golden" / f"{image}.qcow2")
        self.lab = lab
        self.options = {
            "vm_fleet_image": f"{IMAGES}/golden/{image}.qcow2",
            "vm_fleet_memory": "384M",
            "vm_fleet_disk_growth": "200M",
            "vm_fleet_address_timeout": BOOT_TIMEOUT_S,
            "vm_fleet_connection_timeout": BOOT_TIMEOUT_S,
            "vm_fleet_stop_timeout": 60,
            **options,
        }

    def run_playbook(self, playbook: str = "fleet", *arguments: str, **options: t.Any) -> Outcome:
        return self.lab.run_playbook(playbook, *arguments, timeout=BOOT_TIMEOUT_S, **{**self.options, **options})

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a command with the fleet's own inventory: the hypervisors, which share this machine, are not tuned."""
        return self.lab.start(command, str(self.lab.path / "fleet" / "inventory.yml"), *arguments)

    def read(self, *words: str) -> dict[str, str]:
        """Return the output of a command in each VM."""
        process = self.start("ansible", "fleet", "-m", "ansible.builtin.command", "-a", " ".join(words))
        output, _errors = process.communicate(timeout=BOOT_TIMEOUT_S)
        assert process.returncode == 0, output
        blocks = re.findall(
            r"^(\S+) \| CHANGED \| rc=0 >>\n(.*?)(?=^\S+ \| CHANGED|\Z)", output, re.MULTILINE | re.DOTALL
        )
        return {name: text.strip() for name, text in blocks}

    def finished(self, name: str, run: pathlib.Path) -> bool:
        """Check whether the client in a VM has finished a phase of this run."""
        if not (run / "schedule.json").exists():
            return False
        session = json.loads((run / "schedule.json").read_text(encoding="utf-8"))["session"]
        search = f"grep -h phase /run/memstretch-*/session-{session}/*/output"
        process = self.start("ansible", name, "-m", "ansible.builtin.raw", "-a", search)
        process.communicate(timeout=BOOT_TIMEOUT_S)
        return process.returncode == 0

    def remove(self) -> None:
        outcome = self.run_playbook("teardown")
        assert outcome.status == 0, outcome.output
        assert not any(each.vms() for each in self.lab.hypervisors)


def test_the_self_test_tries_a_vm_and_removes_it(lab: Lab, tmp_path: pathlib.Path) -> None:
    """Without a Redis of its own, the hypervisor is under the load of one in the VM."""
    guests = Guests(
        lab,
        "debian",
        selftest_emulation=True,
        selftest_vm_memory="384M",
        selftest_vm_timeout=BOOT_TIMEOUT_S,
        selftest_redis="/nonexistent/redis-server",
    )
    host = lab.hypervisors[0]
    variables = json.dumps(
        {"results_dir": str(tmp_path), "selftest_checks": ["transport", "pressure", "vm", "guest_arguments"]}
    )
    outcome = guests.run_playbook("selftest", "-e", variables)
    assert outcome.status == 0, outcome.output
    text = (tmp_path / "selftest" / "selftest.json").read_text(encoding="utf-8")
    results = json.loads(text)["hosts"]["host-1"]["results"]
    # The sshd of the lab has no socket, so only the VM itself shows that it is reached through the hypervisor.
    assert results["transport"]["reason"] == "its sshd does not show where it listens"
    assert results["vm"]["result"] == "passed" and results["vm"]["found"]["accelerator"] == "qemu"
    assert results["guest_arguments"]["result"] == "passed", results
    assert "nohz=off highres=off lapic=notscdeadline" in results["guest_arguments"]["reason"]
    assert results["pressure"]["result"] == "passed" and results["pressure"]["found"]["loaded"] == "the VM", results
    assert results["put_back"]["result"] == "passed", results
    assert "PRIVATE KEY" not in text and host.name not in text
    assert host.vms() == set() and host.virsh("net-list", "--all", "--name").split() == []
    assert "fleet-memstretch-selftest" not in host.files(IMAGES)
    assert not pathlib.Path("/var/lib/memstretch-selftest").exists()
    assert sorted(each.name for each in (tmp_path / "selftest").iterdir()) == ["lock", "selftest.json"]


@pytest.fixture
def beside() -> t.Iterator[str]:
    """A partition for references, which systemd would make. Without it libvirt makes no other than its own."""
    if not MEMORY.is_dir():
        pytest.skip("this needs the memory controller of cgroup v1")
    paths = [MEMORY.parent / name / "references.partition" for name in CONTROLLERS if (MEMORY.parent / name).exists()]
    for path in paths:
        path.mkdir()
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (path / name).exists():
                (path / name).write_text((path.parent / name).read_text(encoding="ascii"), encoding="ascii")
    yield "/references"
    for path in paths:
        if path.exists():  # libvirt may have removed it with its last VM
            path.rmdir()


def test_vms_join_a_ramp_and_are_shut_down_at_its_end(lab: Lab, tmp_path: pathlib.Path, beside: str) -> None:
    """Two VMs within a budget, and a reference outside of it; then a budget that has no room for a second one."""
    host = lab.hypervisors[0]
    fleet = Guests(lab, "debian", vm_fleet_count=2)
    other = {"vm_fleet_name": "ref", "vm_fleet_groups": ["references"], "vm_fleet_partition": beside}
    inventories = {FLEET: lab.path / "fleet", "ref": lab.path / "ref"}
    references = Guests(lab, "debian", vm_fleet_count=1, vm_fleet_local_directory=str(inventories["ref"]), **other)
    load = {**RAMP_LOAD, "results_dir": str(tmp_path / "results"), "profiles": unchanged(tmp_path / "unchanged.yml")}
    sources = [word for path in inventories.values() for word in ("-i", str(path / "inventory.yml"))]

    def play(playbook: str, **variables: t.Any) -> Outcome:
        given = ("-e", json.dumps({**load, **variables}))
        process = lab.start("ansible-playbook", str(lab.path / "hosts.yml"), *sources, playbook, *given)
        output, _errors = process.communicate(timeout=BOOT_TIMEOUT_S)
        return Outcome(process.returncode, output)

    def ramp(name: str, **variables: t.Any) -> tuple[dict[str, t.Any], str]:
        outcome = play(str(ROOT / "playbooks" / "density.yml"), density_id=name, **variables)
        (record,) = (tmp_path / "results" / name / "ramps").iterdir()
        assert "secret" not in outcome.output and "secret" not in record.read_text(encoding="utf-8")
        return json.loads(record.read_text(encoding="utf-8")), outcome.output

    try:
        for each in (references, fleet):
            outcome = each.run_playbook("fleet")
            assert outcome.status == 0, outcome.output
        role = {"role": "memstretch.density.redis", "redis_bind": ["0.0.0.0"], "redis_password": "secret"}
        redis = tmp_path / "redis.yml"
        redis.write_text(json.dumps([{"hosts": "fleet_vms", "gather_facts": False, "roles": [role]}]), encoding="utf-8")
        outcome = play(str(redis))
        assert outcome.status == 0, outcome.output

        refused = play(str(ROOT / "playbooks" / "density.yml"), density_id="refused", density_budget="4G")
        assert refused.status != 0 and "these VMs run: " in refused.output, refused.output
        for each in (references, fleet):
            outcome = each.run_playbook("fleet", vm_fleet_state="stopped")
            assert outcome.status == 0, outcome.output

        found, output = ramp("fits", density_budget="4G")
        assert found["end"]["kind"] == "hosts", output
        last = found["windows"][-1]
        assert set(last["hosts"]) == {f"{FLEET}-001", f"{FLEET}-002"} and set(last["references"]) == {"ref-001"}
        served = [load["lower"]["count"] for load in (*last["hosts"].values(), *last["references"].values())]
        assert min(served) > 0, served
        # The memory of two guests that have booted, and not that of the third.
        assert 2 * 100 * MIB < last["machines"][host.name]["charged_bytes"] < 2 * 600 * MIB, last["machines"]
        assert host.vms("--state-running") == set() and limit() > 2**60

        found, output = ramp("full", density_budget=f"{FULL}M")
        assert found["end"]["kind"] in ("does_not_fit", "killed"), output
        assert found["end"]["host"] == f"{FLEET}-002", output
        assert host.vms("--state-running") == set() and limit() > 2**60
    finally:
        for each in (references, fleet):
            outcome = each.run_playbook("teardown")
            assert outcome.status == 0, outcome.output
    assert host.vms() == set()


def limit() -> int:
    """Return the limit of the partition of the VMs, that of the root without one."""
    path = MEMORY / "machine" if (MEMORY / "machine").exists() else MEMORY
    return int((path / "memory.limit_in_bytes").read_text(encoding="ascii"))


# Before the fixture guests below, which creates another fleet of this name.
def test_cloud_init_reads_name_and_keys_from_the_seed(lab: Lab) -> None:
    guests = Guests(lab, "cloud-init", vm_fleet_count=1)
    outcome = guests.run_playbook("fleet", "-e", "profile=dram")
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
def guests(shared_lab: Lab) -> t.Iterator[Guests]:
    """Two VMs, one on each hypervisor, with the guest kernel arguments of the profile swap_2018."""
    guests = Guests(shared_lab, "debian", vm_fleet_count=2, hypervisors=2)
    outcome = guests.run_playbook("fleet", "-e", "profile=swap_2018")
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
    again = guests.run_playbook("fleet", "-e", "profile=swap_2018")
    assert again.status == 0 and again.changed == 0, again.output


def test_coarse_timers_are_refused_before_the_fill_or_end_with_a_labelled_verdict(
    guests: Guests, tmp_path: pathlib.Path
) -> None:
    """The guests have highres=off: their sleeps end at ticks."""
    load = {**LOAD, "results_dir": str(tmp_path), "profile": "swap_2018", "latency_benchmark_iterations": 1}

    def run(playbook: str, run_id: str, choice: str, *arguments: str) -> Outcome:
        variables = json.dumps({**load, "run_id": run_id, "latency_benchmark_coarse_timers": choice})
        process = guests.start(
            "ansible-playbook", str(ROOT / "playbooks" / f"{playbook}.yml"), "-e", variables, *arguments
        )
        output, _errors = process.communicate(timeout=BOOT_TIMEOUT_S)
        assert "sleeps end only every" in output, output
        return Outcome(process.returncode, output)

    # It also starts a Redis in each guest: the image's own is disabled.
    refused = run("site", "refused", "refuse")
    assert refused.status != 0 and "a whole CPU of each guest" in refused.output, refused.output
    assert not (tmp_path / "refused" / "phases").exists()
    # With the hypervisors in the inventory, which this playbook records and does not tune.
    accepted = run("benchmark", "accepted", "accept", "-i", str(guests.lab.path / "hosts.yml"))
    assert accepted.status == 0, accepted.output
    summary = json.loads((tmp_path / "accepted" / "summary.json").read_text(encoding="utf-8"))
    assert summary["verdict"] in ("pass", "undecided", "fail"), summary["reasons"]
    assert any(label.startswith("coarse timers") for label in summary["labels"])
    # The hypervisors' memory is in the pages, the guests' next to it.
    machines = summary["cells"][0]["pressure"]
    assert len(machines) == 3 and "2 guests" in machines, machines


def test_a_vm_is_killed_in_the_middle_of_a_phase(guests: Guests, tmp_path: pathlib.Path) -> None:
    # Longer, so that the client runs while it is looked for.
    load = {**LOAD, "latency_benchmark_requests": 4000}
    variables = json.dumps({**load, "results_dir": str(tmp_path), "run_id": "killed", "profile": "swap_2018"})
    process = guests.start("ansible-playbook", str(ROOT / "playbooks" / "site.yml"), "-e", variables)
    deadline = time.monotonic() + BOOT_TIMEOUT_S
    while not guests.finished(f"{FLEET}-002", tmp_path / "killed"):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the first phase has not ended"
        time.sleep(1)
    guests.lab.hypervisors[1].virsh("destroy", f"{FLEET}-002")
    output, _errors = process.communicate(timeout=BOOT_TIMEOUT_S)
    assert process.returncode != 0, output
    summary = json.loads((tmp_path / "killed" / "summary.json").read_text(encoding="utf-8"))
    # It could no longer be reached after the launch of its client: it died under the load, which fails the run.
    assert summary["verdict"] == "fail" and summary["fleet"]["failed"] == [f"{FLEET}-002"], summary
    assert any(f"{FLEET}-002" in reason for reason in summary["reasons"]), summary["reasons"]
    last = json.loads((tmp_path / "killed" / "phases" / "03-i0-r100-2.json").read_text(encoding="utf-8"))
    assert [host for host, result in last["hosts"].items() if not result.get("failed")] == [f"{FLEET}-001"], last
    assert f"{FLEET}-002" in output

    started = guests.run_playbook("fleet", "-e", "profile=swap_2018")
    assert started.status == 0 and guests.lab.hypervisors[1].vms("--state-running") == {f"{FLEET}-002"}, started.output


def test_a_vm_without_network_is_named(guests: Guests) -> None:
    host = guests.lab.hypervisors[1]
    card = host.virsh("domiflist", f"{FLEET}-002").split()[0]
    host.virsh("domif-setlink", f"{FLEET}-002", card, "down")
    try:
        outcome = guests.run_playbook(
            "fleet", "-e", "profile=swap_2018", vm_fleet_connection_timeout=20, vm_fleet_address_timeout=20
        )
    finally:
        host.virsh("domif-setlink", f"{FLEET}-002", card, "up")
    assert outcome.status != 0 and f"{FLEET}-002" in outcome.output, outcome.output
    assert f"fatal: [{FLEET}-001]" not in outcome.output
