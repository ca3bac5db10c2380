# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of a profile: names, values, persistence, and other files and services that set them."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import settings as host_settings
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import (
    Setting,
    canonical,
    knob_path,
    mistakes,
    other_writers,
    persistent_files,
    settings_of,
    sysctl_path,
)


@pytest.mark.parametrize(
    "text, value",
    [
        ("always [madvise] never\n", "madvise"),
        ("60\n", "60"),
        ("Y\n", "1"),
        ("N", "0"),
        ("false\n", "0"),
        ("0x0007\n", "7"),
        ("4096\t87380  6291456\n", "4096 87380 6291456"),
        ("[none] mq-deadline", "none"),
        ("lzo", "lzo"),
        ("", ""),
    ],
)
def test_equal_values_have_the_same_canonical_text(text, value):
    assert canonical(text) == value


@pytest.mark.parametrize(
    "name, path",
    [
        ("vm.swappiness", "vm/swappiness"),
        ("net/ipv4/conf/eth0.5/forwarding", "net/ipv4/conf/eth0.5/forwarding"),
        ("net.ipv4.conf.eth0/5.forwarding", "net/ipv4/conf/eth0.5/forwarding"),
    ],
)
def test_sysctl_names_are_read_as_sysctl_8_reads_them(name, path):
    assert sysctl_path(name) == path


def test_the_scheduler_is_written_before_the_queue_depth_that_it_resets():
    settings = settings_of(
        "block_queue", {"nr_requests": 64, "scheduler": "mq-deadline"}, ["/dev/disk/by-id/a", "/dev/disk/by-id/b"]
    )
    assert [setting.label for setting in settings] == ["a scheduler", "b scheduler", "a nr_requests", "b nr_requests"]


def test_a_disk_is_found_by_its_stable_path(tmp_path):
    (tmp_path / "nvme-x").symlink_to("/dev/loop7")
    link = str(tmp_path / "nvme-x")
    assert knob_path(f"/dev/..{link}/queue/nr_requests") == "/sys/block/loop7/queue/nr_requests"


@pytest.mark.parametrize(
    "sections, message",
    [
        ({"sysctl": {"swappiness": 1}}, "sysctl has 'swappiness'; each name must be the name of a sysctl"),
        ({"sysctl": {"vm.a": None}}, "sysctl, vm.a: the value is None"),
        ({"sysctl": {"vm.a": {"value": 1, "why": "x"}}}, "'why' is not a known key; allowed are value, reason, since"),
        ({"sysctl": {"vm.a": "1\n2"}}, "a string of one line"),
        ({"sysctl": {"vm.a": []}}, "the value is []"),
        ({"sysctl": {"vm.a": 1.5}}, "the value is 1.5"),
        ({"sysctl": [1]}, "it must be a dictionary"),
        ({"sysfs": {"/etc/passwd": 1}}, "each name must be a path below /sys"),
        ({"sysfs": {"/sys/../etc/passwd": 1}}, "each name must be a path below /sys"),
        ({"block_queue": {"../x": 1}}, "each name must be a file in a disk's queue directory"),
        ({"services_stopped": {"a b": True}}, "the name of a unit"),
        ({"services_stopped": {"ksm": {"reason": 3}}}, "reason is 3; it must be a string"),
        ({"cpu_governor": {"reason": "x"}}, "cpu_governor: the value is None"),
    ],
)
def test_a_mistake_is_reported(sections, message):
    assert message in "; ".join(mistakes(sections))


def test_valid_settings_have_no_mistakes():
    assert (
        mistakes(
            {
                "sysctl": {"vm.swappiness": 60, "kernel.numa_balancing": {"value": 0, "reason": "x", "since": "3.8"}},
                "sysfs": {
                    "/sys/kernel/mm/transparent_hugepage/hugepages-*/enabled": "never",
                    "/sys/module/zswap/parameters/compressor": ["a", "b"],
                },
                "block_queue": {"scheduler": "none"},
                "cpu_governor": "performance",
                "services_stopped": {"ksmtuned": True},
            }
        )
        == []
    )


def test_a_setting_of_things_that_do_not_exist_just_now_is_not_absent(tmp_path):
    """A kernel with DAMON has no directory of a DAMON thread until one is made."""
    pattern = f"{tmp_path}/kdamonds/*/state"

    def knobs_and_absent():
        setting = Setting("sysfs", pattern, ("off",))
        return setting.knobs(), setting.is_absent()

    assert knobs_and_absent() == ([], True), "the kernel has no DAMON"
    (tmp_path / "kdamonds").mkdir()
    (tmp_path / "kdamonds" / "nr_kdamonds").touch()
    assert knobs_and_absent() == ([], False), "it has, and no thread"
    (tmp_path / "kdamonds" / "0").mkdir()
    assert knobs_and_absent() == ([], True), "a thread without this knob"
    (tmp_path / "kdamonds" / "0" / "state").write_text("on\n", encoding="utf-8")
    assert knobs_and_absent() == ([f"{tmp_path}/kdamonds/0/state"], False)
    assert Setting("sysfs", f"{tmp_path}/none", ("1",)).is_absent()


def test_settings_are_persistent_by_files_of_the_system():
    settings = [
        Setting("sysctl", "vm.swappiness", ("100",)),
        Setting("sysfs", "/sys/a/b*", ("50%",)),
        Setting("cpu_governor", "cpu_governor", ("performance",)),
        Setting("block_queue", "scheduler", ("none",), disk="/dev/disk/by-id/nvme-A"),
    ]
    files = persistent_files(settings, lambda setting: setting.values[0])
    assert files[host_settings.SYSCTL_FILE].splitlines()[1:] == ["vm/swappiness = 100"]
    assert files[host_settings.TMPFILES_FILE].splitlines()[1:] == [
        "w /sys/a/b* - - - - 50%%",
        f"w {host_settings.GOVERNORS} - - - - performance",
    ]
    assert 'SYMLINK=="disk/by-id/nvme-A", ATTR{queue/scheduler}="none"' in files[host_settings.UDEV_FILE]
    assert persistent_files([], lambda setting: "") == {}


def test_other_files_and_services_that_set_a_knob_are_found(tmp_path):
    def write(path, text):
        full = tmp_path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text, encoding="utf-8")

    write("etc/sysctl.conf", "# vm.swappiness = 1\n")
    write("etc/sysctl.d/90-vendor.conf", "kernel.x = 1\n-vm/swappiness=10\n")
    (tmp_path / "etc/sysctl.d/99-link.conf").symlink_to("90-vendor.conf")
    write("etc/sysctl.d/zz-memstretch.conf", "vm/swappiness = 100\n")
    write("usr/lib/sysctl.d/50-x.conf", "vm.swappiness_not = 3\n")
    write(
        "usr/lib/udev/rules.d/60-x.rules",
        '# ATTR{queue/scheduler}="bfq"\nACTION=="add", ATTR{queue/scheduler}="bfq"\n'
        'ATTR{queue/scheduler}=="x", RUN+="y"\n',
    )
    write("usr/lib/tmpfiles.d/thp.conf", "w! /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n")
    write("etc/tuned/active_profile", "mine\n")
    write("etc/tuned/mine/tuned.conf", "[main]\ninclude=virtual-host\n")
    write(
        "usr/lib/tuned/virtual-host/tuned.conf",
        "[sysctl]\nvm.swappiness = 10\n[vm]\ntransparent_hugepages=never\n[cpu]\npm_qos_resume_latency_us=100\n",
    )
    files = HostFiles(str(tmp_path))
    assert other_writers(Setting("sysctl", "vm.swappiness", ("1",)), files) == [
        "/etc/sysctl.d/90-vendor.conf:2",
        "TuneD (/usr/lib/tuned/virtual-host/tuned.conf:2)",
    ]
    assert other_writers(Setting("block_queue", "scheduler", ("1",), disk="/dev/disk/by-id/a"), files) == [
        "/usr/lib/udev/rules.d/60-x.rules:2"
    ]
    assert other_writers(Setting("sysfs", "/sys/kernel/mm/transparent_hugepage/enabled", ("never",)), files) == [
        "/usr/lib/tmpfiles.d/thp.conf:1",
        "TuneD (/usr/lib/tuned/virtual-host/tuned.conf:4)",
    ]
    idle = Setting("sysfs", "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us", ("n/a",))
    assert other_writers(idle, files) == ["TuneD (/usr/lib/tuned/virtual-host/tuned.conf:6)"]
    assert other_writers(Setting("cpu_governor", "cpu_governor", ("x",)), files) == []


def test_our_sysctl_file_is_read_after_those_of_distributions_and_clouds():
    """As in systemd/systemd#20919 and sysrepo/sysrepo#2558: the names of the files decide, not their directories."""
    others = ["99-sysctl.conf", "99-zz-cloud.conf", "protect-links.conf", "sysrepo.conf", "zz-10.conf"]
    assert pathlib.Path(host_settings.SYSCTL_FILE).name > max(others)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        # As in debops/ansible-redis#22, ceph/ceph-ansible#181 and UnderGreen/ansible-role-mongodb#139.
        ("etc/sysfs.d/thp.conf", "# x\nkernel/mm/transparent_hugepage/enabled = never\n", 2),
        ("etc/sysfs.conf", "mode kernel/mm/transparent_hugepage/enabled = 0600\n", None),
        ("etc/rc.local", "#!/bin/sh\necho never > /sys/kernel/mm/transparent_hugepage/enabled\n", 2),
        ("etc/rc.local", "# echo never > /sys/kernel/mm/transparent_hugepage/enabled\n", None),
        (
            "etc/systemd/system/disable-thp.service",
            "[Service]\nExecStart=/bin/sh -c 'echo never | tee /sys/kernel/mm/transparent_hugepage/enabled'\n",
            2,
        ),
        (
            "etc/systemd/system/redis.service",
            "[Unit]\nConditionPathExists=/sys/kernel/mm/transparent_hugepage/enabled\n",
            None,
        ),
        ("etc/init.d/thp", "echo 0 > /sys/kernel/mm/transparent_hugepage/enabled_not\n", None),
    ],
)
def test_what_sets_huge_pages_at_boot_is_named(tmp_path, name, text, line):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    setting = Setting("sysfs", "/sys/kernel/mm/transparent_hugepage/enabled", ("always",))
    assert other_writers(setting, HostFiles(str(tmp_path))) == ([f"/{name}:{line}"] if line else [])


def test_a_governor_that_a_script_sets_is_named(tmp_path):
    (tmp_path / "etc").mkdir()
    text = "for cpu in 0 1; do\necho performance > /sys/devices/system/cpu/cpu$cpu/cpufreq/scaling_governor\ndone\n"
    (tmp_path / "etc" / "rc.local").write_text(text, encoding="ascii")
    setting = Setting("cpu_governor", "cpu_governor", ("powersave",))
    assert other_writers(setting, HostFiles(str(tmp_path))) == ["/etc/rc.local:2"]


@pytest.mark.parametrize(
    "include",
    ["include=virtual-host,-site", "include = -site;  virtual-host", "include=-site , virtual-host,-gone"],
)
def test_profiles_that_tuned_includes_are_followed(tmp_path, include):
    """As in a public report: a dash means that the profile may be missing."""
    texts = {
        "etc/tuned/active_profile": "kvm-density\n",
        "etc/tuned/profiles/kvm-density/tuned.conf": f"[main]\nsummary=x\n{include}\n[sysctl]\nvm.dirty_ratio=10\n",
        "usr/lib/tuned/profiles/kvm-density/tuned.conf": "[sysctl]\nvm.swappiness=1\n",  # hidden by the one in /etc
        "usr/lib/tuned/profiles/virtual-host/tuned.conf": "[main]\ninclude=throughput-performance\n",
        "usr/lib/tuned/profiles/site/tuned.conf": "[sysctl]\nvm.page-cluster=3\n",
        "usr/lib/tuned/profiles/throughput-performance/tuned.conf": "[cpu]\ngovernor=x\n[sysctl]\nvm.swappiness=10\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = {
        name: other_writers(Setting("sysctl", name, ("1",)), HostFiles(str(tmp_path)))
        for name in ("vm.page-cluster", "vm.swappiness", "vm.dirty_ratio")
    }
    assert found == {
        "vm.page-cluster": ["TuneD (/usr/lib/tuned/profiles/site/tuned.conf:2)"],
        "vm.swappiness": ["TuneD (/usr/lib/tuned/profiles/throughput-performance/tuned.conf:4)"],
        "vm.dirty_ratio": ["TuneD (/etc/tuned/profiles/kvm-density/tuned.conf:5)"],
    }


def test_knobs_of_this_host():
    assert Setting("sysctl", "vm.swappiness", ("1",)).knobs() == ["/proc/sys/vm/swappiness"]
    assert Setting("sysctl", "vm.there_is_none", ("1",)).knobs() == []
    assert Setting("sysfs", "/sys/kernel/mm/transparent_hugepage/ena*", ("1",)).knobs() == [
        "/sys/kernel/mm/transparent_hugepage/enabled"
    ]
    swappiness = pathlib.Path("/proc/sys/vm/swappiness").read_text(encoding="ascii").strip()
    assert host_settings.read_knob("/proc/sys/vm/swappiness") == swappiness
    assert host_settings.read_knob("/dev/disk/by-id/gone/queue/scheduler") is None


@pytest.mark.parametrize(
    ("value", "memory", "percent"),
    [
        ("{percent:430M}", 24 * 2**30, "2"),
        ("{percent:430M}", 2**30, "42"),
        ("{percent:1M}", 24 * 2**30, "1"),  # 0 would be no pool at all
        ("{percent:2T}", 24 * 2**30, "100"),
        ("40", 24 * 2**30, "40"),
    ],
)
def test_bytes_as_a_share_of_the_memory(value, memory, percent):
    assert host_settings.in_percent(value, memory) == percent


def test_a_share_of_the_memory_is_that_of_this_host():
    (setting,) = host_settings.settings_of("sysfs", {"/sys/x": {"value": "{percent:1M}"}})
    assert setting.values == ("1",), "this host has more than 200 MiB"


@pytest.mark.parametrize("value", ["{percent:}", "{percent:many}", "{percent:5%}", "{percent:430M} "])
def test_a_share_without_a_size_is_refused_before_anything_is_changed(value):
    (mistake,) = host_settings.mistakes({"sysfs": {"/sys/x": value}})
    assert mistake.startswith(f"sysfs, /sys/x: the value is {value!r}; it must be {{percent:SIZE}}")
    assert host_settings.mistakes({"sysfs": {"/sys/x": "{percent:430M}"}}) == []
