# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Brings a host to a profile's settings and back: the work of the module C(host_settings).

Everything follows from one rule: a knob is to have the value that the profile gives it, and if the profile is silent, its
recorded original. So the first run, a repeated one, one after a power cut, a change of profile and the restore are the same code.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, remove_file, write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.memory import gather
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.services import STOPPED, Services, in_words
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import (
    FILES,
    MARK,
    PAIRS,
    UDEV_FILE,
    Setting,
    SettingsError,
    other_writers,
    persistent_files,
    read_knob,
    restore_knob,
    settings_of,
    write_knob,
)

_SECTIONS = ("sysctl", "sysfs", "block_queue")
_NEW_RECORD: dict[str, t.Any] = {"profile": None, "originals": {}, "refused": {}, "services": {}, "recorded": None}


class HostTuner:
    """What is wanted, what is, and the way from one to the other.

    Args:
        params: the parameters of the module C(host_settings).
        record: where the originals are kept.
        run_command: the module's own.
    """

    def __init__(
        self, params: t.Mapping[str, t.Any], record: HostRecord, run_command: t.Callable[..., tuple[int, str, str]]
    ) -> None:
        self._restore = params["state"] == "restored"
        self._run_command, self._record, self._services = run_command, record, Services(run_command)
        self._profile = None if self._restore else params["profile"]
        self._settings = [] if self._restore else _settings(params)
        self._stop: dict[str, str] = (
            {}
            if self._restore
            else {
                name: entry.get("reason", "") if isinstance(entry, dict) else ""
                for name, entry in params["services_stopped"].items()
                if entry
            }
        )
        self._read_record()
        self._before = self._observe()
        carried = self._known["profile"]
        self._at_first = self._differences()
        if carried != self._profile:
            self._at_first.insert(0, f"the host carries {'profile ' + carried if carried else 'no profile'}")

    def _read_record(self) -> None:
        self._data = self._record.read()
        self._known: dict[str, t.Any] = {**_NEW_RECORD, **(self._data or {})}

    # --- what is wanted -----------------------------------------------------------------------------------------

    def _value(self, setting: Setting, knob: str) -> str:
        """Return the first value that the kernel has not refused."""
        refused = self._known["refused"].get(knob, [])
        return next((value for value in setting.values if value not in refused), setting.values[-1])

    def _wanted_knobs(self) -> dict[str, str]:
        """Return the value of each knob that the profile sets; the later of two settings of one knob counts."""
        return {knob: self._value(setting, knob) for setting in self._settings for knob in setting.knobs()}

    def _forgotten_knobs(self) -> list[str]:
        """Return the knobs that an earlier profile set and this one does not."""
        wanted = self._wanted_knobs()
        return [knob for knob in self._known["originals"] if knob not in wanted and PAIRS.get(knob) not in wanted]

    def _wanted_services(self) -> dict[str, dict[str, bool]]:
        forgotten = {name: state for name, state in self._known["services"].items() if name not in self._stop}
        return {**forgotten, **{name: STOPPED for name in self._stop if self._services.state(name) is not None}}

    def _wanted_files(self) -> dict[str, str | None]:
        """Return the text of each of our files, None for one that must not be there."""
        lasting = [setting for setting in self._settings if setting.knobs()] if self._services.systemd else []
        texts = persistent_files(lasting, lambda setting: self._value(setting, setting.knobs()[0]))
        return {path: texts.get(path) for path in FILES}

    # --- what is ------------------------------------------------------------------------------------------------

    def _observe(self) -> dict[str, str | None]:
        """Return the value of everything that this run or an earlier one is about, by knob, service and file."""
        wanted = self._wanted_knobs()
        knobs = dict.fromkeys([*self._known["originals"], *wanted, *(PAIRS[knob] for knob in wanted if knob in PAIRS)])
        state: dict[str, str | None] = {knob: read_knob(knob) for knob in knobs}
        state.update(
            {
                f"service {name}": in_words(self._services.state(name))
                for name in {**self._known["services"], **self._stop}
            }
        )
        state.update({path: _our_text(path) for path in FILES})
        return state

    def _foresee(self) -> dict[str, str | None]:
        """Return the same as it will be."""
        state = dict(self._before)
        state.update(
            {knob: self._known["originals"][knob] for knob in self._forgotten_knobs() if state[knob] is not None}
        )
        state.update({PAIRS[knob]: "0" for knob in self._wanted_knobs() if knob in PAIRS})
        state.update(self._wanted_knobs())
        state.update({f"service {name}": in_words(wanted) for name, wanted in self._wanted_services().items()})
        state.update(self._wanted_files())
        return state

    def changes(self) -> bool:
        """Return whether anything has to be done."""
        if self._foresee() != self._before:
            return True
        return (
            self._data is not None if self._restore else self._data is None or self._known["profile"] != self._profile
        )

    # --- the way ------------------------------------------------------------------------------------------------

    def carry_out(self) -> None:
        """Reach what is wanted. Raises SettingsError, naming all that failed, when the rest is done."""
        with self._record.locked():
            self._read_record()
            if not self._restore:
                self._record_originals()
            problems = self._restore_knobs() + self._write_knobs() + self._reach_services()
            self._write_files()
            problems += self._differences()
            if problems:
                raise SettingsError(
                    "; ".join(problems)
                    + ". The rest is done and nothing is lost: the same task again goes on from here, and "
                    "state=restored puts everything back."
                )
            self._forget()

    def _record_originals(self) -> None:
        if self._known["recorded"] is None:
            self._known["recorded"] = gather(self._run_command)
        knobs = [partner for knob in self._wanted_knobs() for partner in (knob, PAIRS.get(knob)) if partner]
        originals = {knob: value for knob in knobs if (value := read_knob(knob)) is not None}
        self._known["originals"] = {**originals, **self._known["originals"]}
        services = {name: state for name in self._stop if (state := self._services.state(name)) is not None}
        self._known["services"] = {**services, **self._known["services"]}
        self._known["profile"] = self._profile
        self._save()

    def _save(self) -> None:
        self._data = dict(self._known)
        self._record.write(self._known)

    def _restore_knobs(self) -> list[str]:
        originals = self._known["originals"]
        return _problems(
            restore_knob,
            [(knob, originals) for knob in self._forgotten_knobs() if read_knob(knob) not in (None, originals[knob])],
        )

    def _write_knobs(self) -> list[str]:
        problems = []
        for setting in self._settings:
            for knob in setting.knobs():
                while read_knob(knob) != self._value(setting, knob):
                    value = self._value(setting, knob)
                    failed = _problems(write_knob, [(knob, value)])
                    if not failed:
                        break
                    if value == setting.values[-1]:
                        problems += failed
                        break
                    self._known["refused"].setdefault(knob, []).append(value)
                    self._save()
        return problems

    def _reach_services(self) -> list[str]:
        return _problems(self._services.reach, list(self._wanted_services().items()))

    def _write_files(self) -> None:
        for path, text in self._wanted_files().items():
            if _our_text(path) == text:
                continue
            if text is None:
                remove_file(path)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_file(path, text)
            if path == UDEV_FILE:
                self._services.reload_udev()

    def _differences(self) -> list[str]:
        """Return what is not as it should be, for people."""
        present, found = self._observe(), []
        for name, value in self._foresee().items():
            if present.get(name) != value and name in FILES:
                found.append(f"{name} is {'missing' if present.get(name) is None else 'not what this profile writes'}")
            elif present.get(name) != value and present.get(name) is not None:
                found.append(f"{name} is {present[name]} and not {value}{self._blame(name)}")
        return found

    def _blame(self, knob: str) -> str:
        setting = next((setting for setting in self._settings if knob in setting.knobs()), None)
        others = other_writers(setting, HostFiles()) if setting else []
        return f" (it is also set by {', '.join(others)})" if others else ""

    def _forget(self) -> None:
        """Drop the originals that are in force again."""
        if self._restore:
            self._record.remove()
            self._data, self._known["profile"] = None, None
            return
        for knob in self._forgotten_knobs():
            if read_knob(knob) is not None:  # a disk that was taken out may come back
                del self._known["originals"][knob]
        self._known["services"] = {name: state for name, state in self._known["services"].items() if name in self._stop}
        self._save()

    # --- what is told -------------------------------------------------------------------------------------------

    def state_text(self) -> str:
        """Return what is, for people to compare."""
        return _text(self._observe())

    def foreseen_text(self) -> str:
        """Return what will be."""
        return _text(self._foresee())

    def report(self) -> dict[str, t.Any]:
        """Return the module's result, but for the difference."""
        files = HostFiles()
        knobs = [self._tell(setting, files) for setting in self._settings]
        services = [self._tell_service(name, reason) for name, reason in self._stop.items()]
        return {
            "settings": knobs + services,
            "differences": self._at_first,
            "persistent": self._services.systemd,
            "profile": self._known["profile"],
            "recorded": self._known["recorded"],
        }

    def _tell(self, setting: Setting, files: HostFiles) -> dict[str, t.Any]:
        knobs = setting.knobs()

        def values(source: t.Callable[[str], str | None]) -> str | None:
            return ", ".join(sorted({value for knob in knobs if (value := source(knob)) is not None})) or None

        return {
            "section": setting.section,
            "name": setting.label,
            "path": setting.pattern if knobs else None,
            "wanted": self._value(setting, knobs[0]) if knobs else setting.values[0],
            "before": values(self._before.get),
            "effective": values(read_knob),
            "original": values(self._known["originals"].get),
            "absent": not knobs,
            "since": setting.since,
            "reason": setting.reason,
            "also_set_by": other_writers(setting, files),
        }

    def _tell_service(self, name: str, reason: str) -> dict[str, t.Any]:
        state = self._services.state(name)
        original = self._known["services"].get(name)
        return {
            "section": "services_stopped",
            "name": name,
            "path": None,
            "wanted": in_words(STOPPED),
            "before": self._before[f"service {name}"],
            "effective": in_words(state),
            "original": in_words(original) if original else None,
            "absent": state is None,
            "since": "",
            "reason": reason,
            "also_set_by": [],
        }


def _settings(params: t.Mapping[str, t.Any]) -> list[Setting]:
    settings = [
        setting for section in _SECTIONS for setting in settings_of(section, params[section], params["block_devices"])
    ]
    return settings + (
        settings_of("cpu_governor", {"cpu_governor": params["cpu_governor"]}) if params["cpu_governor"] else []
    )


def _our_text(path: str) -> str | None:
    """Return the text of a file of ours, None if it is not there. Raises SettingsError for somebody else's file of that name."""
    text = HostFiles().raw(path)
    if text is None:
        return None
    if not text.decode("utf-8", "replace").startswith(MARK):
        raise SettingsError(
            f"{path} is there and was not written by this collection: move it away, it would be overwritten"
        )
    return text.decode("utf-8")


def _problems(action: t.Callable[..., None], calls: t.Iterable[tuple]) -> list[str]:
    """Do all of them, and return what failed."""
    problems = []
    for arguments in calls:
        try:
            action(*arguments)
        except SettingsError as error:
            problems.append(str(error))
    return problems


def _text(state: t.Mapping[str, str | None]) -> str:
    lines = [f"{name} = {value}" for name, value in state.items() if name not in FILES]
    for path in FILES:
        lines += [f"{path}: {line}" for line in (state[path] or "").splitlines()]
    return "\n".join(sorted(lines)) + "\n"
