# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the swap that a host has to the swap that is wanted, or back to what it had before us.

A plan is made by looking only: refusals, warnings, and steps in their order. The steps are done only if there is no refusal. Each step
looks again at what it needs and does nothing if it is done already, so that the same plan, made anew, finishes an interrupted one.

The record (host_record) says what we have taken, not what the host should be: C(disks) by path with what was on them, C(files),
C(zram) (devices that were there before, whether the module was loaded), C(units) (our files below /etc/systemd), C(others) (swap
that we have turned off, with its priority) and C(discard) (the mode in which each area was turned on, which the kernel does not tell).
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.systemd import booted
from ansible_collections.memstretch.density.plugins.module_utils.options import size_text
from ansible_collections.memstretch.density.plugins.module_utils.swap.areas import (
    Area,
    SwapError,
    Zram,
    areas,
    head_room,
    run,
    turn_off,
    turn_on,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.format import new_name
from ansible_collections.memstretch.density.plugins.module_utils.swap.guard import (
    LABEL,
    Guard,
    GuardError,
    device_number,
    find,
    read_header,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.kinds import (
    KINDS,
    Node,
    areas_on,
    boot_id,
    give_back_disk,
    remove_zram,
)
from ansible_collections.memstretch.density.plugins.module_utils.swap.options import Options
from ansible_collections.memstretch.density.plugins.module_utils.swap.units import (
    DROP_IN,
    DROP_IN_NAME,
    OtherUnit,
    Systemd,
    install,
    is_installed,
    turned_on_by,
    uninstall,
)

EMPTY: dict[str, t.Any] = {"disks": {}, "files": [], "zram": None, "units": [], "others": [], "discard": {}}


class Step(t.NamedTuple):
    """Something to do, in words, and the function that does it; None if the next step does it along with its own."""

    text: str
    act: t.Callable[[], None] | None


class Plan:
    """What is to be done on a host; C(present) or C(restored) fills it.

    Args:
        systemd: None if nothing shall be made to last over a boot, or cannot.
    """

    def __init__(self, options: Options, guard: Guard, record: HostRecord, systemd: Systemd | None) -> None:
        self.options, self.guard, self.files, self.record, self.systemd = options, guard, guard.files, record, systemd
        self.recorded = {**EMPTY, **(record.read() or {})}
        self.before = areas(self.files)
        self.kind = KINDS[options.kind](options, guard)
        self.refusals: list[str] = []
        self.warnings: list[str] = []
        self.steps: list[Step] = []
        self.leaving: list[Area] = []

    # ---- what is wanted

    def present(self) -> None:
        """Plan the swap of the options."""
        self.kind.check(self.recorded)
        self.refusals += self.kind.refusals
        self.warnings += self.kind.warnings
        if self.refusals:
            return
        self._retire()
        self._make()
        self._others()
        self._units()
        self._check_head_room()

    def restored(self) -> None:
        """Plan the way back to the swap that the host had before us."""
        if self.record.read() is None:
            ours = [area.name for area in self.before if area.ours]
            if ours:
                self.warnings.append(
                    f"swap with our label is in use ({', '.join(ours)}), but no record says that we made it: left as it is"
                )
            return
        # First the files, so that a boot in between does not bring back what has been taken down.
        if self.recorded["units"]:
            self._step(
                f"remove {len(self.recorded['units'])} files of ours from systemd", lambda: self._write_units({})
            )
        self._bring_back_others()
        self._retire()
        self._step(f"forget the record {self.record.path}", self.record.remove)
        self._check_head_room()

    def run(self) -> None:
        """Do the steps. What we take is on the disk before we take it."""
        self.claim()
        for step in self.steps:
            if step.act:
                step.act()
        if self.record.read() and not any(
            self.recorded[name] for name in ("disks", "files", "zram", "units", "others")
        ):
            self.record.remove()

    def claim(self) -> None:
        """Write down what the steps are about to take."""
        claim = self.kind.claim
        self._save(
            disks={**self.recorded["disks"], **claim.get("disks", {})},
            files=sorted(set(self.recorded["files"]) | set(claim.get("files", []))),
            zram=claim.get("zram") or self.recorded["zram"],
        )

    def _save(self, **changes: t.Any) -> None:
        self.recorded.update(changes)
        self.record.write(self.recorded)

    def _step(self, text: str, act: t.Callable[[], None] | None = None) -> None:
        self.steps.append(Step(text, act))

    def _check_head_room(self) -> None:
        reason = head_room(self.files, list({area.name: area for area in self.leaving}.values()), self.options.reserve)
        if reason:
            self.refusals.append(reason)

    # ---- what we have and do not want any more

    def _retire(self) -> None:
        claim = self.kind.claim
        wanted_disks = {device_number(path) for path in claim.get("disks", {})}
        for path in self.recorded["disks"]:
            if path not in claim.get("disks", {}) and (
                device_number(path) is None or device_number(path) not in wanted_disks
            ):
                try:
                    self._turn_off(areas_on(find(path, self.files)))
                except GuardError:
                    pass  # the drive is gone, and its areas with it; the step below says so
                self._step(f"make {path} blank again", lambda path=path: self._give_back_disk(path))
        for path in self.recorded["files"]:
            if path not in claim.get("files", []):
                self._turn_off([area for area in self.before if area.name == path and area.ours])
                self._step(f"remove the swap file {path}", lambda path=path: self._remove_file(path))
        if self.recorded["zram"] and not claim.get("zram"):
            self._turn_off([area for area in self.before if area.ours and area.name.startswith("/dev/zram")])
            self._step("remove our zram devices", self._remove_zram)
        nodes = {device_number(node.path) or node.path for node in self._nodes()}
        going = {area.name for area in self.leaving}
        making = {area.name for area in self.kind.in_the_way()}
        # Ours by label, but in no record: a disk of another host, or a record that was lost. Only used no more.
        stray = [
            area
            for area in self.before
            if area.ours
            and area.name not in going | making
            and (device_number(area.name) or area.name) not in nodes
            and not self._is_claimed(area)
        ]
        self._turn_off(stray)
        if stray:
            self.warnings.append(
                "turned off, but left on their disks, since no record says that we made them: "
                + ", ".join(a.name for a in stray)
            )

    def _is_claimed(self, area: Area) -> bool:
        claim = self.kind.claim
        if area.is_file:
            return area.name in claim.get("files", [])
        if area.name.startswith("/dev/zram"):
            return bool(claim.get("zram"))
        return any(device_number(path) and area in areas_on(find(path, self.files)) for path in claim.get("disks", {}))

    def _turn_off(self, leaving: list[Area]) -> None:
        self.leaving += leaving
        for area in leaving:
            self._step(f"turn off {area}", lambda area=area: self._turn_off_now(area))

    def _turn_off_now(self, area: Area) -> None:
        if any(now.name == area.name for now in areas(self.files)):
            turn_off(self.guard, area.name)

    def _give_back_disk(self, path: str) -> None:
        reason = give_back_disk(self.guard, path)
        if reason:
            self.warnings.append(f"left alone when it should have been made blank: {reason}")
        elif self.recorded["disks"][path] != "nothing":
            self.warnings.append(
                f"{path} held {self.recorded['disks'][path]} before; it was allowed to be overwritten and cannot come back"
            )
        self._save(disks={name: was for name, was in self.recorded["disks"].items() if name != path})

    def _remove_file(self, path: str) -> None:
        for name in (path, new_name(path)):
            if os.path.lexists(name):
                if name == path and (read_header(path) or ("", ""))[1] != LABEL:
                    self.warnings.append(f"{path} is no swap file of ours any more and was left alone")
                else:
                    os.unlink(name)
        self._save(files=[name for name in self.recorded["files"] if name != path])

    def _remove_zram(self) -> None:
        zram = Zram(self.guard)
        claim = self.recorded["zram"]
        remove_zram(zram, claim, boot_id(self.files))
        if not claim["loaded"] and zram.loaded() and len(zram.free()) == len(zram.numbers()):
            run(self.guard, ["modprobe", "--remove", "zram"])
        self._save(zram=None)

    # ---- what we want

    def _nodes(self) -> list[Node]:
        return [] if self.kind.pending() else self.kind.nodes()

    def _make(self) -> None:
        pending = self.kind.pending()
        if pending:
            self._turn_off(self.kind.in_the_way())
            for text in pending[:-1]:
                self._step(text)
            self._step(pending[-1], lambda: self.kind.make(self._claim_more))
            self._step(f"use it with priority {self.options.priority}", self._use)
            return
        todo = [node for node in self.kind.nodes() if not self._is_used(node)]
        self.leaving += [area for node in todo for area in [self._area_of(node)] if area]
        for node in todo:
            area = self._area_of(node)
            was = "" if area is None else f" instead of priority {area.priority}, discard {self._discard_of(node)}"
            self._step(
                f"use {node.key} with priority {self.options.priority}, discard {self._mode()}{was}",
                lambda node=node: self._use_node(node),
            )

    def _claim_more(self, claim: dict[str, t.Any]) -> None:
        self._save(**claim)

    def _use(self) -> None:
        for node in self.kind.nodes():
            if not self._is_used(node):
                self._use_node(node)

    def _use_node(self, node: Node) -> None:
        area = self._area_of(node)
        if area:
            turn_off(self.guard, area.name)
        turn_on(self.guard, node.path, self.options.priority, self._mode())
        self._save(discard={**self.recorded["discard"], node.key: self._mode()})

    def _mode(self) -> str:
        return "none" if self.options.kind == "zram" else self.options.discard

    def _discard_of(self, node: Node) -> str:
        return self.recorded["discard"].get(node.key, "unknown")

    def _area_of(self, node: Node) -> Area | None:
        number = device_number(node.path)
        return next(
            (
                area
                for area in areas(self.files)
                if area.name == node.path or (number and device_number(area.name) == number)
            ),
            None,
        )

    def _is_used(self, node: Node) -> bool:
        area = self._area_of(node)
        return area is not None and area.priority == self.options.priority and self._discard_of(node) == self._mode()

    # ---- what others have

    def _others(self) -> None:
        if self.options.others == "keep":
            self._bring_back_others()
            return
        units = self.systemd.others(self.recorded["units"]) if self.systemd else []
        others = [area for area in self.before if not area.ours]
        if not others:
            return
        known = {other["source"] for other in self.recorded["others"]}
        new = [
            {"source": area.source, "priority": area.priority, "unit": turned_on_by(units, area.name).partition(" ")[0]}
            for area in others
            if area.source not in known
        ]
        self.leaving += others
        self._step("record the swap that is not ours", lambda: self._save(others=self.recorded["others"] + new))
        for area in others:
            origin = turned_on_by(units, area.name)
            self._step(
                f"turn off {area}, which is not ours" + (f" ({origin} turns it on)" if origin else ""),
                lambda area=area: self._turn_off_now(area),
            )
            if self.systemd and not origin:
                self.warnings.append(f"no unit of systemd turns {area.name} on; whatever does may do it again at boot")

    def _bring_back_others(self) -> None:
        used = {area.source for area in self.before}
        # The highest first: automatic priorities are given in the order of turning on.
        for other in sorted(self.recorded["others"], key=lambda entry: -entry["priority"]):
            if other["source"] not in used:
                self._step(
                    f"turn on {other['source']} with its priority {other['priority']}",
                    lambda other=other: self._bring_back(other),
                )
        if self.recorded["others"]:
            self._step("forget the swap that is not ours", lambda: self._save(others=[]))

    def _bring_back(self, other: dict[str, t.Any]) -> None:
        if other["source"] in {area.source for area in areas(self.files)}:
            return
        if not os.path.exists(other["source"]) or not read_header(other["source"]):
            self.warnings.append(f"{other['source']} was swap before us and is none any more: it stays off")
            return
        # The unit knows options that the kernel does not tell, and an administrator may have chosen another priority by hand.
        if self.systemd and other["unit"]:
            run(self.guard, ["systemctl", "start", other["unit"]])
            if any(area.source == other["source"] and area.priority == other["priority"] for area in areas(self.files)):
                return
            turn_off(self.guard, other["source"])
        turn_on(self.guard, other["source"], other["priority"], "none")

    # ---- what lasts over a boot

    def _units(self) -> None:
        if self.systemd is None:
            if self._wants_units():
                self.warnings.append(
                    "this swap does not outlast a boot: systemd does not run here, or persistence says never"
                )
            if self.recorded["units"]:
                self._step(
                    f"remove {len(self.recorded['units'])} files of ours from systemd", lambda: self._write_units({})
                )
            return
        if self.kind.pending():
            self._step("have systemd turn it on at boot", lambda: self._write_units(self._wanted_units()))
            return
        wanted = self._wanted_units()
        stale = set(self.recorded["units"]) - set(wanted)
        missing = [path for path, text in wanted.items() if not is_installed(path, text)]
        for path in missing:
            self._step(f"write {path}")
        if stale or missing:
            texts = ", ".join(sorted(stale))
            self._step(
                "have systemd read them" + (f", without {texts}" if stale else ""),
                lambda: self._write_units(self._wanted_units()),
            )

    def _wants_units(self) -> bool:
        return self.options.kind != "none" or (
            self.options.others == "off" and bool(self.recorded["others"] or self.leaving)
        )

    def _wanted_units(self) -> dict[str, str]:
        wanted = self.kind.units()
        if self.options.others == "off":
            ours = {path for path in (*wanted, *self.recorded["units"]) if path.endswith(".swap")}
            # What we have once kept off stays off, even if its unit cannot be seen now: fstab may be back tomorrow.
            kept = [path for path in self.recorded["units"] if path.endswith(DROP_IN_NAME)]
            wanted.update(dict.fromkeys((*kept, *(unit.drop_in for unit in self._other_units(ours))), DROP_IN))
        return wanted

    def _other_units(self, ours: t.Iterable[str]) -> list[OtherUnit]:
        return self.systemd.others(ours) if self.systemd else []

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

    # ---- what comes out

    def prove(self) -> None:
        """Read back what is in force. Raises SwapError if it is not what was wanted."""
        now = areas(self.files)
        wrong = [
            f"{node.key} is not in use with priority {self.options.priority}"
            for node in self.kind.nodes()
            if not self._is_used(node)
        ]
        if self.options.others == "off":
            wrong += [f"{area} is not ours and is on again" for area in now if not area.ours]
        if wrong:
            raise SwapError("all was done, and still the host is not as it should be: " + "; ".join(wrong))

    def result_areas(self, predicted: bool) -> list[dict[str, t.Any]]:
        """Return the areas of ours as the module returns them."""
        nodes = {} if self.kind.pending() else {node.key: node.path for node in self.kind.nodes()}
        found = []
        for key, size in self.kind.sizes():
            area = self._area_of(Node(key, nodes[key])) if key in nodes else None
            found.append(
                {
                    "source": key,
                    "device": area.name if area else None,
                    "size_bytes": area.size if area else size,
                    "priority": self.options.priority if predicted or area is None else area.priority,
                }
            )
        return found

    def predicted_listing(self) -> str:
        """Return the areas and contents as they would be, as lines of text for the diff."""
        going = {area.name for area in self.leaving}
        lines = listing([area for area in self.before if area.name not in going])
        shown = {area.name for area in self.before} - going
        for found in self.result_areas(True):
            if found["device"] not in shown:
                lines += f"swap {found['device'] or found['source']} {size_text(found['size_bytes'])} priority {found['priority']} ours\n"
        return lines + "".join(f"{path}: {after}\n" for path, _before, after in self.kind.contents())


def listing(found: list[Area]) -> str:
    """Return areas as lines of text for the diff."""
    return "".join(
        f"swap {area.name} {size_text(area.size)} priority {area.priority} {'ours' if area.ours else 'not ours'}\n"
        for area in found
    )
