# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps that change the swap of a host to what the options ask for, or to what it was before our first run.

A change only looks at the host when it is constructed: it collects refusals, warnings, and the steps in their order.
The steps are done only if there is no refusal. Each step checks again what it needs and does nothing if it has been
done already, so another run of the same task finishes an interrupted one.

The record (module_utils/host/record.py) lists what we have taken, not what the host should be: C(disks), by path, with
what was on them; C(areas), by path of the disk, with the UUIDs of its swap areas and partitions; C(files), by path,
with the UUIDs of their swap areas; C(zram), which devices existed before and whether the kernel module was loaded;
C(units), our files for the boot; C(others), the swap that we have turned off, with its priority; and C(discard),
the mode in which each area was turned on, which the kernel does not show.
"""

from __future__ import annotations

import contextlib
import os
import typing as t
from functools import cached_property, partial

from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import (
    Area,
    SwapError,
    areas,
    head_room,
    run,
    too_many,
    turn_off,
    turn_on,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.device import GuardError, device_number, find
from ansible_collections.memstretch.density.plugins.module_utils.swap.disks import Disks, areas_on, give_back_disk
from ansible_collections.memstretch.density.plugins.module_utils.swap.file import SwapFile, give_back_file
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import FormatError
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import Guard, read_header
from ansible_collections.memstretch.density.plugins.module_utils.swap.kind import Claim, Location, NoSwap, SwapKind
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import Options
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import (
    DROP_IN,
    DROP_IN_NAME,
    RESUME_DIRECTORY,
    RESUME_FILE,
    RESUME_TEXT,
    TARGET,
    OtherUnit,
    Systemd,
    install,
    is_installed,
    turned_on_by,
    uninstall,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.users import hibernation
from ansible_collections.memstretch.density.plugins.module_utils.swap.zram import Zram, ZramSwap, remove_our_devices
from ansible_collections.memstretch.density.plugins.module_utils.swap.zram_first import ZramFirst

KINDS: dict[str, type[SwapKind]] = {"none": NoSwap, "devices": Disks, "file": SwapFile, "zram": ZramSwap}
EMPTY: dict[str, t.Any] = {
    "disks": {},
    "areas": {},
    "files": {},
    "zram": None,
    "units": [],
    "others": [],
    "discard": {},
}


class Step(t.NamedTuple):
    """One thing to do.

    Args:
        text: what it does, for the user.
        act: does it; None if the next step does it too.
        turns_off: the areas that it turns off.
    """

    text: str
    act: t.Callable[[], None] | None = None
    turns_off: tuple[Area, ...] = ()


class SwapChange:
    """The change of a host's swap.

    Args:
        systemd: None if nothing is made persistent, because the user does not want it or systemd does not run the host.
        restore: go back to the swap that the host had before our first run, instead of to that of the options.
    """

    def __init__(
        self, options: Options, guard: Guard, record: HostRecord, systemd: Systemd | None, restore: bool = False
    ) -> None:
        self.options, self.guard, self.files, self.record, self.systemd = options, guard, guard.files, record, systemd
        recorded = record.read()
        self.recorded = {**EMPTY, **(recorded or {})}
        guard.recorded = self._identifiers()
        self.before = areas(self.files)
        kind = KINDS[options.kind](options, guard, self.recorded)
        self.kind = ZramFirst(kind) if options.zram_first else kind
        self.refusals = self.kind.refusals()
        others = [area for area in self.before if not area.ours] if options.others == "keep" else []
        too_many_areas = too_many(len(self.kind.wanted_areas()), len(others))
        if too_many_areas and not restore:
            self.refusals.append(too_many_areas)
        self.warnings = self.kind.warnings()
        self.kept_off_at_boot = "" if restore else self._what_keeps_it_off_at_boot()
        if self.kept_off_at_boot:
            self.warnings.append(f"this swap does not survive a reboot, because {self.kept_off_at_boot}")
        self.steps: list[Step] = []
        if self.refusals:
            return
        if not restore:
            self.steps = [*self._retire(), *self._make(), *self._change_others(), *self._change_units()]
        elif recorded is None:
            self._warn_of_unrecorded()
        else:
            # First the units, so that a reboot in between does not turn on again what has been removed.
            self.steps = [
                *self._remove_units(),
                *self._bring_back_others(),
                *self._retire(),
                Step(f"remove the record {record.path}", self._remove_record),
            ]
        no_room = head_room(self.files, self.leaving, options.reserve)
        if no_room:
            self.refusals.append(no_room)

    def _what_keeps_it_off_at_boot(self) -> str:
        """Explain why systemd will not start this swap at boot, although it has units; an empty string if it will."""
        if not self.systemd or not self.kind.of_target or not self.systemd.is_masked(TARGET):
            return ""
        return f"{TARGET} is masked, as guides for Kubernetes advise. If this host may swap, systemctl unmask {TARGET}"

    def _identifiers(self) -> set[str]:
        return {identifier for identifiers in self.recorded["areas"].values() for identifier in identifiers}

    @property
    def leaving(self) -> list[Area]:
        """The areas that the steps turn off, each once, also those that are turned on again."""
        return list({area.name: area for step in self.steps for area in step.turns_off}.values())

    def run(self) -> None:
        """Do the steps. The record is written to disk before they take anything."""
        self._save_claim(self.kind.claim())
        for step in self.steps:
            if step.act:
                step.act()
        if self.record.read() and not any(self.recorded[name] for name in EMPTY if name != "discard"):
            self.record.remove()

    def _save_claim(self, claim: Claim) -> None:
        self._save(
            disks={**self.recorded["disks"], **claim.get("disks", {})},
            areas={**self.recorded["areas"], **claim.get("areas", {})},
            files={**self.recorded["files"], **claim.get("files", {})},
            zram=claim.get("zram") or self.recorded["zram"],
        )

    def _save(self, **changes: t.Any) -> None:
        self.recorded.update(changes)
        self.guard.recorded = self._identifiers()
        self.record.write(self.recorded)

    # ---- what we have taken and no longer need

    def _warn_of_unrecorded(self) -> None:
        ours = ", ".join(area.name for area in self.before if area.ours)
        if ours:
            self.warnings.append(
                f"swap with our label is in use ({ours}), but no record on this host shows that we made it: it stays on"
            )

    def _retire(self) -> list[Step]:
        steps = [*self._retire_disks(), *self._retire_files(), *self._retire_zram()]
        strays = self._strays({area.name for step in steps for area in step.turns_off})
        if strays:
            self.warnings.append(
                "turned off, but not erased, because no record on this host shows that we made them: "
                + ", ".join(area.name for area in strays)
            )
        return steps + self._turn_off(strays)

    def _retire_disks(self) -> list[Step]:
        steps = []
        claimed = self.kind.claim().get("disks", {})
        numbers = {device_number(path) for path in claimed} - {None}
        for path in self.recorded["disks"]:
            if path in claimed or device_number(path) in numbers:
                continue
            # If the drive is gone, so are its areas; the next step reports that.
            with contextlib.suppress(GuardError):
                steps += self._turn_off(areas_on(find(path, self.files)))
            steps.append(Step(f"make {path} blank again", partial(self._give_back_disk, path)))
        return steps

    def _retire_files(self) -> list[Step]:
        steps = []
        for path in self.recorded["files"]:
            if path not in self.kind.claim().get("files", {}):
                steps += self._turn_off([area for area in self.before if area.name == path and area.ours])
                steps.append(Step(f"remove the swap file {path}", partial(self._remove_file, path)))
        return steps

    def _retire_zram(self) -> list[Step]:
        if not self.recorded["zram"] or self.kind.claim().get("zram"):
            return []
        found = [area for area in self.before if area.ours and area.name.startswith("/dev/zram")]
        return [*self._turn_off(found), Step("remove our zram devices", self._remove_zram)]

    def _strays(self, leaving: set[str]) -> list[Area]:
        """Return areas with our label but without a record: the disk was another host's, or the record was lost."""
        expected = {device_number(location.path) or location.path for location in self.kind.locations()}
        in_the_way = {area.name for area in self.kind.areas_in_the_way()}
        return [
            area
            for area in self.before
            if area.ours
            and area.name not in leaving | in_the_way
            and (device_number(area.name) or area.name) not in expected
            and not self._is_claimed(area)
        ]

    def _is_claimed(self, area: Area) -> bool:
        claim = self.kind.claim()
        if area.is_file:
            return area.name in claim.get("files", {})
        if area.name.startswith("/dev/zram"):
            return bool(claim.get("zram"))
        return any(device_number(path) and area in areas_on(find(path, self.files)) for path in claim.get("disks", {}))

    def _turn_off(self, leaving: list[Area]) -> list[Step]:
        return [Step(f"turn off {area}", partial(self._turn_off_now, area), (area,)) for area in leaving]

    def _turn_off_now(self, area: Area) -> None:
        if any(now.name == area.name for now in areas(self.files)):
            turn_off(self.guard, area.name)

    def _remove_record(self) -> None:
        if not self.recorded["disks"]:
            self.record.remove()

    def _give_back_disk(self, path: str) -> None:
        before = self.recorded["disks"][path]
        try:
            reason = give_back_disk(self.guard, path)
        except FormatError as error:
            # A drive that has failed must not keep the rest from being restored.
            self.warnings.append(f"not made blank yet, the next run tries again: {path}: {error}")
            return
        if reason:
            self.warnings.append(f"left alone and not erased: {reason}")
        elif before != "nothing":
            self.warnings.append(
                f"{path} held {before} before our first run. It was overwritten, as the option overwrite allowed, and "
                "cannot be restored"
            )
        self._save(
            disks={name: held for name, held in self.recorded["disks"].items() if name != path},
            areas={name: found for name, found in self.recorded["areas"].items() if name != path},
        )

    def _remove_file(self, path: str) -> None:
        reason = give_back_file(path, self.recorded["files"][path])
        if reason:
            self.warnings.append(f"{path} was left alone, because it is no longer our swap file: {reason}")
        self._save(files={name: found for name, found in self.recorded["files"].items() if name != path})

    def _remove_zram(self) -> None:
        zram = Zram(self.guard)
        claim = self.recorded["zram"]
        remove_our_devices(zram, claim)
        if not claim["loaded"] and zram.loaded() and len(zram.unused()) == len(zram.numbers()):
            zram.unload()
        self._save(zram=None)

    # ---- what the options ask for

    def _make(self) -> list[Step]:
        pending = self.kind.pending()
        unused = [location for location in self.kind.locations() if not self._is_used(location)]
        if not pending:
            return [self._turn_on_step(location) for location in unused]
        # Areas that exist already may be in use with another priority; they are turned off and on again, too.
        found = [self._area_at(location) for location in unused]
        return [
            *self._turn_off(self.kind.areas_in_the_way()),
            *(Step(text) for text in pending[:-1]),
            Step(pending[-1], partial(self.kind.make, self._save_claim)),
            Step(
                f"turn on our areas with {self.kind.manner}",
                self._turn_on_all,
                tuple(area for area in found if area),
            ),
        ]

    def _turn_on_step(self, location: Location) -> Step:
        text = f"turn on {location.key} with priority {location.priority}, discard {location.discard}"
        area = self._area_at(location)
        if area:
            text += f", instead of priority {area.priority}, discard {self._discard_at(location)}"
        return Step(text, partial(self._turn_on, location), (area,) if area else ())

    def _turn_on_all(self) -> None:
        for location in self.kind.locations():
            if not self._is_used(location):
                self._turn_on(location)

    def _turn_on(self, location: Location) -> None:
        area = self._area_at(location)
        if area:
            turn_off(self.guard, area.name)
        turn_on(self.guard, location.path, location.priority, location.discard)
        self._save(discard={**self.recorded["discard"], location.key: location.discard})

    def _discard_at(self, location: Location) -> str:
        return self.recorded["discard"].get(location.key, "unknown")

    def _area_at(self, location: Location) -> Area | None:
        number = device_number(location.path)
        return next(
            (
                area
                for area in areas(self.files)
                if area.name == location.path or (number and device_number(area.name) == number)
            ),
            None,
        )

    def _is_used(self, location: Location) -> bool:
        """Check whether an area is on with the priority and the discard mode of the options."""
        area = self._area_at(location)
        return (
            area is not None and area.priority == location.priority and self._discard_at(location) == location.discard
        )

    # ---- swap that is not ours

    def _change_others(self) -> list[Step]:
        if self.options.others == "keep":
            return self._bring_back_others()
        others = [area for area in self.before if not area.ours]
        if not others:
            return []
        units = self.systemd.others(self.recorded["units"]) if self.systemd else []
        return [
            Step("record the swap that is not ours", partial(self._record_others, others, units)),
            *(self._turn_off_other(area, turned_on_by(units, area.name)) for area in others),
        ]

    def _record_others(self, others: list[Area], units: list[OtherUnit]) -> None:
        known = {other["source"] for other in self.recorded["others"]}
        new = [
            {
                "source": area.source,
                "names": area.other_names,
                "priority": area.priority,
                "unit": turned_on_by(units, area.name).partition(" ")[0],
            }
            for area in others
            if area.source not in known
        ]
        self._save(others=self.recorded["others"] + new)

    @cached_property
    def _swap_services(self) -> str:
        """The services that turn swap on by themselves, listed for a message. They are the same for each area."""
        return " and ".join(self.systemd.swap_services()) if self.systemd else ""

    def _turn_off_other(self, area: Area, origin: str) -> Step:
        if self.systemd and not origin:
            services = self._swap_services
            self.warnings.append(
                f"no swap unit turns on {area.name}; "
                + (f"{services} may" if services else "whatever does may")
                + " turn it on again at boot"
                + (f". To keep it off, disable {services}" if services else "")
            )
        text = f"turn off {area}, which is not ours" + (f" ({origin} turns it on)" if origin else "")
        return Step(text, partial(self._turn_off_now, area), (area,))

    def _bring_back_others(self) -> list[Step]:
        if not self.recorded["others"]:
            return []
        used = _names_of(self.before)
        # The highest priority first: areas with automatic priorities get them in the order in which they are turned on.
        others = sorted(self.recorded["others"], key=lambda entry: -entry["priority"])
        return [
            *(
                Step(
                    f"turn on {other['source']} again with its priority {other['priority']}",
                    partial(self._bring_back, other),
                )
                for other in others
                if not used & {other["source"], *other["names"]}
            ),
            Step("remove the swap that is not ours from the record", partial(self._save, others=[])),
        ]

    def _bring_back(self, other: dict[str, t.Any]) -> None:
        names, priority = [other["source"], *other["names"]], other["priority"]
        if _names_of(areas(self.files)) & set(names):
            return
        # With a random key, it has another UUID since the last boot.
        source = next((name for name in names if os.path.exists(name) and read_header(name)), None)
        if source is None:
            source = names[0]
            self.warnings.append(f"{source} was swap before our first run and no longer is: it stays off")
            return
        # The unit has options that the kernel does not show. The priority may have been changed by hand since boot.
        if self.systemd and other["unit"]:
            with contextlib.suppress(SwapError):  # its unit may be gone by now, for example its line in /etc/fstab
                run(self.guard, ["systemctl", "start", other["unit"]])
            present = [area for area in areas(self.files) if _names_of([area]) & set(names)]
            if any(area.priority == priority for area in present):
                return
            if present:
                turn_off(self.guard, source)
        try:
            turn_on(self.guard, source, priority, "none")
        except SwapError as error:
            self.warnings.append(
                f"{source} was swap with priority {priority} before our first run and cannot be turned on: {error}. "
                "It stays off and is removed from the record: turn it on by hand"
            )

    # ---- what makes it persistent

    def _change_units(self) -> list[Step]:
        if self.systemd is None:
            if self._needs_units():
                self.warnings.append(
                    "this swap does not survive a reboot: this host does not run systemd, or persistence is never"
                )
            return self._remove_units()
        if self.kind.pending():
            return [Step("write the systemd units that turn it on at boot", self._write_wanted_units)]
        wanted = self._wanted_units()
        changes = [f"write {path}" for path, text in wanted.items() if not is_installed(path, text)]
        changes += [f"remove {path}" for path in sorted(set(self.recorded["units"]) - set(wanted))]
        if not changes:
            return []
        return [*(Step(text) for text in changes), Step("reload systemd", self._write_wanted_units)]

    def _remove_units(self) -> list[Step]:
        if not self.recorded["units"]:
            return []
        return [Step(f"remove our {len(self.recorded['units'])} files for the boot", partial(self._write_units, {}))]

    def _needs_units(self) -> bool:
        turns_others_off = self.options.others == "off" and (
            bool(self.recorded["others"]) or any(not area.ours for area in self.before)
        )
        return self.options.kind != "none" or turns_others_off

    def _wanted_units(self) -> dict[str, str]:
        wanted = {**self.kind.units(), **self._resume_setting()}
        if self.options.others == "off" and self.systemd:
            ours = {path for path in (*wanted, *self.recorded["units"]) if path.endswith(".swap")}
            # A unit that we once kept off may be missing now, but fstab may name it again tomorrow.
            kept = [path for path in self.recorded["units"] if path.endswith(DROP_IN_NAME)]
            wanted.update(dict.fromkeys((*kept, *(unit.drop_in for unit in self.systemd.others(ours))), DROP_IN))
        return wanted

    def _resume_setting(self) -> dict[str, str]:
        """Return the file that keeps the initramfs from looking in our area; none if its owner says where it looks."""
        told = [name for _source, name in hibernation(self.files) if name != RESUME_FILE]
        if told or self.options.kind != "devices" or not self.files.exists(RESUME_DIRECTORY):
            return {}
        return {RESUME_FILE: RESUME_TEXT}

    def _write_wanted_units(self) -> None:
        self._write_units(self._wanted_units())

    def _write_units(self, wanted: dict[str, str]) -> None:
        old = set(self.recorded["units"])
        self._save(units=sorted(old | set(wanted)))
        for path in sorted(old - set(wanted)):
            uninstall(path)
        for path, text in wanted.items():
            install(path, text)
        if booted():
            Systemd(self.guard.run_command).reload()
        self._save(units=sorted(wanted))

    # ---- the result

    def prove(self) -> None:
        """Read back what is in force. Raises SwapError if it is not what the options ask for."""
        wrong = [f"it is still necessary to {text}" for text in self.kind.pending()]
        wrong += [
            f"{location.key} is not in use with priority {location.priority}"
            for location in self.kind.locations()
            if not self._is_used(location)
        ]
        if self.options.others == "off":
            wrong += [f"{area} is not ours and is on again" for area in areas(self.files) if not area.ours]
        if wrong:
            raise SwapError("all steps were done, but the swap is not what was asked for: " + "; ".join(wrong))

    def result_areas(self, predicted: bool) -> list[dict[str, t.Any]]:
        """Return our areas as the module returns them."""
        locations = {location.key: location for location in self.kind.locations()}
        found = []
        for wanted in self.kind.wanted_areas():
            area = self._area_at(locations[wanted.key]) if wanted.key in locations else None
            found.append(
                {
                    "source": wanted.key,
                    "device": area.name if area else None,
                    "size_bytes": area.size if area else wanted.size,
                    "priority": wanted.priority if predicted or area is None else area.priority,
                }
            )
        return found

    def listing_before(self) -> str:
        """Return the areas and contents from before the change, as lines of text for the diff."""
        return listing(self.before) + "".join(f"{path}: {before}\n" for path, before, _after in self.kind.contents())

    def listing_predicted(self) -> str:
        """Return the areas and contents as the steps would leave them, as lines of text for the diff."""
        leaving = {area.name for area in self.leaving}
        staying = [area for area in self.before if area.name not in leaving]
        lines = listing(staying)
        for found in self.result_areas(True):
            if found["device"] not in {area.name for area in staying}:
                name, size = found["device"] or found["source"], size_text(found["size_bytes"])
                lines += f"swap {name} {size} priority {found['priority']} ours\n"
        return lines + "".join(f"{path}: {after}\n" for path, _before, after in self.kind.contents())


def _names_of(found: t.Iterable[Area]) -> set[str]:
    """Return all paths that name areas over reboots."""
    return {name for area in found for name in (area.source, *area.other_names)}


def listing(found: list[Area]) -> str:
    """Return areas as lines of text for the diff."""
    return "".join(
        f"swap {area.name} {size_text(area.size)} priority {area.priority} {'ours' if area.ours else 'not ours'}\n"
        for area in found
    )
