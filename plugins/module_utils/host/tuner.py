# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the settings of a profile to a host and restore the originals: the work of the module C(host_settings).

One rule covers everything: a knob gets the value that the profile gives it, or its recorded original if the profile
does not mention it. So the same code does a first run, a repeated run, a run after a power cut, a change of profile and
a restore.

An original that cannot be restored, because a package or a kernel has changed since, does not stop the others: it stays
in the record, is named in each run, and is tried again, until the user forgets it.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.commands import RunCommand
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, remove_file, write_file
from ansible_collections.memstretch.density.plugins.module_utils.host.memory import gather
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.services import STOPPED, Services, describe
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import (
    FILES,
    MARK,
    PAIRS,
    UDEV_FILE,
    Setting,
    SettingsError,
    knob_path,
    other_writers,
    persistent_files,
    read_knob,
    restore_knob,
    settings_of,
    write_knob,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.temporary import TemporarySettings

_NO_KNOB = "this kernel or host no longer has it"
_NO_UNIT = "this host no longer has its unit"
_SECTIONS = ("sysctl", "sysfs", "block_queue")
_NEW_RECORD: dict[str, t.Any] = {
    "profile": None,
    "applied_for": "",  # what the profile belongs to, such as one run of the demo; empty for a user's own
    "kernel": None,  # the release that has refused values
    "originals": {},
    "refused": {},
    "services": {},
    "triggers": {},  # the services that each of these sockets, timers and paths would start again
    "recorded": None,
    "kept": {},  # the originals that could not be restored, by the name of the entry, with the reason
}


class HostTuner:
    """Compares the wanted settings of a host with the present ones, and applies them.

    Args:
        params: the parameters of the module C(host_settings).
        record: the record of the original settings.
        run_command: AnsibleModule.run_command.
        services: the services of the host.
    """

    def __init__(
        self,
        params: t.Mapping[str, t.Any],
        record: HostRecord,
        run_command: RunCommand,
        services: Services | None = None,
    ) -> None:
        self._restore = params["state"] == "restored"
        self._forget = set(params["forget"])
        self._run_command, self._record, self._services = run_command, record, services or Services(run_command)
        self._profile = None if self._restore else params["profile"]
        self._applied_for = params.get("applied_for", "")
        self._settings = [] if self._restore else _settings(params)
        data = record.read()
        self._has_record = data is not None
        self._stored: dict[str, t.Any] = {**_NEW_RECORD, **(data or {})}
        stopped: dict[str, str] = (
            {}
            if self._restore
            else {
                name: entry.get("reason", "") if isinstance(entry, dict) else ""
                for name, entry in params["services_stopped"].items()
                if entry
            }
        )
        self._triggers = self._find_triggers(stopped)
        # What would start a service again is stopped before it, and started again before it.
        reasons = {trigger: f"It would start {name} again." for trigger, name in self._triggers.items()}
        self._stopped = {**reasons, **stopped}
        if (self._stored["profile"], self._stored["kernel"]) != (self._profile, os.uname().release):
            self._stored["refused"] = {}  # another kernel may accept more
        self._stored["originals"] = _by_wanted_names(self._stored["originals"], self._wanted_knobs())
        self._before = self._read_state()
        present = self._stored["profile"]
        self._initial_differences = self._differences()
        if present != self._profile:
            applied = f"profile {present}" if present else "no profile"
            self._initial_differences.insert(0, f"{applied} is applied to this host")

    # --- wanted settings ----------------------------------------------------------------------------------------

    def _find_triggers(self, stopped: t.Iterable[str]) -> dict[str, str]:
        """Return what would start the services again, with the service.

        systemd forgets what starts a service when that is stopped and nothing else refers to it. So the record counts,
        too.
        """
        found = {trigger: name for name in stopped for trigger in self._services.triggers(name)}
        recorded = {trigger: name for trigger, name in self._stored["triggers"].items() if name in stopped}
        return {trigger: name for trigger, name in {**recorded, **found}.items() if trigger not in stopped}

    def _value(self, setting: Setting, knob: str) -> str:
        """Return the first value that the kernel has not refused."""
        refused = self._stored["refused"].get(knob, [])
        return next((value for value in setting.values if value not in refused), setting.values[-1])

    def _wanted_knobs(self) -> dict[str, str]:
        """Return the value of each knob that the profile sets; of two settings of one knob, the later one counts."""
        return {knob: self._value(setting, knob) for setting in self._settings for knob in setting.knobs()}

    def _dropped_knobs(self) -> list[str]:
        """Return the knobs that an earlier profile set and this profile does not set."""
        wanted = self._wanted_knobs()
        return [knob for knob in self._stored["originals"] if knob not in wanted and PAIRS.get(knob) not in wanted]

    def _dropped_services(self) -> dict[str, dict[str, bool]]:
        """Return the original state of each service that only an earlier profile stopped."""
        return {name: state for name, state in self._stored["services"].items() if name not in self._stopped}

    def _wanted_services(self) -> dict[str, dict[str, bool]]:
        """Return the state of each service that this host has: stopped, or the original."""
        wanted = {**self._dropped_services(), **dict.fromkeys(self._stopped, STOPPED)}
        return {name: state for name, state in wanted.items() if self._services.state(name) is not None}

    def kept(self) -> dict[str, str]:
        """Return the entries of the record that cannot be restored, as far as is known, with the reasons."""
        dropped = [*self._dropped_knobs(), *map(_service_entry, self._dropped_services())]
        found = {entry: reason for entry, reason in self._stored["kept"].items() if entry in dropped}
        found.update({knob: _NO_KNOB for knob in self._dropped_knobs() if read_knob(knob) is None})
        found.update(
            {_service_entry(name): _NO_UNIT for name in self._dropped_services() if self._services.state(name) is None}
        )
        return found

    def _keeps(self, knob: str) -> bool:
        """Check whether the original of a knob stays in the record: the two knobs of a pair stay together."""
        return knob in self._stored["kept"] or PAIRS.get(knob) in self._stored["kept"]

    def _wanted_files(self) -> dict[str, str | None]:
        """Return the content of each of our files, None for a file that must not exist."""
        lasting = [setting for setting in self._settings if setting.knobs()] if self._services.systemd else []
        texts = persistent_files(lasting, lambda setting: self._value(setting, setting.knobs()[0]))
        return {path: texts.get(path) for path in FILES}

    # --- present and predicted state ----------------------------------------------------------------------------

    def _read_state(self) -> dict[str, str | None]:
        """Return the present value of each knob, service and file that this run or an earlier run changes."""
        wanted = self._wanted_knobs()
        knobs = dict.fromkeys([*self._stored["originals"], *wanted, *(PAIRS[knob] for knob in wanted if knob in PAIRS)])
        state: dict[str, str | None] = {knob: read_knob(knob) for knob in knobs}
        state.update(
            {
                _service_entry(name): describe(self._services.state(name))
                for name in {**self._stored["services"], **self._stopped}
            }
        )
        state.update({path: _read_own_file(path) for path in FILES})
        return state

    def _predict(self) -> dict[str, str | None]:
        """Return the same as C(_read_state), as it will be after the change."""
        state = dict(self._before)
        state.update(
            {knob: self._stored["originals"][knob] for knob in self._dropped_knobs() if state[knob] is not None}
        )
        state.update({PAIRS[knob]: "0" for knob in self._wanted_knobs() if knob in PAIRS})
        state.update(self._wanted_knobs())
        state.update({_service_entry(name): describe(wanted) for name, wanted in self._wanted_services().items()})
        state.update(self._wanted_files())
        state.update({entry: self._before[entry] for entry in self.kept()})
        return state

    def change_needed(self) -> bool:
        """Check whether the host or its record has to change."""
        if self._predict() != self._before:
            return True
        if self._restore:
            return self._has_record and (self._stored["profile"] is not None or not self._has_only_kept())
        wanted = (self._profile, self._applied_for)
        return not self._has_record or (self._stored["profile"], self._stored["applied_for"]) != wanted

    def _has_only_kept(self) -> bool:
        """Check whether the record has nothing but entries that could not be restored and are not forgotten."""
        kept = self._stored["kept"]
        return (
            all(self._keeps(knob) for knob in self._stored["originals"])
            and all(_service_entry(name) in kept for name in self._stored["services"])
            and not self._forget & set(kept)
        )

    # --- the change ---------------------------------------------------------------------------------------------

    def apply(self) -> None:
        """Apply the wanted settings. Raises SettingsError, after all of them, with those that failed.

        The caller holds the lock of the record since before it constructed this object.
        """
        if not self._restore:
            self._record_originals()
        failed = self._restore_dropped()
        problems = self._write_knobs() + self._stop_services()
        self._write_files()
        self._stored["kept"] = self._not_restored(failed)
        problems += self._differences()
        if problems:
            raise SettingsError(
                "; ".join(problems)
                + ". All other settings are in force, and no original value is lost: run the same task again to "
                "continue, or use state=restored to restore everything."
            )
        self._drop_originals()

    def _record_originals(self) -> None:
        if self._stored["recorded"] is None:
            self._stored["recorded"] = gather(self._run_command)
        knobs = [partner for knob in self._wanted_knobs() for partner in (knob, PAIRS.get(knob)) if partner]
        originals = {knob: value for knob in knobs if (value := read_knob(knob)) is not None}
        self._stored["originals"] = {**originals, **self._stored["originals"]}
        services = {name: state for name in self._stopped if (state := self._services.state(name)) is not None}
        self._stored["services"] = {**services, **self._stored["services"]}
        self._stored["triggers"] = self._triggers
        self._stored["profile"], self._stored["kernel"] = self._profile, os.uname().release
        self._stored["applied_for"] = self._applied_for
        self._save()

    def _save(self) -> None:
        self._has_record = True
        self._record.write(self._stored)

    def _restore_dropped(self) -> dict[str, str]:
        """Restore what the profile no longer mentions; return, by entry, the errors."""
        originals, failed = self._stored["originals"], {}
        for knob in self._dropped_knobs():
            if read_knob(knob) not in (None, originals[knob]):
                failed[knob] = "; ".join(_failures(restore_knob, [(knob, originals)]))
        for name, state in self._dropped_services().items():
            if self._services.state(name) is not None:
                failed[_service_entry(name)] = "; ".join(_failures(self._services.set_state, [(name, state)]))
        return failed

    def _not_restored(self, failed: t.Mapping[str, str]) -> dict[str, str]:
        """Return, by entry, why an original is not in force."""
        found = {}
        for knob in self._dropped_knobs():
            value, original = read_knob(knob), self._stored["originals"][knob]
            if value != original:
                found[knob] = _NO_KNOB if value is None else failed.get(knob) or f"it is {value}, not {original}"
        for name, state in self._dropped_services().items():
            value, original, entry = describe(self._services.state(name)), describe(state), _service_entry(name)
            if value != original:
                found[entry] = _NO_UNIT if value == "absent" else failed.get(entry) or f"it is {value}, not {original}"
        return found

    def _write_knobs(self) -> list[str]:
        problems = []
        for setting in self._settings:
            for knob in setting.knobs():
                while read_knob(knob) != self._value(setting, knob):
                    value = self._value(setting, knob)
                    failed = _failures(write_knob, [(knob, value)])
                    if not failed:
                        break
                    if value == setting.values[-1]:
                        problems += failed
                        break
                    self._stored["refused"].setdefault(knob, []).append(value)
                    self._save()
        return problems

    def _stop_services(self) -> list[str]:
        names = [name for name in self._wanted_services() if name in self._stopped]
        return _failures(self._services.set_state, [(name, STOPPED) for name in names])

    def _write_files(self) -> None:
        for path, text in self._wanted_files().items():
            if _read_own_file(path) == text:
                continue
            if text is None:
                remove_file(path)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_file(path, text)
            if path == UDEV_FILE:
                self._services.reload_udev()

    def _differences(self) -> list[str]:
        """Return the differences between the present and the wanted settings, as messages."""
        present, found = self._read_state(), []
        for name, value in self._predict().items():
            if name in self._stored["kept"]:
                continue
            if present.get(name) != value and name in FILES:
                found.append(f"{name} is {'missing' if present.get(name) is None else 'not what this profile writes'}")
            elif present.get(name) != value and present.get(name) is not None:
                found.append(f"{name} is {present[name]} and not {value}{self._note_on_others(name)}")
        return found

    def _note_on_others(self, knob: str) -> str:
        """Return the other files and services that set a knob, as the end of a message."""
        setting = next((setting for setting in self._settings if knob in setting.knobs()), None)
        others = other_writers(setting, HostFiles()) if setting else []
        return f" (it is also set by {', '.join(others)})" if others else ""

    def _drop_originals(self) -> None:
        """Remove the originals that are restored, or forgotten, from the record."""
        self._stored["kept"] = {
            entry: reason for entry, reason in self._stored["kept"].items() if entry not in self._forget
        }
        dropped = set(self._dropped_knobs())
        originals = {
            knob: value for knob, value in self._stored["originals"].items() if knob not in dropped or self._keeps(knob)
        }
        services = {
            name: state
            for name, state in self._stored["services"].items()
            if name in self._stopped or _service_entry(name) in self._stored["kept"]
        }
        if self._restore:
            self._stored = {**_NEW_RECORD, "kept": self._stored["kept"]}
        self._stored.update({"originals": originals, "services": services})
        if self._restore and not originals and not services:
            self._record.remove()
            self._has_record = False
        else:
            self._save()

    # --- the result ---------------------------------------------------------------------------------------------

    def state_text(self, others: t.Mapping[str, str | None]) -> str:
        """Return the present state as text for a diff, together with other knobs."""
        return self._text(self._read_state(), others)

    def predicted_text(self, others: t.Mapping[str, str | None]) -> str:
        """Return the state after the change as text for a diff, together with other knobs."""
        return self._text(self._predict(), others)

    @staticmethod
    def _text(state: t.Mapping[str, str | None], others: t.Mapping[str, str | None]) -> str:
        files = {knob_path(knob) for knob in state}  # a disk's knob may have another name among the others
        return _state_as_text({**state, **{knob: others[knob] for knob in others if knob_path(knob) not in files}})

    def report(self) -> dict[str, t.Any]:
        """Return the result of the module, without the diff."""
        files = HostFiles()
        knobs = [self._knob_entry(setting, files) for setting in self._settings]
        services = [self._service_entry(name, reason) for name, reason in self._stopped.items()]
        return {
            "settings": knobs + services,
            "differences": self._initial_differences,
            "persistent": self._services.systemd,
            "profile": self._stored["profile"],
            "recorded": self._stored["recorded"],
            "kept": [self._kept_entry(entry, reason) for entry, reason in self.kept().items()],
        }

    def _kept_entry(self, entry: str, reason: str) -> dict[str, str]:
        knobs = self._stored["originals"]
        services = {_service_entry(name): describe(state) for name, state in self._stored["services"].items()}
        return {"entry": entry, "original": knobs.get(entry) or services[entry], "reason": reason}

    def _knob_entry(self, setting: Setting, files: HostFiles) -> dict[str, t.Any]:
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
            "original": values(self._stored["originals"].get),
            "absent": setting.is_absent(),
            "since": setting.since,
            "reason": setting.reason,
            "also_set_by": other_writers(setting, files),
        }

    def _service_entry(self, name: str, reason: str) -> dict[str, t.Any]:
        state = self._services.state(name)
        original = self._stored["services"].get(name)
        return {
            "section": "services_stopped",
            "name": name,
            "path": None,
            "wanted": describe(STOPPED),
            "before": self._before[_service_entry(name)],
            "effective": describe(state),
            "original": describe(original) if original else None,
            "absent": state is None,
            "since": "",
            "reason": reason,
            "also_set_by": [],
        }


def converge(find_tuner: t.Callable[[], HostTuner], record: HostRecord, check_mode: bool) -> dict[str, t.Any]:
    """Change the host if needed, and return the result of the module.

    What a killed experiment has left is undone first: its values must not be recorded as originals, and must not come
    back after a restore.

    Args:
        find_tuner: returns the change that the host needs now.
    """
    experiment = TemporarySettings(record.directory)
    tuner, left = find_tuner(), experiment.originals()
    changed, before = bool(left) or tuner.change_needed(), tuner.state_text(_present(left))
    if (changed or tuner.kept()) and not check_mode:
        with record.locked():
            # Another run may have changed the host while we waited.
            tuner, left = find_tuner(), experiment.originals()
            before, kept = tuner.state_text(_present(left)), tuner.kept()
            if ended := experiment.end():
                tuner = find_tuner()
            changed = ended or tuner.change_needed()
            if changed or kept:  # what could not be restored is tried again
                tuner.apply()
                changed = changed or tuner.state_text(_present(left)) != before or tuner.kept().keys() != kept.keys()
    after = tuner.predicted_text(left) if check_mode else tuner.state_text(_present(left))
    return {"changed": changed, "diff": {"before": before, "after": after}, **tuner.report()}


def _present(knobs: t.Iterable[str]) -> dict[str, str | None]:
    return {knob: read_knob(knob) for knob in knobs}


def _settings(params: t.Mapping[str, t.Any]) -> list[Setting]:
    settings = [
        setting for section in _SECTIONS for setting in settings_of(section, params[section], params["block_devices"])
    ]
    return settings + (
        settings_of("cpu_governor", {"cpu_governor": params["cpu_governor"]}) if params["cpu_governor"] else []
    )


def _by_wanted_names(originals: t.Mapping[str, str], wanted: t.Iterable[str]) -> dict[str, str]:
    """Return the originals under the names that their knobs have now, because a disk has several stable paths.

    If a knob has two originals, the one that was recorded first counts.
    """
    names = {knob_path(knob): knob for knob in wanted}
    found: dict[str, str] = {}
    for knob, value in originals.items():
        found.setdefault(names.get(knob_path(knob), knob), value)
    return found


def _service_entry(name: str) -> str:
    """Return the name of a service in the state, in messages and in the record's list of what could not be restored."""
    return f"service {name}"


def _read_own_file(path: str) -> str | None:
    """Return the text of one of our files, None if it does not exist. Raises SettingsError if it is not ours."""
    text = HostFiles().raw(path)
    if text is None:
        return None
    if not text.decode("utf-8", "replace").startswith(MARK):
        raise SettingsError(
            f"{path} exists and was not written by this collection; move it away, because it would be overwritten"
        )
    return text.decode("utf-8")


def _failures(action: t.Callable[..., None], calls: t.Iterable[tuple]) -> list[str]:
    """Call the action with each of the arguments, and return the messages of the calls that failed."""
    problems = []
    for arguments in calls:
        try:
            action(*arguments)
        except SettingsError as error:
            problems.append(str(error))
    return problems


def _state_as_text(state: t.Mapping[str, str | None]) -> str:
    lines = [f"{name} = {value}" for name, value in state.items() if name not in FILES]
    for path in FILES:
        lines += [f"{path}: {line}" for line in (state[path] or "").splitlines()]
    return "\n".join(sorted(lines)) + "\n"
