# SPDX-License-Identifier: GPL-3.0-or-later
"""The control groups of a ramp, as files; tests/local has real ones."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import BudgetError, CgroupFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.ramp import groups

MIB = 2**20


@pytest.fixture
def keeper(tmp_path, monkeypatch):
    """A group of version 1 with a limit of 100 MiB, and a keeper of a budget of 100 MiB with 20 MiB outside of it."""
    (tmp_path / "memory.limit_in_bytes").write_text(str(100 * MIB))
    (tmp_path / "memory.usage_in_bytes").write_text("0")
    group = CgroupFiles(str(tmp_path), version_1=True)
    file = tmp_path / "memory.limit_in_bytes"  # the kernel's need not be truncated, a file must
    monkeypatch.setattr(group, "_set_limit", lambda limit: file.write_text(str(limit)))
    return groups.BudgetKeeper(group, 100 * MIB, lambda: 20 * MIB)


def limit(keeper):
    return keeper._group.limit()


def test_the_limit_leaves_room_for_what_is_outside_of_the_group(keeper):
    keeper.step()
    assert limit(keeper) == 80 * MIB


def test_a_frozen_limit_stays(keeper):
    keeper.freeze(True)
    keeper.step()
    assert limit(keeper) == 100 * MIB and keeper.gives_way
    keeper.freeze(False)
    assert not keeper.gives_way, "it must not fall behind on busy CPUs"
    keeper.step()
    assert limit(keeper) == 80 * MIB


def test_a_small_change_is_not_followed(keeper):
    keeper._outside = lambda: 100 * 1024
    keeper.step()
    assert limit(keeper) == 100 * MIB


def test_the_limit_has_a_floor(keeper):
    keeper._outside = lambda: 200 * MIB
    keeper.step()
    assert limit(keeper) == 5 * MIB


def test_servers_that_are_filled_find_more_room(keeper):
    keeper.make_room(True)
    assert keeper.room == (4 * MIB, 8 * MIB)
    keeper.make_room(False)
    assert keeper.room == groups.window_room(100 * MIB)


@pytest.mark.parametrize(("budget", "room"), [(1024, (2, 2.5)), (256, (2, 2.5)), (48, (0.5, 1))])
def test_room_in_a_window_is_a_small_part_of_the_budget(budget, room):
    assert groups.window_room(budget * MIB) == tuple(size * MIB for size in room)


@pytest.mark.parametrize(
    ("limit", "room"), [(256, (4, 8)), (48, (3, 6)), (4, (0.5, 1))], ids=["large", "at the wall", "tiny"]
)
def test_room_for_a_fill_is_a_small_part_of_the_limit(limit, room):
    assert groups.joining_room(limit * MIB) == tuple(size * MIB for size in room)


def swaps(tmp_path, *areas):
    (tmp_path / "proc").mkdir()
    lines = ["Filename Type Size Used Priority", *(f"{name} partition 1024 0 {priority}" for name, priority in areas)]
    (tmp_path / "proc" / "swaps").write_text("\n".join(lines))
    return HostFiles(str(tmp_path))


def test_the_tier_and_the_machines_own_swap_are_told_apart(tmp_path):
    found = groups.areas(["/dev/zram0"], swaps(tmp_path, ("/dev/sda2", -2), ("/dev/zram0", 100)))
    assert [[area["name"] for area in areas] for areas in found] == [["/dev/zram0"], ["/dev/sda2"]]


@pytest.mark.parametrize("priority", [100, 200])
def test_swap_of_the_machines_own_that_is_used_as_soon_as_the_tier_is_refused(tmp_path, priority):
    with pytest.raises(BudgetError, match="/dev/sda2 has a priority of at least 100"):
        groups.areas(["/dev/zram0"], swaps(tmp_path, ("/dev/sda2", priority), ("/dev/zram0", 100)))


def test_without_a_tier_any_swap_of_the_machine_may_stay(tmp_path):
    assert len(groups.areas([], swaps(tmp_path, ("/dev/sda2", 5))).others) == 1


def test_a_tier_that_is_not_in_use_is_refused(tmp_path):
    with pytest.raises(BudgetError, match="/dev/zram0 is not in use as swap .in use: /dev/sda2."):
        groups.areas(["/dev/zram0"], swaps(tmp_path, ("/dev/sda2", 5)))


@pytest.fixture
def version_2(tmp_path):
    """A host with control groups of version 2."""
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.subtree_control").write_text("cpu memory\n")
    return tmp_path


def test_version_2_limits_the_swap_of_a_group(version_2, monkeypatch):
    written = {}
    group = groups.RampGroup("ramp", str(version_2))
    monkeypatch.setattr(group, "_set", written.__setitem__)
    monkeypatch.setattr(group, "set_limit", lambda limit: written.__setitem__("limit", limit))
    group.create(64 * MIB, 100, 512 * MIB)
    group.protect()
    assert written == {"memory.swap.max": str(512 * MIB), "limit": 64 * MIB, "memory.min": "max"}


def test_a_value_that_the_kernel_does_not_keep_is_an_error(version_2):
    group = groups.RampGroup("ramp", str(version_2))
    (version_2 / "sys/fs/cgroup/ramp").mkdir()
    (version_2 / "sys/fs/cgroup/ramp/memory.swap.max").symlink_to("/dev/null")
    with pytest.raises(BudgetError, match="memory.swap.max is .* after 5 was written"):
        group._set("memory.swap.max", "5")


def test_version_2_without_its_memory_controller_is_refused(version_2):
    (version_2 / "sys/fs/cgroup/cgroup.subtree_control").write_text("cpu\n")
    with pytest.raises(BudgetError, match="does not have memory"):
        groups.RampGroup("ramp", str(version_2)).create(64 * MIB, 100, 0)


@pytest.fixture
def box_group(tmp_path):
    """The group of a fleet of containers, with version 1, below which podman has left something."""
    for name in ("memory/ramp/libpod-1", "cpu/ramp/libpod-1", "cpu/ramp/conmon", "unified/other"):
        (tmp_path / "sys/fs/cgroup" / name).mkdir(parents=True)
    return groups.ContainerGroup("ramp", str(tmp_path))


def test_what_podman_leaves_of_a_group_is_removed_with_it_in_all_hierarchies(box_group, tmp_path):
    box_group.destroy()
    left = sorted(str(path.relative_to(tmp_path / "sys/fs/cgroup")) for path in tmp_path.glob("sys/fs/cgroup/*/*"))
    assert left == ["unified/other"]


def test_a_group_with_processes_is_an_error_that_names_them_wherever_they_are(box_group, tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "_GONE_SECONDS", 0)
    (tmp_path / "sys/fs/cgroup/memory/ramp/libpod-1/cgroup.procs").write_text("4711\n")
    with pytest.raises(BudgetError, match="cannot be removed: .*; its processes are 4711. End them"):
        box_group.destroy()


def test_a_container_that_podman_has_put_elsewhere_is_refused(box_group, monkeypatch):
    found = {1: "/ramp/libpod-1", 2: "/user.slice/libpod-2"}
    monkeypatch.setattr(groups, "group_of_process", lambda _files, pid: found.get(pid))
    box_group.admit(1)
    box_group.admit(3)  # it has ended
    with pytest.raises(BudgetError, match="process 2 is in the control group /user.slice/libpod-2, .*--cgroup-parent"):
        box_group.admit(2)


@pytest.fixture
def machine(version_2, monkeypatch):
    """libvirt's partition on a host with version 2, without a limit; a test sets where processes are."""
    path = version_2 / "sys/fs/cgroup/machine"
    path.mkdir()
    for name in ("memory.max", "memory.swap.max"):
        (path / name).write_text("max")
    monkeypatch.setattr(groups, "group_of_process", lambda _files, pid: {1: "/machine/vm-1", 2: "/machine2"}.get(pid))
    found = groups.Partition("machine", str(version_2))
    monkeypatch.setattr(found, "_set_limit", lambda limit: (path / "memory.max").write_text(str(limit or "max")))
    return found


def settings(group):
    with open(f"{group.path}/memory.max") as limit, open(f"{group.path}/memory.swap.max") as swap:
        return limit.read(), swap.read()


def test_a_ramp_limits_the_partition_of_the_vms_and_lifts_the_limit(machine):
    machine.create(64 * MIB, 100, 512 * MIB)
    assert settings(machine) == (str(64 * MIB), str(512 * MIB))
    machine.destroy()
    assert settings(machine) == ("max", "max") and machine.exists()


def test_a_partition_that_systemd_sets_up_again_is_limited_again(machine):
    machine.create(64 * MIB, 100, 512 * MIB)
    for name in ("memory.max", "memory.swap.max"):
        with open(f"{machine.path}/{name}", "w") as file:
            file.write("max")
    machine.admit(1)
    assert settings(machine) == (str(64 * MIB), str(512 * MIB))


def test_a_partition_with_a_limit_is_somebody_elses(machine):
    with open(f"{machine.path}/memory.max", "w") as file:
        file.write(str(32 * MIB))
    with pytest.raises(BudgetError, match="machine has a limit of 33,554,432 bytes already"):
        machine.create(64 * MIB, 100, 0)
    machine.destroy()
    assert machine.limit() == 32 * MIB


def test_a_vm_outside_of_the_partition_is_refused_and_a_reference_inside(machine):
    machine.create(64 * MIB, 100, 0)
    beside = groups.Beside(machine)
    machine.admit(1)
    beside.admit(2)
    with pytest.raises(BudgetError, match="process 2 is in the control group /machine2, not in .*/machine$"):
        machine.admit(2)
    with pytest.raises(BudgetError, match="process 1 is in the control group /machine/vm-1, so it is within the bud"):
        beside.admit(1)
