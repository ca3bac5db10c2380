# SPDX-License-Identifier: GPL-3.0-or-later
"""The control groups of a fleet in a tree of files that stands for a host; tests/local has real ones."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.fleet import groups as fleet_groups
from ansible_collections.memstretch.density.plugins.module_utils.fleet.groups import FleetGroups, own_groups
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord

UNIT = "/system.slice/memstretch-redis@7001.service"
VM = "/machine.slice/machine-qemu\\x2d1\\x2dfleet\\x2d001.scope"
DISK = '{"driver":"file","filename":"/var/lib/images/memstretch-fleet/clone-fleet-001.qcow2","node-name":"d"}'


class Host:
    """A host whose processes and groups are files below a directory."""

    def __init__(self, path):
        self.root, self._pid = path, 100
        self.write("/proc/sys/vm/swappiness", "60\n")
        self.link("/proc/self/ns/mnt", "mnt:[1]")
        self.record, self.tuned = (
            HostRecord(name, str(path / "state")) for name in ("fleet_swappiness", "host_settings")
        )

    def write(self, name, text):
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def link(self, name, target):
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(target, path)

    def process(self, group, program, *arguments, directory="/", namespace=1, value=60):
        self._pid += 1
        place = f"/proc/{self._pid}"
        self.write(f"{place}/cgroup", f"5:cpu,cpuacct:/elsewhere\n4:memory:{group}\n0::/unified\n")
        self.write(f"{place}/cmdline", "\0".join([program, *arguments]) + "\0")
        self.link(f"{place}/exe", program)
        self.link(f"{place}/cwd", directory)
        self.link(f"{place}/ns/mnt", f"mnt:[{namespace}]")
        self.write(self.knob(group), f"{value}\n")

    @staticmethod
    def knob(group):
        return f"/sys/fs/cgroup/memory{group}/memory.swappiness"

    def value(self, group):
        return int((self.root / self.knob(group).lstrip("/")).read_text(encoding="utf-8"))

    def own(self):
        return own_groups(HostFiles(str(self.root)))

    def groups(self, restore=False):
        return FleetGroups(self.record, self.tuned, restore, str(self.root))

    def apply(self, restore=False):
        """Do what the module does; return whether anything changed."""
        groups = self.groups(restore)
        changed = groups.change_needed()
        if changed:
            groups.apply()
        assert not self.groups(restore).change_needed(), "a second run changes nothing"
        return changed

    def tune(self, value, original=None):
        self.write("/proc/sys/vm/swappiness", f"{value}\n")
        if original is not None:
            self.tuned.write({"originals": {"/proc/sys/vm/swappiness": str(original)}})


def write_anew(path, value):
    """Write a file that stands for one of the kernel's, which need not be truncated."""
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    pathlib.Path(path).write_text(f"{value}\n", encoding="ascii")


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_groups, "set_kernel_file", write_anew)
    found = Host(tmp_path)
    found.process(UNIT, "/usr/bin/redis-server", "127.0.0.1:7001")
    found.process("/", "/sbin/init")
    return found


def test_units_of_our_instances_are_the_fleet(host):
    assert host.own() == [UNIT]


def test_a_server_that_no_systemd_has_started_is_the_fleet_if_its_files_are_ours(host):
    host.write("/srv/redis/.made-by-memstretch-redis", "")
    host.process("/ours", "/usr/bin/redis-check-rdb", directory="/srv/redis/a/data")
    host.process("/theirs", "/usr/bin/redis-check-rdb", directory="/var/lib/redis")
    host.process("/container", "/usr/bin/redis-check-rdb", directory="/srv/redis/a/data", namespace=2)
    host.process("/shell", "/bin/sleep", directory="/srv/redis/a/data")
    assert host.own() == ["/ours", UNIT]


def test_a_vm_is_the_fleet_if_its_disk_is_a_clone_of_a_fleet(host):
    host.process(VM, "/usr/bin/qemu-system-x86_64", "-blockdev", DISK)
    assert host.own() == [UNIT], "the directory of this disk is no fleet's"
    host.write("/var/lib/images/memstretch-fleet/.memstretch-fleet", "{}")
    assert host.own() == [VM, UNIT]
    host.process("/other", "/usr/bin/qemu-system-x86_64", "-blockdev", DISK.replace("clone-", "disk-"))
    host.process("/copy", "/bin/cp", "/var/lib/images/memstretch-fleet/clone-fleet-001.qcow2")
    assert host.own() == [VM, UNIT]


def test_a_group_with_another_process_is_not_ours(host):
    host.write("/srv/redis/.made-by-memstretch-redis", "")
    host.process("/user", "/usr/bin/redis-server", directory="/srv/redis/a/data")
    host.process("/user", "/bin/bash")
    assert host.own() == [UNIT]


def test_each_profile_reaches_the_groups_and_the_originals_come_back(host):
    assert not host.apply(), "the host has no other value"
    host.tune(100, original=60)
    assert host.groups().differences() == [f"{host.knob(UNIT)} is 60 and not 100"]
    assert host.apply() and host.value(UNIT) == 100 and host.groups().differences() == []
    host.tune(17)
    assert host.apply() and host.value(UNIT) == 17
    host.tune(60)
    host.tuned.remove()
    assert host.apply(restore=True) and host.value(UNIT) == 60
    assert not host.apply(restore=True) and not (host.root / "state" / "fleet_swappiness.json").exists()


def test_a_value_that_was_not_the_hosts_comes_back(host):
    host.write(host.knob(UNIT), "35\n")
    host.tune(100, original=60)
    assert host.apply() and host.value(UNIT) == 100
    assert host.apply(restore=True) and host.value(UNIT) == 35


def test_a_group_that_was_made_under_the_profile_gets_what_it_would_have_had(host):
    host.tune(100, original=60)
    host.apply()
    host.write("/srv/redis/.made-by-memstretch-redis", "")
    host.process("/new", "/usr/bin/redis-server", directory="/srv/redis/b/data", value=100)
    assert host.apply()
    host.tune(60)
    assert host.apply(restore=True) and host.value("/new") == 60


def test_a_group_that_has_gone_needs_no_restore(host):
    host.tune(100, original=60)
    host.apply()
    (host.root / host.knob(UNIT).lstrip("/")).unlink()
    assert host.apply(restore=True) and not (host.root / "state" / "fleet_swappiness.json").exists()


def test_the_original_is_recorded_before_the_change(host):
    host.tune(100, original=60)
    groups = host.groups()
    groups._set = lambda *_args: None  # the power fails
    groups.apply()
    assert json.loads((host.root / "state" / "fleet_swappiness.json").read_text("utf-8"))["originals"] == {UNIT: 60}


def test_version_2_has_no_such_value(tmp_path):
    host = Host(tmp_path)
    host.tune(100, original=60)
    assert host.own() == [] and not host.apply()


MEMORY = pathlib.Path("/sys/fs/cgroup/memory")


def test_the_kernel_shows_and_keeps_what_the_tree_above_stands_for(needs_root, tmp_path, monkeypatch):
    """Real groups and processes. Those of other fleets on this machine are left alone."""
    if not MEMORY.is_dir():
        pytest.skip("this needs the memory controller of cgroup v1")
    program, data = tmp_path / "redis-server", tmp_path / "ours" / "redis" / "data"
    shutil.copy("/bin/sleep", program)
    data.mkdir(parents=True)
    (tmp_path / "ours" / ".made-by-memstretch-redis").touch()
    made, started = [MEMORY / f"unit-{name}-{os.getpid()}" for name in ("ours", "theirs")], []
    try:
        for group, directory in zip(made, (data, tmp_path)):
            group.mkdir()
            (group / "memory.swappiness").write_text("41", encoding="ascii")
            started.append(subprocess.Popen([program, "600"], cwd=directory))
            (group / "cgroup.procs").write_text(str(started[-1].pid), encoding="ascii")
        ours, theirs = (f"/{group.name}" for group in made)
        found = own_groups(HostFiles())
        assert ours in found and theirs not in found
        monkeypatch.setattr(fleet_groups, "own_groups", lambda _files: [ours])
        record, tuned = (HostRecord(name, str(tmp_path / "state")) for name in ("fleet_swappiness", "host_settings"))
        FleetGroups(record, tuned, False).apply()
        host = pathlib.Path("/proc/sys/vm/swappiness").read_text("ascii")
        assert [(group / "memory.swappiness").read_text("ascii") for group in made] == [host, "41\n"]
        assert not FleetGroups(record, tuned, False).change_needed()
        FleetGroups(record, tuned, True).apply()
        assert (made[0] / "memory.swappiness").read_text("ascii") == "41\n"
    finally:
        for process in started:
            process.kill()
            process.wait()
        for group in filter(pathlib.Path.exists, made):
            group.rmdir()
