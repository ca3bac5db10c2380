# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Systemd units: their names, their texts, and which other units turn swap on."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.swap import units as swap_units
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import (
    DIRECTORY,
    DROP_IN,
    OtherUnit,
    Systemd,
    UnitError,
    crypt_service,
    escape,
    install,
    is_installed,
    swap_unit,
    turned_on_by,
    uninstall,
    zram_service,
)


# What systemd-escape --path prints (systemd 252).
@pytest.mark.parametrize(
    ("path", "name"),
    [
        (
            "/dev/disk/by-uuid/73253038-e31d-455f-89ab-aa90b137d2a6",
            r"dev-disk-by\x2duuid-73253038\x2de31d\x2d455f\x2d89ab\x2daa90b137d2a6",
        ),
        ("/dev/zram0", "dev-zram0"),
        ("/swapfile", "swapfile"),
        ("//var//lib/.swap/a:b_c.d", "var-lib-.swap-a:b_c.d"),
        ("/.swap", r"\x2eswap"),
        ("/a@b\u00e4", r"a\x40b\xc3\xa4"),
        ("/", "-"),
    ],
)
def test_paths_are_escaped_as_systemd_does(path, name):
    assert escape(path) == name


def test_the_unit_of_a_disk():
    ((path, text),) = swap_unit("/dev/disk/by-uuid/1", 10, "once").items()
    assert path == f"{DIRECTORY}/dev-disk-by\\x2duuid-1.swap"
    lines = text.splitlines()
    for line in (
        "DefaultDependencies=no",
        "What=/dev/disk/by-uuid/1",
        "Priority=10",
        "Options=discard=once",
        r"WantedBy=dev-disk-by\x2duuid-1.device",
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("discard", "line"), [("none", None), ("once", "discard=once"), ("pages", "discard=pages"), ("both", "discard")]
)
def test_discard_mode_is_in_the_unit(discard, line):
    (text,) = swap_unit("/swap", 1, discard).values()
    options = [words for words in text.splitlines() if words.startswith("Options=")]
    assert options == ([f"Options={line}"] if line else [])


def test_a_file_waits_until_its_file_system_can_be_written():
    (text,) = swap_unit("/swap", 1, "none").values()
    assert {"After=systemd-remount-fs.service", "WantedBy=swap.target"} <= set(text.splitlines())


def test_zram_swap_waits_for_the_service_that_makes_it():
    (text,) = swap_unit("/dev/zram0", 1, "none", "memstretch-zram0.service").values()
    assert {"Requires=memstretch-zram0.service", "After=memstretch-zram0.service", "WantedBy=swap.target"} <= set(
        text.splitlines()
    )


def test_zram_is_set_up_by_a_service_that_leaves_one_in_use_alone():
    ((path, text),) = zram_service(3, 4096000, "lz4").items()
    assert path == f"{DIRECTORY}/memstretch-zram3.service"
    assert """ExecCondition=/bin/sh -c '! grep -q "^/dev/zram3 " /proc/swaps'""" in text
    assert "echo lz4 > /sys/block/zram3/comp_algorithm; echo 4096000 > /sys/block/zram3/disksize" in text
    # systemd would replace these itself.
    assert "$" not in text and "%" not in text


def test_a_key_is_made_only_if_there_is_no_mapping():
    ((path, text),) = crypt_service(
        "memstretch-ab", "ab-cd", ["/usr/sbin/cryptsetup", "open"], "/usr/sbin/wipefs", "/usr/sbin/mkswap"
    ).items()
    assert path == f"{DIRECTORY}/memstretch-ab.service"
    assert "ExecCondition=/bin/sh -c 'test ! -e /dev/mapper/memstretch-ab'" in text
    assert r"BindsTo=dev-disk-by\x2dpartuuid-ab\x2dcd.device" in text.splitlines()
    assert (
        text.index("wipefs --no-act")
        < text.index("cryptsetup open")
        < text.index("mkswap --label memstretch /dev/mapper/memstretch-ab")
    )


ANSWER = r"""What=/dev/zram0
Id=dev-zram0.swap
FragmentPath=
SourcePath=

What=/dev/disk/by-uuid/1
Id=dev-disk-by\x2duuid-1.swap
FragmentPath=/run/systemd/generator/dev-disk-by\x2duuid-1.swap
SourcePath=/etc/fstab

What=/ours
Id=ours.swap
FragmentPath=/etc/systemd/system/ours.swap
SourcePath=
"""


def test_units_of_others_are_those_with_a_file_that_is_not_ours():
    systemd = Systemd(lambda command, **_options: (0, ANSWER, ""))
    found = systemd.others(["/etc/systemd/system/ours.swap"])
    assert found == [OtherUnit(r"dev-disk-by\x2duuid-1.swap", "/dev/disk/by-uuid/1", "/etc/fstab")]
    assert found[0].drop_in == DIRECTORY + r"/dev-disk-by\x2duuid-1.swap.d/50-memstretch.conf"
    assert turned_on_by(found, "/dev/disk/by-uuid/1") == r"dev-disk-by\x2duuid-1.swap from /etc/fstab"
    assert turned_on_by(found, "/elsewhere") == ""


SERVICES = """Id=zramswap.service
UnitFileState=enabled

Id=zram-config.service
UnitFileState=

Id=dphys-swapfile.service
UnitFileState=disabled

Id=waagent.service
UnitFileState=enabled-runtime
"""


def test_services_that_turn_swap_on_by_themselves():
    systemd = Systemd(lambda command, **_options: (0, SERVICES if "zramswap.service" in command else "", ""))
    assert systemd.swap_services() == ["zramswap.service", "waagent.service"]


@pytest.mark.parametrize(("answer", "masked"), [("LoadState=masked\n", True), ("LoadState=loaded\n", False)])
def test_whether_a_unit_is_masked(answer, masked):
    assert Systemd(lambda command, **_options: (0, answer, "")).is_masked("swap.target") is masked


def test_systemctl_failure_is_an_error():
    with pytest.raises(UnitError, match="status 1: no bus"):
        Systemd(lambda command, **_options: (1, "", "no bus\n")).others([])


def test_files_are_installed_and_removed_without_a_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(swap_units, "DIRECTORY", str(tmp_path))
    unit, drop_in = str(tmp_path / "a.swap"), str(tmp_path / "b.swap.d" / "50-memstretch.conf")
    texts = {unit: f"{swap_units._COMMENT}WantedBy=a.device\n", drop_in: DROP_IN}
    for path, text in texts.items():
        assert not is_installed(path, text)
        install(path, text)
        assert is_installed(path, text)
        assert not is_installed(path, text + "other")
    link = tmp_path / "a.device.wants" / "a.swap"
    assert link.is_symlink()
    link.unlink()
    assert not is_installed(unit, texts[unit])  # systemd would not start it
    install(unit, texts[unit])
    install(unit, f"{swap_units._COMMENT}WantedBy=swap.target\n")
    assert not link.parent.exists()
    assert (tmp_path / "swap.target.wants" / "a.swap").is_symlink()
    for path in (unit, drop_in, unit):
        uninstall(path)
    assert not list(tmp_path.iterdir())


def test_the_setting_of_the_initramfs_leaves_its_directory(tmp_path, monkeypatch):
    path = tmp_path / "initramfs" / "zz-memstretch"
    monkeypatch.setattr(swap_units, "DIRECTORY", str(tmp_path))
    monkeypatch.setattr(swap_units, "RESUME_FILE", str(path))
    path.parent.mkdir()
    install(str(path), swap_units.RESUME_TEXT)
    assert is_installed(str(path), swap_units.RESUME_TEXT)
    # What mkinitramfs reads is shell code.
    shell = subprocess.run(["sh", "-ec", f". {path}; echo $RESUME"], capture_output=True, text=True, check=True)
    assert shell.stdout == "none\n"
    monkeypatch.setattr(swap_units, "DIRECTORY", str(tmp_path / "system"))
    (tmp_path / "system").mkdir()
    uninstall(str(path))
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["a.service", "b.swap.d/local.conf", "../a.swap", "a.wants/b.swap", "sshd.service.d/50-memstretch.conf"]
)
def test_a_path_that_is_no_unit_of_ours_is_neither_written_nor_removed(tmp_path, monkeypatch, name):
    """The record lists our units by path, and nobody must gain anything by changing it."""
    monkeypatch.setattr(swap_units, "DIRECTORY", str(tmp_path / "system"))
    path = tmp_path / "system" / name
    (tmp_path / "system").mkdir()
    path.parent.mkdir(exist_ok=True)
    path.write_text(DROP_IN, encoding="utf-8")
    for act in (lambda: install(str(path), DROP_IN), lambda: uninstall(str(path))):
        with pytest.raises(UnitError, match="is not the path of one of our units"):
            act()
    assert path.read_text(encoding="utf-8") == DROP_IN


def test_a_unit_of_the_administrator_at_our_path_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(swap_units, "DIRECTORY", str(tmp_path))
    path = tmp_path / "a.swap"
    path.write_text("[Swap]\n", encoding="utf-8")
    for act in (lambda: install(str(path), DROP_IN), lambda: uninstall(str(path))):
        with pytest.raises(UnitError, match="was not written by swap_space; it was not touched"):
            act()
    assert path.read_text(encoding="utf-8") == "[Swap]\n"
