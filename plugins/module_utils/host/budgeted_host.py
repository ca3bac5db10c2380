# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a DRAM budget: its charged DRAM, and the limit that keeps it within the budget.

The record of the module C(dram_budget) says which budget is in force. Under C(fitted) it also has what was found here:
C(limit), C(fits), C(steps), C(ratio), C(why), and C(baseline), the memory of group and host before the fill.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host import budget_fit
from ansible_collections.memstretch.density.plugins.module_utils.host.charged import ChargedDram
from ansible_collections.memstretch.density.plugins.module_utils.host.dram_budget import (
    BudgetError,
    CgroupFiles,
    group_directory,
)
from ansible_collections.memstretch.density.plugins.module_utils.host.files import HostFiles, swap_areas
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord

# The group's limit is at least this share of the budget, and this much above what no reclaim can take.
_FLOOR, _FLOOR_BYTES = 0.05, 2 * 2**20


class BudgetedHost:
    """This host, under the DRAM budget of its record.

    Attributes:
        charged: reads its charged DRAM.
        mechanism: of the budget.
        group: the control group of the budget; None with huge pages.
    """

    def __init__(self, record: HostRecord, content: dict[str, t.Any]) -> None:
        self._record, self._content = record, content
        asked = content["asked"]
        self.mechanism: str = asked["mechanism"]
        self._size: int = asked["size_bytes"]
        self.group = CgroupFiles(*group_directory(HostFiles(), asked["group"])) if asked["group"] else None
        original = content["original"].get("huge pages", 0)
        self.charged = ChargedDram({**asked, "original_pages": original})

    @classmethod
    def find(cls, record: HostRecord) -> BudgetedHost | None:
        """Return this host, or None if it has no DRAM budget."""
        content = record.read()
        return cls(record, content) if content else None

    def document(self) -> dict[str, t.Any]:
        """Describe the budget: what the module dram_budget returns in any case."""
        fitted = self._content.get("fitted") or {}
        names = ("limit", "steps", "ratio", "why")
        return {
            "machine": HostFiles().text("/proc/sys/kernel/random/boot_id"),
            "mechanism": self.mechanism,
            "budget_bytes": self._size,
            "group_processes": self.group.processes() if self.group else None,
            "fits": fitted.get("fits"),
            "fit": {name: fitted[name] for name in names} if "fits" in fitted else None,
        }

    def set_limit(self, limit: str, check_mode: bool) -> bool:
        """Bring the group to its limit; return whether the limit was changed.

        With C(check_mode), return whether C(released) would change it. What C(fitted) would do is not known without
        doing it, so that is False.

        Args:
            limit: C(released) or C(fitted).
            check_mode: whether to change nothing.

        Raises:
            BudgetError: it cannot be set, or the charged DRAM cannot be measured.
        """
        has_group = self.group is not None and self.group.exists()
        before = self._limit()
        if check_mode:
            return has_group and limit == "released" and before != self._size
        if limit == "released":
            if self.group and has_group and before != self._size:
                self.group.set_limit(self._size)
            fitted: dict[str, t.Any] = {"baseline": self._memory()}
        elif self.group and has_group:
            earlier = self._content.get("fitted") or {}
            fit = self._fit(self.group, min(before or self._size, self._size))
            # A second fit that changes nothing measures no ratio.
            fitted = {**earlier, **fit._replace(ratio=fit.ratio or earlier.get("ratio"))._asdict()}
        else:
            return False
        self._content = {**self._content, "fitted": fitted}
        with self._record.locked():
            # A fit takes minutes. Somebody may have restored the budget or set another one.
            recorded = self._record.read()
            if recorded is not None and recorded["asked"] == self._content["asked"]:
                self._record.write({**recorded, "fitted": fitted})
        return has_group and self._limit() != before

    def _limit(self) -> int | None:
        if self.group is None:
            return None
        with self.group.locked():
            return self.group.limit()

    def _fit(self, group: CgroupFiles, limit: int) -> budget_fit.Fit:
        floor = budget_fit.rounded(max(_FLOOR * self._size, (self.charged.unreclaimable() or 0) + _FLOOR_BYTES))
        fit = budget_fit.fit(self._size, limit, floor, self._state, group.squeeze, overflows(HostFiles()))
        if not fit.fits:
            group.set_limit(self._size)  # what does not fit is measured as it is, not starved
            return fit._replace(limit=self._size)
        return fit

    def _state(self) -> budget_fit.State:
        figures = self.charged.read()
        group, charged = figures["group_bytes"], figures["charged_bytes"]
        if group is None or charged is None:
            unknown = ", ".join(name for name, value in figures.items() if value is None and name != "limit_bytes")
            raise BudgetError(
                f"this kernel does not report {unknown}, so the fleet cannot be brought to its DRAM budget; use the "
                "mechanism hugepages, or swap that is not below a loop device"
            )
        return budget_fit.State(group, charged - group)

    def _memory(self) -> dict[str, int | None]:
        return {"charged_bytes": self.charged.read()["charged_bytes"], "host_bytes": self.charged.host_in_use()}

    def host_check(self, helper_bytes: int) -> dict[str, t.Any] | None:
        """Compare the change of the host's memory in use with that of the charged DRAM since the limit was released.

        Args:
            helper_bytes: memory of our own process that was not there then.
        """
        before, now = (self._content.get("fitted") or {}).get("baseline"), self._memory()
        values = [each[name] for each in (before or {}, now) for name in each]
        if before is None or None in values or not now["charged_bytes"]:
            return None
        charged = now["charged_bytes"] - before["charged_bytes"]
        host = t.cast(int, now["host_bytes"]) - before["host_bytes"] - helper_bytes
        return {
            "host_bytes": host,
            "charged_bytes": charged,
            "difference": round((host - charged) / now["charged_bytes"], 4),
        }


def overflows(files: HostFiles) -> bool:
    """Check whether pages go to a drive or a file once zram is full."""
    areas = swap_areas(files)
    last = min(areas, key=lambda area: area["priority"], default=None)
    return any(_is_zram(area) for area in areas) and last is not None and not _is_zram(last)


def _is_zram(area: dict[str, t.Any]) -> bool:
    return area["name"].startswith("/dev/zram")
