# SPDX-License-Identifier: GPL-3.0-or-later
"""The VMs of a ramp, with processes of this machine in their place; tests/fleet has real ones."""

from __future__ import annotations

import subprocess
import threading
import types

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError
from ansible_collections.memstretch.density.plugins.module_utils.ramp import vms
from ansible_collections.memstretch.density.plugins.module_utils.ramp.plan import Server, checked
from ansible_collections.memstretch.density.plugins.module_utils.ramp.servers import ServerError
from ansible_collections.memstretch.density.plugins.module_utils.redis.connection import Refused
from ansible_collections.memstretch.density.plugins.module_utils.vm import partition
from ansible_collections.memstretch.density.plugins.module_utils.vm.host import VmHostError
from ansible_collections.memstretch.density.tests.unit.fixtures.waiting import wait_until

from .test_plan import GIVEN, VMS

REFERENCE = [{"name": "vm9", "port": 6379, "address": "10.0.0.9"}]


class Host:
    """A libvirt whose VMs are processes that sleep."""

    def __init__(self, pid_files) -> None:
        self.pid_files = pid_files
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.stopped: dict[str, float] = {}
        self.leases: list[str] = []
        self.refuses = ""
        self.is_killed_while_it_starts = False

    def __call__(self, _uri: str) -> Host:
        return self

    def start(self, name: str) -> None:
        if self.refuses:
            raise VmHostError(self.refuses)
        self.processes[name] = subprocess.Popen(["sleep", "60"])
        (self.pid_files / f"{name}.pid").write_text(str(self.processes[name].pid), encoding="ascii")
        if self.is_killed_while_it_starts:
            wait_until((self.pid_files / "score").exists)
            self.processes[name].kill()
            self.processes[name].wait()
            raise VmHostError("process exited while connecting to monitor")

    def stop(self, name: str, seconds: float) -> None:
        self.stopped[name] = seconds
        if name == "stuck":
            raise VmHostError("cannot switch off stuck")

    def has_crashed(self, name: str) -> bool | None:
        status = self.processes[name].poll()
        return None if status is None else status == -9

    def addresses(self, _vm, source: str) -> list[str]:
        assert source == "lease"
        return self.leases


@pytest.fixture
def host(tmp_path, monkeypatch):
    found = Host(tmp_path)
    monkeypatch.setattr(vms, "VmHost", found)
    monkeypatch.setattr(vms, "_PID_FILES", str(tmp_path))
    monkeypatch.setattr(vms, "set_kernel_file", lambda path, value: (tmp_path / "score").write_text(f"{path} {value}"))
    monkeypatch.setattr(vms, "_POLL_S", 0.01)
    yield found
    for process in found.processes.values():
        process.kill()
        process.wait()


@pytest.fixture
def redis(monkeypatch):
    """What the Redis of the VMs answer: None for nothing."""
    found = types.SimpleNamespace(asked=[], answer=True)

    def answers(login, _seconds):
        found.asked.append(login)
        if isinstance(found.answer, Exception):
            raise found.answer
        return bool(found.answer)

    monkeypatch.setattr(vms, "answers", answers)
    return found


def server(admit=lambda _pid: None, name="vm1"):
    return vms.VmServer(Server(name, 6379, "10.0.0.1"), "secret", admit)


def domain(name, *, running=False, mark="a fleet", inside=""):
    resource = f"<resource><partition>{inside}</partition></resource>" if inside else ""
    return types.SimpleNamespace(name=name, running=running, mark=mark, xml=f"<domain>{resource}</domain>")


def plan(**changes):
    return checked({**GIVEN, "servers": VMS, "references": REFERENCE, **changes})


def test_a_vm_joins_once_its_redis_answers_and_is_killed_first_until_then(host, redis):
    redis.answer = False
    admitted: list[int] = []
    vm = server(admitted.append)
    wait_until(lambda: len(redis.asked) > 1)
    assert not vm.ready() and not vm.ended()
    redis.answer = True
    wait_until(vm.ready)
    assert vm.login == (("10.0.0.1", 6379), "secret") == redis.asked[-1]
    assert admitted == [vm.pid] == [host.processes["vm1"].pid]
    assert (host.pid_files / "score").read_text() == f"/proc/{vm.pid}/oom_score_adj 1000"


def test_libvirt_knows_the_address_better_than_the_inventory(host, redis):
    host.leases = ["10.0.0.77", "fd00::7"]
    vm = server()
    wait_until(vm.ready)
    assert vm.login.address == ("10.0.0.77", 6379)


def test_a_vm_that_cannot_start_says_why(host, redis):
    host.refuses = "cannot start vm1: no memory"
    vm = server()
    with pytest.raises(ServerError, match="^vm1: cannot start vm1: no memory$"):
        wait_until(vm.ready)
    assert redis.asked == [] and not vm.ended()


def test_a_vm_outside_of_the_budget_is_refused_and_shut_down_with_the_others(host, redis):
    def refuse(_pid):
        raise BudgetError("process 7 is in the control group /user, not in /machine")

    vm = server(refuse)
    with pytest.raises(ServerError, match="vm1: process 7 is in the control group"):
        wait_until(vm.ready)
    vms.stop([vm], 3, lambda: None)
    assert host.stopped == {"vm1": 3} and redis.asked == []


def test_a_redis_that_refuses_the_password_is_named_in_the_end(host, redis, monkeypatch):
    monkeypatch.setattr(vms, "_BOOT_SECONDS", 0.05)
    redis.answer = Refused("WRONGPASS")
    vm = server()
    with pytest.raises(ServerError, match=r"10\.0\.0\.1 port 6379 within 0\.05 s, but WRONGPASS\. It must"):
        wait_until(vm.ready)


@pytest.mark.parametrize("said", [True, False])
def test_a_vm_that_the_kernel_kills_while_qemu_starts_has_ended_and_is_no_error(host, redis, monkeypatch, said):
    host.is_killed_while_it_starts = True
    words = types.SimpleNamespace(on=lambda pid, _was_killed: f"Killed process {pid} (qemu)" if said else "")
    monkeypatch.setattr(vms, "KernelWords", lambda _group: words)
    vm = server()
    if said:
        wait_until(vm.ended)
        assert vm.was_killed and not vm.ready() and vm.pid == host.processes["vm1"].pid
    else:
        with pytest.raises(ServerError, match="vm1: process exited while connecting to monitor"):
            wait_until(vm.ready)


@pytest.mark.parametrize(("killed", "how"), [(True, "without a shutdown"), (False, "by a shutdown")])
def test_a_vm_that_the_kernel_kills_is_told_from_one_that_shuts_down(host, redis, killed, how):
    vm = server()
    wait_until(vm.ready)
    process = host.processes["vm1"]
    process.kill() if killed else process.terminate()
    wait_until(vm.ended)
    assert (vm.was_killed, vm.how()) == (killed, how) and vm.says().endswith("/vm1.log")


def test_vms_are_shut_down_while_the_conductor_goes_on(host, redis, monkeypatch):
    slow, looked = threading.Event(), []
    servers = [server(name=name) for name in ("vm1", "stuck")]
    stop = host.stop
    monkeypatch.setattr(host, "stop", lambda name, seconds: (slow.wait(10), stop(name, seconds)))

    def meanwhile():
        looked.append(1)
        if len(looked) == 5:
            slow.set()

    with pytest.raises(ServerError, match="^cannot switch off stuck$"):
        vms.stop(servers, 60, meanwhile)
    assert len(looked) >= 5 and host.stopped == {"vm1": 60, "stuck": 60}


def test_a_vm_that_still_boots_can_be_shut_down(host, redis):
    redis.answer = False
    vm = server()
    wait_until(lambda: redis.asked)
    vms.stop([vm], 0, lambda: None)
    assert host.stopped == {"vm1": 0} and not vm.ready()


def test_the_budget_is_that_of_the_partition_of_the_vms(monkeypatch):
    monkeypatch.setattr(partition, "booted", lambda: True)
    fleet = {name: domain(name, inside="/machine/fleet") for name in ("vm1", "vm2")}
    assert vms.partition_of(plan(), {**fleet, "vm9": domain("vm9")}) == "machine-fleet.slice"
    assert vms.partition_of(plan(), {name: domain(name) for name in ("vm1", "vm2", "vm9")}) == "machine.slice"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"vm2": None}, "libvirt has no such VMs .*: vm2. playbooks/fleet.yml"),
        ({"vm2": domain("vm2", mark=None)}, "libvirt has no such VMs of a fleet of this collection: vm2"),
        ({"vm9": domain("vm9", running=True)}, "these VMs run: vm9. .* vm_fleet_state=stopped"),
        ({"vm2": domain("vm2", inside="/other")}, r"several partitions of libvirt \(, /other\)"),
    ],
)
def test_vms_that_cannot_take_part_are_named_before_anything_starts(changed, message):
    domains = {name: domain(name) for name in ("vm1", "vm2", "vm9")}
    domains.update(changed)
    with pytest.raises(VmHostError, match=message):
        vms.partition_of(plan(), {name: found for name, found in domains.items() if found})


def test_instances_need_no_libvirt(monkeypatch):
    monkeypatch.setattr(vms, "VmHost", lambda _uri: pytest.fail("it was asked"))
    fleet, outside = vms.groups_of(checked(GIVEN))
    assert (fleet.name, outside.name) == ("memstretch-ramp", "memstretch-references")
