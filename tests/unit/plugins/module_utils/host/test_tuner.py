# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles applied, changed and restored, on knobs that are files of a temporary directory.

Such a file accepts every value; the tests that need a refusal add it.
"""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.host import settings as host_settings
from ansible_collections.memstretch.density.plugins.module_utils.host import tuner as host_tuner
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.services import Services
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import SettingsError
from ansible_collections.memstretch.density.plugins.module_utils.host.temporary import TemporarySettings
from ansible_collections.memstretch.density.plugins.module_utils.host.tuner import HostTuner, converge
from ansible_collections.memstretch.density.tests.unit.fixtures.systemctl import Systemctl
from ansible_collections.memstretch.density.tests.unit.fixtures.two_runs import change_while_waiting

PARAMS = {
    "state": "applied",
    "profile": "p",
    "sysctl": {},
    "sysfs": {},
    "cpu_governor": "",
    "block_queue": {},
    "block_devices": [],
    "services_stopped": {},
    "forget": [],
}


class Host:
    """A host with its knobs in a directory, and our files in a directory below it."""

    def __init__(self, path, monkeypatch):
        self.path = path
        self.record = HostRecord("host_settings", str(path / "state"))
        self.files = {name: str(path / "etc" / name) for name in ("sysctl", "tmpfiles", "udev")}
        for name, value in {"SYSCTL_FILE": "sysctl", "TMPFILES_FILE": "tmpfiles", "UDEV_FILE": "udev"}.items():
            monkeypatch.setattr(host_settings, name, self.files[value])
        monkeypatch.setattr(host_settings, "FILES", tuple(self.files.values()))
        monkeypatch.setattr(host_tuner, "FILES", tuple(self.files.values()))
        monkeypatch.setattr(host_tuner, "UDEV_FILE", self.files["udev"])
        self.systemd, self.applied_for = True, ""
        self.systemctl = Systemctl(tuned=("loaded", "active", "enabled"))

    def knob(self, name, value):
        (self.path / name).write_text(value, encoding="utf-8")
        return str(self.path / name)

    def run(self, command, **_options):
        """Run systemctl as a model, and nothing else: a test must not reload udev on the machine it runs on."""
        return self.systemctl(command) if command[0] == "systemctl" else (0, "", "")

    def tuner(self, profile="p", state="applied", stopped=(), forget=(), **sysfs):
        params = {
            **PARAMS,
            "state": state,
            "profile": profile,
            "services_stopped": dict.fromkeys(stopped, True),
            "forget": forget,
            "sysfs": {str(self.path / name): value for name, value in sysfs.items()},
        }
        params["applied_for"] = self.applied_for
        return HostTuner(params, self.record, self.run, Services(self.run, systemd=self.systemd))

    def apply(self, *args, **kwargs):
        """Do what the module does; return whether it changes anything."""
        return self.converge(*args, **kwargs)["changed"]

    def converge(self, *args, check_mode=False, **kwargs):
        """Do what the module does; return its result."""
        return converge(lambda: self.tuner(*args, **kwargs), self.record, check_mode)

    def change_without_lock(self, *args, **kwargs):
        """Change the host as a run does that holds the lock."""
        self.tuner(*args, **kwargs).apply()

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


def test_a_profile_is_applied_twice_and_restored(host):
    assert host.apply(a=5, b="never", gone=3)
    assert host.values == {"a": "5", "b": "never", "c": "N"}
    assert not host.apply(a=5, b="never", gone=3), "a second run changes nothing"
    report = host.tuner(a=5, b="never", gone=3).report()
    assert [(each["effective"], each["original"], each["absent"]) for each in report["settings"]] == [
        ("5", "1", False),
        ("never", "madvise", False),
        (None, None, True),
    ]
    assert report["differences"] == [] and report["persistent"] and report["profile"] == "p"
    assert host.apply(state="restored")
    assert host.values == {"a": "1", "b": "madvise", "c": "N"}
    assert not os.path.exists(host.record.directory) and os.listdir(host.path / "etc") == []
    assert not host.apply(state="restored")


def test_what_would_start_a_stopped_service_again_is_stopped_and_restored_with_it(host):
    """As in ComplianceAsCode/content#3025: systemd-oomd has a socket, and other services have timers."""
    units = {"oomd": ("loaded", "active", "enabled"), "oomd.socket": ("loaded", "active", "enabled")}
    host.systemctl = Systemctl(**units)
    host.systemctl.triggers["oomd"] = ["oomd.socket"]

    assert host.apply("one", stopped=["oomd"])
    assert host.systemctl.commands == ["disable oomd.socket", "stop oomd.socket", "disable oomd", "stop oomd"]
    assert not host.apply("one", stopped=["oomd"]), "a second run changes nothing"
    entries = [
        (each["name"], each["effective"], each["reason"])
        for each in host.tuner("one", stopped=["oomd"]).report()["settings"]
    ]
    assert entries == [("oomd.socket", "stopped", "It would start oomd again."), ("oomd", "stopped", "")]

    host.systemctl.units["oomd.socket"] = ("loaded", "active", "disabled")
    assert host.apply("one", stopped=["oomd"]), "somebody has started it"
    assert host.systemctl.units["oomd.socket"][1:] == ("inactive", "disabled")

    host.systemctl.commands.clear()
    assert host.apply("two", a=5)
    assert host.systemctl.commands == ["enable oomd.socket", "start oomd.socket", "enable oomd", "start oomd"]
    assert host.systemctl.units == units and host.record.read()["triggers"] == {}
    host.apply(state="restored")
    assert host.systemctl.units == units


def test_a_change_of_profile_equals_a_restore_and_the_new_profile(host):
    host.apply("one", a=5, b="never")
    one_after_the_other = host.apply("two", a=7, c=True) and host.values
    record = host.record.read()
    host.apply(state="restored")
    host.apply("two", a=7, c=True)
    assert host.values == one_after_the_other == {"a": "7", "b": "madvise", "c": "1"}
    again = host.record.read()
    assert {key: record[key] for key in ("profile", "originals")} == {
        key: again[key] for key in ("profile", "originals")
    }


def test_the_record_says_what_its_profile_belongs_to_and_a_user_takes_it_over(host):
    """A mark that an earlier demo left must not lead to the restore of a profile that a user has applied since."""
    host.applied_for = "demo 1"
    assert host.apply(a=5) and host.record.read()["applied_for"] == "demo 1"
    assert not host.apply(a=5)
    host.applied_for = ""
    assert host.apply(a=5), "the same settings, but now they are the user's"
    assert host.record.read()["applied_for"] == ""


def test_an_original_is_never_overwritten(host):
    host.apply(a=5)
    host.apply(a=6)
    host.knob("a", "9\n")
    host.apply(a=6)
    assert host.record.read()["originals"] == {str(host.path / "a"): "1"}


def test_an_original_follows_its_knob_to_another_name(host, monkeypatch):
    """A disk has several stable paths, and the inventory may use another one than before."""
    by_serial, by_wwn = str(host.path / "serial"), str(host.path / "wwn")
    disk = host.knob("disk", "mq-deadline\n")
    path = {by_serial: disk, by_wwn: disk}
    monkeypatch.setattr(host_tuner, "knob_path", lambda knob: path.get(knob, knob))
    for name in ("serial", "wwn"):
        os.symlink(disk, host.path / name)
    assert host.apply(serial="none") and host.apply(wwn="none") is True
    assert host.record.read()["originals"] == {by_wwn: "mq-deadline"}
    assert not host.apply(wwn="none")
    host.apply(state="restored")
    assert host.values["disk"] == "mq-deadline" and not os.path.exists(host.record.directory)


def test_check_mode_predicts_and_changes_nothing(host):
    before = host.values
    tuner = host.tuner(a=5, b="never")
    assert tuner.change_needed()
    predicted = tuner.predicted_text({})
    assert host.converge(a=5, b="never", check_mode=True)["diff"]["after"] == predicted
    assert host.values == before and not os.path.exists(host.record.directory) and not os.path.exists(host.path / "etc")
    host.apply(a=5, b="never")
    assert host.tuner(a=5, b="never").state_text({}) == predicted


@pytest.mark.parametrize("fatal", ["write_knob", "write_file"])
def test_an_interrupted_run_is_finished_or_restored_by_the_next_run(host, monkeypatch, fatal):
    real, calls = getattr(host_tuner, fatal), []

    def interrupt(*args):
        calls.append(args)
        if len(calls) == 2 or fatal == "write_file":
            raise KeyboardInterrupt
        real(*args)

    for state, expected in (
        ("applied", {"a": "5", "b": "never", "c": "N"}),
        ("restored", {"a": "1", "b": "madvise", "c": "N"}),
    ):
        monkeypatch.setattr(host_tuner, fatal, interrupt)
        with pytest.raises(KeyboardInterrupt):
            host.apply(a=5, b="never")
        monkeypatch.setattr(host_tuner, fatal, real)
        assert host.record.read()["originals"] == {str(host.path / "a"): "1", str(host.path / "b"): "madvise"}
        assert host.apply(state=state, **({"a": 5, "b": "never"} if state == "applied" else {}))
        assert host.values == expected
        host.apply(state="restored")
        calls.clear()


def test_a_refused_value_is_reported_and_the_other_settings_are_applied(host, monkeypatch):
    real = host_tuner.write_knob

    def picky(knob, value):
        if value == "13":
            raise SettingsError(f"the kernel refuses '13' for {knob}: Invalid argument")
        real(knob, value)

    monkeypatch.setattr(host_tuner, "write_knob", picky)
    with pytest.raises(
        SettingsError, match=r"refuses '13' for .*a: Invalid argument; .* is 1 and not 13.*state=restored"
    ):
        host.apply(a=13, b="never")
    assert host.values["b"] == "never"
    assert host.apply(a=[13, 7], b="never"), "the next value is taken"
    assert host.values["a"] == "7" and not host.apply(a=[13, 7], b="never")
    assert host.apply(state="restored") and host.values["a"] == "1"


def test_the_knob_of_a_pair_that_was_in_force_is_restored(host, monkeypatch):
    """The other knob reads as 0, and the kernel refuses to set 0."""
    ratio, size = host.knob("ratio", "20\n"), host.knob("bytes", "0\n")
    monkeypatch.setattr(host_settings, "PAIRS", {ratio: size, size: ratio})
    monkeypatch.setattr(host_tuner, "PAIRS", {ratio: size, size: ratio})
    real = host_settings.write_knob

    def write_as_the_kernel_does(knob, value):
        if value == "0":
            raise SettingsError("Invalid argument")
        real(knob, value)
        real({ratio: size, size: ratio}[knob], "0")

    monkeypatch.setattr(host_settings, "write_knob", write_as_the_kernel_does)
    monkeypatch.setattr(host_tuner, "write_knob", write_as_the_kernel_does)
    host.apply(bytes=15000000)
    assert (host.values["bytes"], host.values["ratio"]) == ("15000000", "0")
    assert not host.apply(bytes=15000000)
    host.apply(state="restored")
    assert (host.values["bytes"], host.values["ratio"]) == ("0", "20")


def test_changes_by_others_are_reported(host):
    host.apply("mine", a=5)
    host.knob("a", "9\n")
    os.unlink(host.files["tmpfiles"])
    assert host.tuner("mine", a=5).report()["differences"] == [
        f"{host.path}/a is 9 and not 5",
        f"{host.files['tmpfiles']} is missing",
    ]
    assert host.tuner("other", a=9).report()["differences"][0] == "profile mine is applied to this host"


def test_a_file_of_others_is_not_overwritten(host):
    os.makedirs(host.path / "etc")
    with open(host.files["sysctl"], "w", encoding="utf-8") as file:
        file.write("vm.swappiness = 1\n")
    with pytest.raises(SettingsError, match="was not written by this collection"):
        host.tuner(a=5)


def test_without_systemd_the_settings_are_not_persistent(host):
    host.systemd = False
    host.apply(a=5)
    assert not host.tuner(a=5).report()["persistent"] and not os.path.exists(host.path / "etc")


def test_the_memory_record_from_before_the_first_change_is_kept(host):
    host.apply(a=5)
    recorded = host.record.read()["recorded"]
    host.apply("other", a=6)
    assert host.record.read()["recorded"] == recorded
    assert json.dumps(recorded["sysctl"]) and recorded["kernel"]["release"] == os.uname().release


def test_a_run_that_waited_for_another_profile_starts_from_that_profile(host):
    result = change_while_waiting(
        host.record, lambda: host.converge("one", a=5), lambda: host.change_without_lock("two", b="never")
    )
    assert isinstance(result, dict), repr(result)
    assert result["changed"] and result["profile"] == "one"
    assert result["differences"][0] == "profile two is applied to this host"
    assert host.values == {"a": "5", "b": "madvise", "c": "N"}
    assert host.record.read()["originals"] == {str(host.path / "a"): "1"}


def test_a_run_that_waited_for_a_restore_records_the_originals_again(host):
    host.apply("one", a=5)
    result = change_while_waiting(
        host.record,
        lambda: host.converge("one", a=6),
        lambda: host.change_without_lock(state="restored"),
    )
    assert isinstance(result, dict), repr(result)
    assert host.values["a"] == "6" and host.record.read()["originals"] == {str(host.path / "a"): "1"}


def entries(result):
    return {kept["entry"]: (kept["original"], kept["reason"]) for kept in result["kept"]}


def test_what_cannot_be_restored_stays_in_the_record_and_the_rest_is_restored(host, monkeypatch):
    """A package was purged, and a newer kernel refuses one knob and lacks another one."""
    host.knob("d", "4\n")
    host.apply(a=5, b="never", c=True, d=8, stopped=["tuned"])
    del host.systemctl.units["tuned"]
    os.unlink(host.path / "d")
    real = host_settings.write_knob

    def refuse(knob, value):
        if knob.endswith("/a"):
            raise SettingsError(f"the kernel refuses {value!r} for {knob}: Invalid argument")
        real(knob, value)

    monkeypatch.setattr(host_settings, "write_knob", refuse)
    a, d = f"{host.path}/a", f"{host.path}/d"
    expected = {
        a: ("1", f"the kernel refuses '1' for {a}: Invalid argument"),
        d: ("4", "this kernel or host no longer has it"),
        "service tuned": ("running and enabled", "this host no longer has its unit"),
    }

    predicted = host.converge(state="restored", check_mode=True)
    assert entries(predicted).keys() == {d, "service tuned"}
    result = host.converge(state="restored")

    assert result["changed"] and result["profile"] is None and entries(result) == expected
    assert host.values == {"a": "5", "b": "madvise", "c": "0"} and os.listdir(host.path / "etc") == []
    record = host.record.read()
    assert record["originals"] == {a: "1", d: "4"} and list(record["services"]) == ["tuned"]

    again = host.converge(state="restored")
    assert not again["changed"] and entries(again) == expected, "a second run changes nothing, and names them again"
    check = host.converge(state="restored", check_mode=True)
    assert not check["changed"] and entries(check) == expected

    host.apply("other", b="always")
    assert host.record.read()["originals"] == {a: "1", d: "4", f"{host.path}/b": "madvise"}
    assert not host.apply("other", b="always")
    host.apply(state="restored")

    predicted = host.converge(state="restored", forget=["service tuned", "service unknown"], check_mode=True)
    assert predicted["changed"] and entries(predicted) == expected
    result = host.converge(state="restored", forget=["service tuned", "service unknown"])
    assert result["changed"] and entries(result).keys() == {a, d}
    assert not host.converge(state="restored", forget=["service tuned"])["changed"]

    host.knob("d", "8\n")
    assert entries(host.converge(state="restored")).keys() == {a}, "the knob that is back is restored"
    assert host.values["d"] == "4"
    assert host.converge(state="restored", forget=[a])["kept"] == []
    assert host.record.read() is None and not os.path.exists(host.record.directory)


def test_forget_restores_what_can_be_restored(host):
    host.apply(a=5, stopped=["tuned"])
    result = host.converge(state="restored", forget=[f"{host.path}/a", "service tuned"])
    assert result["changed"] and result["kept"] == []
    assert host.values["a"] == "1" and host.systemctl.units["tuned"] == ("loaded", "active", "enabled")


def test_a_service_that_does_not_start_does_not_stop_the_restore(host):
    host.apply(a=5, stopped=["tuned"])
    host.systemctl.broken = "start"
    result = host.converge(state="restored")
    assert entries(result) == {
        "service tuned": ("running and enabled", "systemctl start tuned.service ended with status 1: broken")
    }
    assert host.values["a"] == "1"
    host.systemctl.broken = None
    assert host.apply(state="restored") and host.record.read() is None
    assert host.systemctl.units["tuned"] == ("loaded", "active", "enabled")


def test_a_profile_can_replace_one_whose_service_is_gone(host):
    host.apply("one", a=5, stopped=["tuned"])
    del host.systemctl.units["tuned"]
    result = host.converge("two", b="never")
    assert result["changed"] and entries(result).keys() == {"service tuned"}
    result = host.converge("two", b="never")
    assert not result["changed"] and result["differences"] == []
    assert host.tuner("two", b="never").report()["differences"] == []


class TestKilledExperiment:
    """An experiment that was killed has left its own values in a and c, and its record."""

    @staticmethod
    def leave(host):
        experiment = TemporarySettings(host.record.directory)
        names = {name: str(host.path / name) for name in ("a", "c")}
        experiment.begin({knob: host_settings.read_knob(knob) for knob in names.values()})
        host.knob("a", "77\n")
        host.knob("c", "1\n")
        return experiment

    @pytest.mark.parametrize("tuning_is_restored_first", [True, False])
    def test_on_a_tuned_host_both_orders_restore_the_originals(self, host, tuning_is_restored_first):
        before = host.values
        host.apply(a=5)
        experiment = self.leave(host)
        if tuning_is_restored_first:
            assert host.apply(state="restored")
            assert not experiment.end()
        else:
            assert experiment.end() and host.values["a"] == "5"
            assert host.apply(state="restored")
        assert host.values == {**before, "b": host.values["b"], "c": "0"}
        assert host_settings.read_knob(str(host.path / "b")) == "madvise"
        assert not os.path.exists(host.record.directory)

    def test_what_it_left_is_not_recorded_as_an_original(self, host):
        experiment = self.leave(host)
        assert host.apply(a=5)
        assert host.record.read()["originals"] == {str(host.path / "a"): "1"}
        assert host.values["c"] == "0" and not experiment.end()
        assert host.apply(state="restored") and host.values["a"] == "1"

    def test_a_restore_without_a_profile_ends_it(self, host):
        self.leave(host)
        assert host.apply(state="restored")
        assert (host.values["a"], host.values["c"]) == ("1", "0")
        assert not os.path.exists(host.record.directory)
        assert not host.apply(state="restored")

    def test_check_mode_predicts_it_and_changes_nothing(self, host):
        experiment = self.leave(host)
        left = host.values
        predicted = host.converge(a=5, check_mode=True)
        assert predicted["changed"] and host.values == left and experiment.originals()
        applied = host.converge(a=5)
        assert predicted["diff"] == applied["diff"]
        assert f"{host.path}/c = 1" in applied["diff"]["before"] and f"{host.path}/c = 0" in applied["diff"]["after"]
