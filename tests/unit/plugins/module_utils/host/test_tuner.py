# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from one profile to another and back. Files of the test stand for knobs; they behave alike but for what a kernel refuses."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import (
    services as host_services,
)
from ansible_collections.memstretch.density.plugins.module_utils.host import (
    settings as host_settings,
)
from ansible_collections.memstretch.density.plugins.module_utils.host import (
    tuner as host_tuner,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.plugins.module_utils.host.tuner import HostTuner

PARAMS = {
    "state": "applied",
    "profile": "p",
    "sysctl": {},
    "sysfs": {},
    "cpu_governor": "",
    "block_queue": {},
    "block_devices": [],
    "services_stopped": {},
}


def _without_looking(host):
    def prepare(services, run_command):
        services.systemd, services._run_command = host.systemd, run_command

    return prepare


class Host:
    """Knobs in a directory, and our files in another one."""

    def __init__(self, path, monkeypatch):
        self.path = path
        self.record = HostRecord("host_settings", str(path / "state"))
        self.files = {name: str(path / "etc" / name) for name in ("sysctl", "tmpfiles", "udev")}
        for name, value in {"SYSCTL_FILE": "sysctl", "TMPFILES_FILE": "tmpfiles", "UDEV_FILE": "udev"}.items():
            monkeypatch.setattr(host_settings, name, self.files[value])
        monkeypatch.setattr(host_settings, "FILES", tuple(self.files.values()))
        monkeypatch.setattr(host_tuner, "FILES", tuple(self.files.values()))
        monkeypatch.setattr(host_tuner, "UDEV_FILE", self.files["udev"])
        self.systemd = True
        # Only whether systemd runs: this test must not start or stop a unit of the machine it runs on.
        monkeypatch.setattr(host_services.Services, "__init__", _without_looking(self))

    def knob(self, name, value):
        (self.path / name).write_text(value, encoding="utf-8")
        return str(self.path / name)

    def tuner(self, profile="p", state="applied", **sysfs):
        params = {
            **PARAMS,
            "state": state,
            "profile": profile,
            "sysfs": {str(self.path / name): value for name, value in sysfs.items()},
        }
        return HostTuner(params, self.record, lambda *args, **kwargs: (0, "", ""))

    def play(self, *args, **kwargs):
        tuner = self.tuner(*args, **kwargs)
        changed = tuner.changes()
        if changed:
            tuner.carry_out()
        return changed

    @property
    def values(self):
        return {file.name: file.read_text(encoding="utf-8").strip() for file in self.path.iterdir() if file.is_file()}


@pytest.fixture
def host(tmp_path, monkeypatch):
    host = Host(tmp_path, monkeypatch)
    host.knob("a", "1\n")
    host.knob("b", "always [madvise] never\n")
    host.knob("c", "N\n")
    return host


def test_applied_twice_and_restored(host):
    assert host.play(a=5, b="never", gone=3)
    assert host.values == {"a": "5", "b": "never", "c": "N"}
    assert not host.play(a=5, b="never", gone=3), "a second run changes nothing"
    report = host.tuner(a=5, b="never", gone=3).report()
    assert [(each["effective"], each["original"], each["absent"]) for each in report["settings"]] == [
        ("5", "1", False),
        ("never", "madvise", False),
        (None, None, True),
    ]
    assert report["differences"] == [] and report["persistent"] and report["profile"] == "p"
    assert host.play(state="restored")
    assert host.values == {"a": "1", "b": "madvise", "c": "N"}
    assert not os.path.exists(host.record.directory) and os.listdir(host.path / "etc") == []
    assert not host.play(state="restored")


def test_a_change_of_profile_equals_restoring_and_applying(host):
    host.play("one", a=5, b="never")
    one_after_other = host.play("two", a=7, c=True) and host.values
    record = host.record.read()
    host.play(state="restored")
    host.play("two", a=7, c=True)
    assert host.values == one_after_other == {"a": "7", "b": "madvise", "c": "1"}
    again = host.record.read()
    assert {key: record[key] for key in ("profile", "originals")} == {
        key: again[key] for key in ("profile", "originals")
    }


def test_an_original_is_never_overwritten(host):
    host.play(a=5)
    host.play(a=6)
    host.knob("a", "9\n")
    host.play(a=6)
    assert host.record.read()["originals"] == {str(host.path / "a"): "1"}


def test_check_mode_foresees_and_touches_nothing(host):
    before = host.values
    tuner = host.tuner(a=5, b="never")
    assert tuner.changes()
    foreseen = tuner.foreseen_text()
    assert host.values == before and not os.path.exists(host.record.directory) and not os.path.exists(host.path / "etc")
    host.play(a=5, b="never")
    assert host.tuner(a=5, b="never").state_text() == foreseen


@pytest.mark.parametrize("fatal", ["write_knob", "write_file"])
def test_a_cut_anywhere_is_finished_or_undone_by_the_next_run(host, monkeypatch, fatal):
    real, calls = getattr(host_tuner, fatal), []

    def cut(*args):
        calls.append(args)
        if len(calls) == 2 or fatal == "write_file":
            raise KeyboardInterrupt
        real(*args)

    for state, expected in (
        ("applied", {"a": "5", "b": "never", "c": "N"}),
        ("restored", {"a": "1", "b": "madvise", "c": "N"}),
    ):
        monkeypatch.setattr(host_tuner, fatal, cut)
        with pytest.raises(KeyboardInterrupt):
            host.play(a=5, b="never")
        monkeypatch.setattr(host_tuner, fatal, real)
        assert host.record.read()["originals"] == {str(host.path / "a"): "1", str(host.path / "b"): "madvise"}
        assert host.play(state=state, **({"a": 5, "b": "never"} if state == "applied" else {}))
        assert host.values == expected
        host.play(state="restored")
        calls.clear()


def test_what_the_kernel_refuses_is_named_and_the_rest_is_done(host, monkeypatch):
    real = host_tuner.write_knob

    def picky(knob, value):
        if value == "13":
            raise SettingsError(f"the kernel refuses '13' for {knob}: Invalid argument")
        real(knob, value)

    monkeypatch.setattr(host_tuner, "write_knob", picky)
    with pytest.raises(
        SettingsError, match=r"refuses '13' for .*a: Invalid argument; .* is 1 and not 13.*state=restored"
    ):
        host.play(a=13, b="never")
    assert host.values["b"] == "never"
    assert host.play(a=[13, 7], b="never"), "the next value is taken"
    assert host.values["a"] == "7" and not host.play(a=[13, 7], b="never")
    assert host.play(state="restored") and host.values["a"] == "1"


def test_of_a_pair_the_one_in_force_is_restored(host, monkeypatch):
    """The kernel shows 0 for the other one and refuses to be told 0."""
    ratio, size = host.knob("ratio", "20\n"), host.knob("bytes", "0\n")
    monkeypatch.setattr(host_settings, "PAIRS", {ratio: size, size: ratio})
    monkeypatch.setattr(host_tuner, "PAIRS", {ratio: size, size: ratio})
    real = host_settings.write_knob

    def as_the_kernel(knob, value):
        if value == "0":
            raise SettingsError("Invalid argument")
        real(knob, value)
        real({ratio: size, size: ratio}[knob], "0")

    monkeypatch.setattr(host_settings, "write_knob", as_the_kernel)
    monkeypatch.setattr(host_tuner, "write_knob", as_the_kernel)
    host.play(bytes=15000000)
    assert (host.values["bytes"], host.values["ratio"]) == ("15000000", "0")
    assert not host.play(bytes=15000000)
    host.play(state="restored")
    assert (host.values["bytes"], host.values["ratio"]) == ("0", "20")


def test_what_somebody_else_changed_is_found(host):
    host.play("mine", a=5)
    host.knob("a", "9\n")
    os.unlink(host.files["tmpfiles"])
    assert host.tuner("mine", a=5).report()["differences"] == [
        f"{host.path}/a is 9 and not 5",
        f"{host.files['tmpfiles']} is missing",
    ]
    assert host.tuner("other", a=9).report()["differences"][0] == "the host carries profile mine"


def test_a_file_of_somebody_else_is_not_overwritten(host):
    os.makedirs(host.path / "etc")
    with open(host.files["sysctl"], "w", encoding="utf-8") as file:
        file.write("vm.swappiness = 1\n")
    with pytest.raises(SettingsError, match="was not written by this collection"):
        host.tuner(a=5)


def test_without_systemd_nothing_lasts_and_it_says_so(host):
    host.systemd = False
    host.play(a=5)
    assert not host.tuner(a=5).report()["persistent"] and not os.path.exists(host.path / "etc")


def test_what_was_before_is_recorded_once(host):
    host.play(a=5)
    recorded = host.record.read()["recorded"]
    host.play("other", a=6)
    assert host.record.read()["recorded"] == recorded
    assert json.dumps(recorded["sysctl"]) and recorded["kernel"]["release"] == os.uname().release
