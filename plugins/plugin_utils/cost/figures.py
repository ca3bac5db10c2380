# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of a VM: the price of a server, its memory and its power, divided by the VMs that it carries within the SLO.

docs/cost.md has the formulas.
"""

from __future__ import annotations

import datetime
import math
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, number
from ansible_collections.memstretch.density.plugins.plugin_utils.cost.options import PRICES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, PASS, UNDECIDED
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

REQUIRED = ("date", "currency", "server", "dram_per_gb", "months")
_DEFAULTS = {
    "tier_per_gb": 0.0,
    "licences": 0.0,
    "licences_per_month": 0.0,
    "power_w": 0.0,
    "price_per_kwh": 0.0,
    "tier_warranty_years": 5.0,
    "write_amplification": 1.0,
}
_OPTIONAL = ("dram_gb", "tier_gb", "dram_vms", "servers", "tier_terabytes_written", "tier_drive_writes_per_day")

# Round figures that only show what the report looks like; they are not a quotation.
EXAMPLE: dict[str, t.Any] = {
    "date": "2026-01-01",
    "currency": "USD",
    "server": 9000,
    "dram_per_gb": 10,
    "tier_per_gb": 0.3,
    "licences_per_month": 100,
    "power_w": 500,
    "price_per_kwh": 0.2,
    "months": 48,
    "servers": 8,
    "tier_drive_writes_per_day": 3,
}

HOURS_PER_MONTH = 365.25 * 24 / 12
DRAM_GB, DRIVE_GB = 2**30, 10**9  # the units in which each is sold
SECONDS_PER_YEAR = 365.25 * 86_400


class PricedArm(t.NamedTuple):
    """One profile on one server.

    Attributes:
        name: the profile, or the run.
        vms: VMs that the server carries within the SLO; None if unknown.
        why: why the VMs are unknown.
        dram_bytes: DRAM of the server, or its DRAM budget.
        tier_bytes: size of the swap drives; 0 if there are none.
        written_bytes_per_second: measured writes to these drives; None if unknown.
    """

    name: str
    vms: int | None
    why: str
    dram_bytes: float
    tier_bytes: float = 0.0
    written_bytes_per_second: float | None = None


def prices(option: str, given: t.Mapping[str, t.Any], example: bool = False) -> dict[str, t.Any] | None:
    """Check the user's prices and return them with the defaults of the others.

    Returns:
        The prices; None if there are none and no example is wanted.

    Raises:
        SettingError: a price is missing, unknown or out of range; the text names it.
    """
    if not given and not example:
        return None
    if given and example:
        raise SettingError(f"{option}: prices are given, but example prices are requested too; leave one of them out")
    given = given or EXAMPLE
    _check_names(option, given)
    checked: dict[str, t.Any] = {
        "example": example,
        "date": _date(f"{option}.date", given["date"]),
        "currency": str(given["currency"]),
    }
    for name, allowed in PRICES.items():
        value = given.get(name, _DEFAULTS.get(name))
        checked[name] = None if value is None and name in _OPTIONAL else number(f"{option}.{name}", value, allowed)
    if checked["tier_terabytes_written"] is not None and checked["tier_drive_writes_per_day"] is not None:
        raise SettingError(
            f"{option}: tier_terabytes_written and tier_drive_writes_per_day both set the endurance; "
            f"leave one of them out"
        )
    if checked["servers"] == 1:
        raise SettingError(
            f"{option}.servers: 1 is not allowed, since a single server has no head-room for a failed one; "
            f"it must be 2 or more, or leave it out"
        )
    return checked


def _check_names(option: str, given: t.Mapping[str, t.Any]) -> None:
    """Raise a SettingError for unknown prices, and for required prices that are missing."""
    problems = [f"{name} is unknown" for name in sorted(set(given) - set(PRICES) - {"date", "currency"})]
    problems += [f"{name} is missing" for name in REQUIRED if given.get(name) in (None, "")]
    if problems:
        raise SettingError(
            f"{option}: {', '.join(problems)}; it must have {', '.join(['date', 'currency', *PRICES])}, of which "
            f"{', '.join(REQUIRED)} are required"
        )


def _date(option: str, value: t.Any) -> str:
    try:
        return datetime.date.fromisoformat(str(value)).isoformat()
    except ValueError:
        raise SettingError(f"{option}: {value!r} is not a date; it must be a date, such as 2026-01-31") from None


def document(paid: t.Mapping[str, t.Any], arms: t.Sequence[PricedArm], baseline: str | None = None) -> dict[str, t.Any]:
    """Return the cost of a VM under each profile.

    Args:
        paid: what prices() returned.
        arms: the profiles.
        baseline: name of the arm that savings are relative to. Without a name, the baseline is a server with the same
            DRAM and C(dram_vms) VMs, if that is given.
    """
    rows = [_row(paid, arm) for arm in arms]
    reference = next((row for row in rows if row["name"] == baseline), None)
    if reference is None and paid["dram_vms"] is not None and arms:
        reference = _row(paid, PricedArm("DRAM alone", paid["dram_vms"], "", arms[0].dram_bytes))
    for row in rows:
        row.update(_against(paid, row, reference if reference is not row else None))
    return {
        "prices": dict(paid),
        "baseline": reference and {name: reference[name] for name in ("name", "vms", "per_vm_month")},
        "arms": rows,
    }


def _row(paid: t.Mapping[str, t.Any], arm: PricedArm) -> dict[str, t.Any]:
    """Return the cost of one server a month, in total and for each VM."""
    dram_gb = paid["dram_gb"] if paid["dram_gb"] is not None else arm.dram_bytes / DRAM_GB
    tier_gb = 0.0
    if arm.tier_bytes:  # the user's tier_gb is only for arms that have drives
        tier_gb = paid["tier_gb"] if paid["tier_gb"] is not None else arm.tier_bytes / DRIVE_GB
    parts = {
        "server": paid["server"] / paid["months"],
        "dram": dram_gb * paid["dram_per_gb"] / paid["months"],
        "tier": tier_gb * paid["tier_per_gb"] / paid["months"],
        "licences": paid["licences"] / paid["months"] + paid["licences_per_month"],
        "power": paid["power_w"] / 1000 * HOURS_PER_MONTH * paid["price_per_kwh"],
    }
    month = sum(parts.values())
    spared = None if arm.vms is None or paid["servers"] is None else arm.vms * (paid["servers"] - 1) // paid["servers"]
    return {
        "name": arm.name,
        "vms": arm.vms,
        "why": arm.why,
        "dram_gb": round(dram_gb, 3),
        "tier_gb": round(tier_gb, 3),
        "parts_per_month": {name: round(value, 2) for name, value in parts.items()},
        "server_month": round(month, 2),
        "per_vm_month": _per(month, arm.vms),
        "vms_with_head_room": spared,
        "per_vm_month_with_head_room": _per(month, spared),
        "written_bytes_per_second": arm.written_bytes_per_second,
        "drive_life_years": drive_life(paid, tier_gb, arm.written_bytes_per_second),
    }


def _per(month: float, vms: int | None) -> float | None:
    return round(month / vms, 4) if vms else None


def _against(
    paid: t.Mapping[str, t.Any], row: t.Mapping[str, t.Any], reference: t.Mapping[str, t.Any] | None
) -> dict[str, t.Any]:
    """Return the saving of a VM against the reference, and the price of the tier at which the saving becomes 0."""
    against: dict[str, t.Any] = {"saving": None, "server_ratio": None, "break_even_tier_per_gb": None}
    if reference is None or not reference["vms"] or not row["vms"]:
        return against
    month, month_of_reference = row["server_month"], reference["server_month"]
    if month_of_reference:
        against["saving"] = round(1 - (month / row["vms"]) / (month_of_reference / reference["vms"]), 4)
        against["server_ratio"] = round(month / month_of_reference, 4)
    budget = month_of_reference * row["vms"] / reference["vms"]
    left_for_tier = budget - (month - row["parts_per_month"]["tier"])
    against["break_even_tier_per_gb"] = break_even(left_for_tier, row["tier_gb"], paid["months"])
    return against


def break_even(budget_per_month: float, tier_gb: float, months: float) -> float | None:
    """Return the price of a GB at which the tier costs the budget.

    None without a tier. A price of 0 or less means that no tier is cheap enough.
    """
    return round(budget_per_month * months / tier_gb, 4) if tier_gb else None


def drive_life(paid: t.Mapping[str, t.Any], tier_gb: float, written_bytes_per_second: float | None) -> float | None:
    """Return after how many years of this load the warranted writes of the drives are used up.

    None if the warranty or the writes are unknown, or if nothing was written.
    """
    if not tier_gb or not written_bytes_per_second:
        return None
    if paid["tier_terabytes_written"] is not None:
        warranted = paid["tier_terabytes_written"] * 1e12
    elif paid["tier_drive_writes_per_day"] is not None:
        warranted = paid["tier_drive_writes_per_day"] * tier_gb * DRIVE_GB * 365.25 * paid["tier_warranty_years"]
    else:
        return None
    return float(f"{warranted / (written_bytes_per_second * paid['write_amplification'] * SECONDS_PER_YEAR):.3g}")


class SwapWrites:
    """Measures how many bytes one server writes to its swap drives, from the memory pressure of a run's phases.

    Only the counters of the run's hosts are used, because their drives are priced; a guest counts the writes to its own
    swap. The kernel's pswpout includes pages that went to zram, so a run with zram has no such figure.
    """

    def __init__(self, run: t.Mapping[str, t.Any]) -> None:
        self._servers = {
            name: record
            for record in run.get("hosts", {}).values()
            if (name := (record.get("kernel") or {}).get("boot_id"))
        }
        self._written, self._seconds, self._known = 0.0, 0.0, True

    def add(self, phase: t.Mapping[str, t.Any]) -> None:
        """Add the document of a phase."""
        if phase["phase"]["kind"] != "iteration":
            return
        for machine, pressure in phase["pressure"].items():
            counters = pressure.get("counters", {})
            if machine not in self._servers or "pswpout" not in counters or not counters.get("clock_s"):
                self._known = False
                continue
            page_bytes = (self._servers[machine].get("memory") or {}).get("page_bytes") or 4096
            self._written += counters["pswpout"] * page_bytes
            self._seconds += counters["clock_s"]

    @property
    def bytes_per_second(self) -> float | None:
        """The mean over phases and machines; None if the counter of one is unknown."""
        return round(self._written / self._seconds, 1) if self._known and self._seconds else None


def arm_of(name: str, run: t.Mapping[str, t.Any], verdict: str, hosts: int, writes: SwapWrites) -> PricedArm:
    """Return a run as an arm: the hardware of its servers, and how many VMs one server carried.

    A fleet that misses the SLO has no cost per VM.

    Args:
        name: of the arm.
        run: run.json.
        verdict: of the run.
        hosts: the size of its fleet.
        writes: has all phases of the run.
    """
    records = {
        (record.get("kernel") or {}).get("boot_id") or host: record for host, record in run.get("hosts", {}).items()
    }
    servers = list(records.values())
    why = {
        PASS: "",
        FAIL: "the fleet misses the SLO",
        UNDECIDED: "whether the fleet meets the SLO is undecided",
    }.get(verdict, "the run is not valid")
    vms = None if why else math.floor(hosts / max(1, len(servers)))
    areas = [area for record in servers for area in (record.get("swap") or {}).get("areas") or []]
    drives = [area for area in areas if not area["name"].startswith("/dev/zram")]
    return PricedArm(
        name,
        vms,
        why,
        sum(_dram(record) for record in servers) / max(1, len(servers)),
        sum(area["size_bytes"] for area in drives) / max(1, len(servers)),
        writes.bytes_per_second if drives and len(drives) == len(areas) else None,
    )


class Measured(t.NamedTuple):
    """Runs of one configuration and their verdict.

    Attributes:
        name: of the configuration.
        runs: the directories of the runs.
        verdict: of all of them together.
        hosts: the size of the fleet.
    """

    name: str
    runs: t.Sequence[RunDirectory]
    verdict: str
    hosts: int


def of_runs(paid: t.Mapping[str, t.Any], measured: t.Sequence[Measured]) -> dict[str, t.Any]:
    """Return the cost of a VM in each of several configurations; savings are relative to the first.

    Args:
        paid: what prices() returned.
        measured: the configurations.

    Raises:
        RunError: a file of a run is missing or damaged.
    """
    arms = []
    for each in measured:
        run = each.runs[0].read_json("run.json")
        writes = SwapWrites(run)
        for directory in each.runs:
            for phase in directory.read_json("run.json")["phases"]:
                if phase["kind"] == "iteration" and (document_of_phase := directory.read_phase(phase)):
                    writes.add(document_of_phase)
        arms.append(arm_of(each.name, run, each.verdict, each.hosts, writes))
    return document(paid, arms, arms[0].name)


def _dram(record: t.Mapping[str, t.Any]) -> float:
    budget = (record.get("tuning") or {}).get("dram_budget") or {}
    return float(budget.get("size_bytes") or (record.get("memory") or {}).get("total_bytes") or 0)
