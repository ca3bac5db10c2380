# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which steps a host needs, in which order. tests/local/swap does them on real areas."""

from __future__ import annotations

import uuid

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import header
from ansible_collections.memstretch.density.plugins.module_utils.swap.steps import EMPTY, SwapChange

MIB = 1024 * 1024
ZRAM = {"/sys/class/zram-control/hot_add": "", "/sys/block/zram0/comp_algorithm": "[lz4]\n"}
GONE = "/dev/disk/by-id/memstretch-test-gone"


@pytest.fixture
def record(tmp_path):
    return HostRecord("swap_space", str(tmp_path / "record"))


@pytest.fixture
def make_change(tmp_path, make_guard, make_options, record):
    """A function that returns the change of a host with these areas in use, each as name: (label, MiB used)."""

    def make(areas=(), restore=False, available_mib=1000, **params):
        lines = ["Filename\tType\tSize\tUsed\tPriority"]
        for priority, (name, (label, used)) in enumerate(dict(areas).items(), 1):
            (tmp_path / name).write_bytes(header(MIB, uuid.uuid4(), label))
            lines.append(f"{tmp_path}/{name} file 1020 {used * 1024} {priority}")
        meminfo = f"MemTotal: 9999999 kB\nMemAvailable: {available_mib * 1024} kB\n"
        guard = make_guard({"/proc/swaps": "\n".join(lines) + "\n", "/proc/meminfo": meminfo})
        return SwapChange(make_options(**params), guard, record, None, restore)

    return make


def texts(change):
    return [step.text for step in change.steps]


def test_nothing_to_do(make_change, record):
    change = make_change({"other": ("other", 0)})
    assert (texts(change), change.refusals, change.warnings) == ([], [], [])
    assert record.read() is None


def test_foreign_swap_is_recorded_before_it_is_turned_off(make_change, tmp_path):
    change = make_change({"other": ("other", 5), "more": ("", 0)}, others="off")
    assert texts(change) == [
        "record the swap that is not ours",
        f"turn off {tmp_path}/other (1020 KiB, 5 MiB used, priority 1), which is not ours",
        f"turn off {tmp_path}/more (1020 KiB, 0 B used, priority 2), which is not ours",
    ]
    assert [area.name for area in change.leaving] == [f"{tmp_path}/other", f"{tmp_path}/more"]
    assert change.warnings == [
        "this swap does not survive a reboot: this host does not run systemd, or persistence is never"
    ]
    assert change.listing_before().count("not ours") == 2
    assert change.listing_predicted() == ""


def test_a_change_without_head_room_is_refused(make_change):
    areas = {"other": ("other", 300), "more": ("other", 300)}
    assert make_change(areas, others="off", reserve="399M").refusals == []
    (refusal,) = make_change(areas, others="off", reserve="400M").refusals
    assert refusal.startswith("600 MiB are swapped out to ")


def test_areas_with_our_label_but_without_a_record_are_turned_off_only(make_change, tmp_path):
    change = make_change({"ours": ("memstretch", 0), "other": ("other", 0)})
    assert texts(change) == [f"turn off {tmp_path}/ours (1020 KiB, 0 B used, priority 1)"]
    assert change.warnings == [
        f"turned off, but not erased, because no record on this host shows that we made them: {tmp_path}/ours"
    ]


def test_restored_without_a_record_changes_nothing(make_change, tmp_path):
    change = make_change({"ours": ("memstretch", 0)}, restore=True)
    assert texts(change) == []
    assert change.warnings == [
        f"swap with our label is in use ({tmp_path}/ours), but no record on this host shows that we made it: "
        "it stays on"
    ]


def test_restored_undoes_everything_in_the_record_in_a_safe_order(make_change, record, tmp_path):
    record.write(
        {
            **EMPTY,
            "disks": {GONE: "ext4"},
            "files": {f"{tmp_path}/ours": []},
            "units": ["/etc/systemd/system/a.swap", "/etc/systemd/system/b.swap"],
            "others": [
                {"source": "/low", "names": [], "priority": -3, "unit": ""},
                {"source": "/high", "names": [], "priority": -2, "unit": ""},
                {"source": f"{tmp_path}/used", "names": [], "priority": 5, "unit": ""},
            ],
        }
    )
    change = make_change({"ours": ("memstretch", 0), "used": ("other", 0)}, restore=True)
    assert texts(change) == [
        "remove our 2 files for the boot",
        "turn on /high again with its priority -2",
        "turn on /low again with its priority -3",
        "remove the swap that is not ours from the record",
        f"make {GONE} blank again",
        f"turn off {tmp_path}/ours (1020 KiB, 0 B used, priority 1)",
        f"remove the swap file {tmp_path}/ours",
        f"remove the record {record.path}",
    ]


class SystemdModel:
    """A systemd without swap units of others, whose swap.target may be masked, with services that turn swap on."""

    def __init__(self, masked=False, services=()):
        self.masked, self.services = masked, list(services)

    def swap_services(self):
        return self.services

    def is_masked(self, unit):
        return self.masked and unit == "swap.target"

    def others(self, _ours):
        return []


@pytest.mark.parametrize(
    ("params", "masked", "kept_off"),
    [
        ({"kind": "file", "file": "/swap", "file_size": "16M"}, True, True),
        ({"kind": "file", "file": "/swap", "file_size": "16M"}, False, False),
        ({"kind": "zram"}, True, True),
        ({"kind": "none"}, True, False),  # nothing would be started
    ],
)
def test_a_masked_target_keeps_the_swap_off_at_boot(make_guard, make_options, record, params, masked, kept_off):
    """As in kubernetes-sigs/kubespray#10587: a host that was a node of Kubernetes may have it masked."""
    guard = make_guard({"/proc/swaps": "", "/proc/meminfo": "MemAvailable: 9999999 kB\n", **ZRAM})
    change = SwapChange(make_options(**params), guard, record, SystemdModel(masked))
    text = "this swap does not survive a reboot, because swap.target is masked"
    assert [warning.startswith(text) for warning in change.warnings] == [True] * kept_off
    assert bool(change.kept_off_at_boot) is kept_off
    assert SwapChange(make_options(), guard, record, SystemdModel(masked), True).warnings == []


@pytest.mark.parametrize(
    ("kind", "files", "written"),
    [
        ("devices", {}, True),
        ("devices", {"/etc/initramfs-tools/conf.d/zz-memstretch": "RESUME=none\n"}, True),  # our own
        ("devices", {"/etc/initramfs-tools/conf.d/resume": "RESUME=UUID=1\n"}, False),
        ("devices", {"/proc/cmdline": "root=/dev/sda1 resume=/dev/sda2\n"}, False),
        ("file", {}, False),
    ],
)
def test_the_initramfs_does_not_wait_for_our_area(make_guard, make_options, record, kind, files, written):
    """As in mpalourdio/xps13#110: Debian's initramfs looks for a hibernated system in the largest swap device."""
    proc = {"/proc/swaps": "", "/proc/meminfo": "MemAvailable: 9999999 kB\n"}
    guard = make_guard({"/etc/initramfs-tools/conf.d/.keep": "", **proc, **files})
    change = SwapChange(make_options(), guard, record, SystemdModel())
    change.options = change.options._replace(kind=kind)
    path = "/etc/initramfs-tools/conf.d/zz-memstretch"
    assert ("RESUME=none" in change._wanted_units().get(path, "")) is written


@pytest.mark.parametrize(
    ("services", "warning"),
    [
        ([], "whatever does may turn it on again at boot"),
        (
            ["zramswap.service"],
            "zramswap.service may turn it on again at boot. To keep it off, disable zramswap.service",
        ),
    ],
)
def test_a_service_that_may_turn_swap_on_again_is_named(make_guard, make_options, record, services, warning):
    """As in ayufan-rock64/linux-build#241: zram-tools and others need no swap unit."""
    swaps = "Filename\tType\tSize\tUsed\tPriority\n/dev/zram4095 partition 1020 0 100\n"
    guard = make_guard({"/proc/swaps": swaps, "/proc/meminfo": "MemAvailable: 9999999 kB\n"})
    change = SwapChange(make_options(others="off"), guard, record, SystemdModel(services=services))
    assert change.warnings == [f"no swap unit turns on /dev/zram4095; {warning}"]


def test_what_cannot_be_restored_is_a_warning_and_the_record_is_removed(make_change, record, tmp_path):
    (tmp_path / "file").write_bytes(b"somebody's data")
    (tmp_path / "file").chmod(0o600)
    record.write(
        {
            **EMPTY,
            "disks": {GONE: "ext4"},
            "files": {f"{tmp_path}/file": []},
            "others": [{"source": f"{tmp_path}/other", "names": [], "priority": 5, "unit": ""}],
        }
    )
    change = make_change(restore=True)
    change.run()
    assert [text.partition(" (")[0] for text in change.warnings] == [
        f"{tmp_path}/other was swap before our first run and no longer is: it stays off",
        f"left alone and not erased: {GONE} cannot be found",
        f"{tmp_path}/file was left alone, because it is no longer our swap file: it has no swap area with our mark",
    ]
    assert record.read() is None
    assert (tmp_path / "file").read_bytes() == b"somebody's data"


def test_foreign_swap_whose_uuid_has_changed_is_found_by_another_name(make_change, record, tmp_path):
    """Swap with a random key is made again at each boot."""
    mapped = tmp_path / "mapped"
    mapped.write_bytes(header(MIB, uuid.uuid4(), "other"))
    other = {"source": "/dev/disk/by-uuid/gone", "names": [str(mapped)], "priority": 5, "unit": ""}
    record.write({**EMPTY, "others": [other]})
    change, commands = make_change(restore=True), []
    change.guard.run_command = lambda command, **_options: commands.append(command) or (0, "", "")
    change.run()
    assert (commands, change.warnings) == ([["swapon", "--priority", "5", str(mapped)]], [])
    assert record.read() is None


def test_foreign_swap_that_is_on_again_under_another_name_stays_as_it_is(make_change, record, tmp_path):
    other = {"source": "/dev/disk/by-uuid/gone", "names": [f"{tmp_path}/used"], "priority": 5, "unit": ""}
    record.write({**EMPTY, "others": [other]})
    change = make_change({"used": ("other", 0)}, restore=True)
    assert texts(change)[0] == "remove the swap that is not ours from the record"
