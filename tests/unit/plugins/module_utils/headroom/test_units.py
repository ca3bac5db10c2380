# SPDX-License-Identifier: GPL-3.0-or-later
"""Which VMs, systemd units, control groups and processes are found, in recorded trees of /proc and /run."""

from __future__ import annotations

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.headroom import units
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils.headroom import accepted

STATE = """<domstatus state='running' reason='booted' pid='{pid}'>
  <monitor path='/var/lib/libvirt/qemu/domain-1-{name}/monitor.sock' type='unix'/>
  <domain type='kvm' id='1'>
    <name>{name}</name>
    <memory unit='KiB'>4194304</memory>
    <currentMemory unit='KiB'>3145728</currentMemory>
  </domain>
</domstatus>
"""


@pytest.fixture
def host(tmp_path):
    """A function that adds a process to a recorded tree."""

    def add(pid, name, cgroup="0::/\n", command=()):
        directory = tmp_path / "proc" / str(pid)
        directory.mkdir(parents=True)
        (directory / "comm").write_text(f"{name}\n", encoding="utf-8")
        (directory / "cgroup").write_text(cgroup, encoding="utf-8")
        (directory / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))
        return HostFiles(str(tmp_path))

    return add


def named(files, pattern):
    """Return the names and the processes of the units that a pattern names."""
    return [(unit.name, unit.pids) for unit in units.find(files, [pattern])]


def state_file(tmp_path, name, text):
    directory = tmp_path / "run" / "libvirt" / "qemu"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.xml").write_text(text, encoding="utf-8")


def test_a_vm_of_libvirt_has_its_process_its_memory_and_what_the_balloon_leaves(host, tmp_path):
    files = host(41, "CPU 0/KVM")
    state_file(tmp_path, "web", STATE.format(pid=41, name="web"))

    assert units.find(files, []) == [units.Unit("web", "vm", (41,), 4 * 2**30, 3 * 2**30)]


@pytest.mark.parametrize(
    "text",
    [STATE.format(pid=0, name="off"), STATE.format(pid=99, name="ended"), "<networkstatus/>", "<domstatus", ""],
    ids=["off", "ended", "network", "half", "empty"],
)
def test_other_files_of_libvirt_are_no_vms(host, tmp_path, text):
    files = host(41, "systemd")
    state_file(tmp_path, "other", text)

    assert units.find(files, []) == []


def test_a_vm_without_libvirt_is_found_by_its_command_line(host):
    host(7, "kvm", command=("/usr/bin/kvm", "-id", "100", "-name", "db,debug-threads=on", "-m", "2048"))
    host(8, "bash", command=("bash", "-name", "x"))
    files = host(
        9, "qemu-system-x86", command=("/usr/bin/qemu-system-x86_64", "-name", "guest=a", "-m", "size=1G,slots=2")
    )

    assert units.find(files, []) == [
        units.Unit("a", "vm", (9,), 2**30),
        units.Unit("db", "vm", (7,), 2 * 2**30),
    ]


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (("-m", "size=4194304k"), 4 * 2**30),  # of libvirt in the pods of KubeVirt
        (("-m", "slots=255,maxmem=524288M,size=1024"), 2**30),
        (
            ("-m", "size=1024,slots=255,maxmem=524288M")
            + ("-object", "memory-backend-ram,id=ram-node0,size=1024M")
            + ("-object", "memory-backend-ram,id=mem-dimm0,size=7G", "-device", "pc-dimm,id=dimm0,memdev=mem-dimm0"),
            8 * 2**30,
        ),  # of Proxmox with hot-plug
        (
            ("-m", "size=1048576k,slots=16,maxmem=4194304k")
            + ("-object", '{"qom-type":"memory-backend-ram","id":"memdimm0","size":536870912}')
            + ("-device", '{"driver":"pc-dimm","node":0,"memdev":"memdimm0","id":"dimm0"}'),
            1536 * 2**20,
        ),  # of libvirt 8 and later
        (("-m", "lots"), None),
        (("-m", "9" * 5000), None),
        (("-m", "1G", "-device", "{" + '"a":{' * 100_000), 2**30),
        ((), None),
    ],
    ids=["KiB", "any order", "modules", "JSON", "no size", "no number", "no JSON", "nothing"],
)
def test_the_memory_that_qemu_gives_to_a_vm(host, options, given):
    files = host(9, "qemu-system-x86", command=("/usr/bin/qemu-system-x86_64", "-name", "guest=a", *options))
    assert units.find(files, []) == [units.Unit("a", "vm", (9,), given)]


def test_vms_of_one_name_stay_apart(host):
    command = ("/usr/bin/kvm", "-name", "same", "-m", "1G")
    host(7, "kvm", command=command)
    files = host(9, "kvm", command=command)

    assert [unit.name for unit in units.find(files, [])] == ["same-7", "same-9"]


def test_a_systemd_unit_has_the_processes_in_it_and_below_it(host):
    host(1, "a", "0::/system.slice/redis@6379.service\n")
    host(2, "b", "0::/system.slice/redis@6379.service/child\n")
    host(3, "c", "4:memory:/system.slice/redis@6380.service\n1:name=systemd:/x\n0::/\n")
    files = host(4, "d", "9:cpu:/system.slice/redis@6381.service\n0::/\n")  # its memory is elsewhere

    assert units.find(files, ["redis@*.service"]) == [
        units.Unit("redis@6379.service", "systemd unit", (1, 2)),
        units.Unit("redis@6380.service", "systemd unit", (3,)),
    ]


def test_a_systemd_unit_within_another_one_is_a_part_of_it(host):
    """And units of two managers have one name."""
    host(31, "postgres", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/postgresql.service\n")
    host(33, "dbus", "0::/user.slice/user-1001.slice/session.scope/dbus.service\n")
    host(34, "dbus", "0::/system.slice/dbus.service\n")
    files = host(32, "redis", "0::/system.slice/redis.service\n")

    assert named(files, "*.service") == [
        ("/system.slice/dbus.service", (34,)),
        ("/user.slice/user-1001.slice/session.scope/dbus.service", (33,)),
        ("redis.service", (32,)),
        ("user@1000.service", (31,)),
    ]
    assert named(files, "*.slice") == [
        ("system.slice", (32, 34)),
        ("user.slice", (31, 33)),
    ]


@pytest.mark.parametrize("patterns", [["redis.service", "process:redis-server"], ["*.service", "*.slice"]])
def test_no_memory_counts_twice(host, patterns):
    files = host(32, "redis-server", "0::/system.slice/redis.service\n")
    with pytest.raises(SettingError, match="have process 32 in common, whose memory would count twice; name one"):
        units.find(files, patterns)
    assert [unit.name for unit in units.find(files, ["redis.service", "*.service"])] == ["redis.service"]


def test_a_control_group_is_matched_part_by_part(host):
    host(1, "a", "0::/kubepods/pod1/c1\n")
    host(2, "b", "0::/kubepods/pod1/c2\n")
    host(3, "c", "0::/kubepods/pod2/c3\n")
    files = host(4, "d", "0::/other/pod3\n")

    assert named(files, "/kubepods/*") == [
        ("/kubepods/pod1", (1, 2)),
        ("/kubepods/pod2", (3,)),
    ]


def test_each_process_of_a_program_is_a_unit(host):
    host(5, "redis-server")
    host(6, "redis-server")
    files = host(7, "redis-cli")

    assert units.find(files, ["process:redis-server"]) == [
        units.Unit("redis-server-5", "process", (5,)),
        units.Unit("redis-server-6", "process", (6,)),
    ]


@pytest.mark.parametrize("pattern", ["redis", "", "process:", "/", "redis.conf"])
def test_what_names_nothing_is_refused(pattern):
    with pytest.raises(SettingError, match="units: .* is not allowed; it must be a systemd unit such as"):
        units.check([pattern])


def test_what_is_documented_is_accepted():
    units.check(["redis@*.service", "machine.slice", "/kubepods/*", "process:redis-server"])


def test_what_a_user_of_the_host_calls_a_process_or_a_group_spoils_no_look(host):
    """The controller would refuse the whole answer of the host, or the module would end in a traceback."""
    name = "x\x1b[2J" + 300 * "y"
    host(7, "qemu", command=("/usr/bin/qemu-system-x86_64", "-name", name, "-m", f"{10**30}G"))
    files = host(8, "redis\x0bserver", cgroup="0::/user.slice/\x0b\x1cevil.service\n")

    (vm,) = units.find(files, [])
    assert vm.name == "x?[2J" + 195 * "y" and vm.given_bytes is None and vm.balloon_bytes is None
    assert [each.name for each in units.find(files, ["*.service"])] == ["??evil.service"]
    assert [each.name for each in units.find(files, ["process:redis*"])] == ["redis?server-8"]
    for found in units.find(files, []):
        accepted.DOCUMENT.required["units"].kind.required["name"].check("name", found.name)


def test_what_started_meanwhile_is_named():
    """A VM that was restarted has another process; a control group keeps one of its processes."""
    before = [units.Unit("web", "vm", (4,)), units.Unit("db", "vm", (5,)), units.Unit("/pod", "control group", (6, 7))]
    now = [units.Unit("web", "vm", (8,)), units.Unit("/pod", "control group", (7, 9)), units.Unit("new", "vm", (10,))]
    assert units.started(before, now) == ["web", "new"] and units.started(before, before) == []


def test_a_host_without_libvirt_and_without_vms_has_none(host):
    assert units.find(host(1, "systemd"), []) == []
