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
from ansible_collections.memstretch.density.plugins.plugin_utils.cost.options import OF_AN_ARM, PRICES
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, PASS, UNDECIDED
from ansible_collections.memstretch.density.plugins.plugin_utils.run.pressure import of_carriers
from ansible_collections.memstretch.density.plugins.plugin_utils.run.same_machine import recorded_machines

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
_OPTIONAL = (
    "dram_gb",
    "tier_gb",
    "target_saving",
    "dram_vms",
    "servers",
    "tier_terabytes_written",
    "tier_drive_writes_per_day",
)

# An example, not a quotation; docs/cost.md says where each comes from.
EXAMPLE: dict[str, t.Any] = {
    "date": "2026-06-30",
    "source": "an example from published reports, see docs/cost.md",
    "currency": "USD",
    "server": 9000,
    "dram_per_gb": 32,
    "tier_per_gb": 0.5,
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
# What a server costs besides its DRAM.
_OTHER_PARTS = ("server", "tier", "licences", "power")


class PricedArm(t.NamedTuple):
    """One profile on one server.

    Attributes:
        name: the profile, or the run.
        vms: VMs that the server carries within the SLO; None if unknown.
        why: why the VMs are unknown.
        dram_bytes: DRAM of the server. With a DRAM budget, the charged DRAM, or the budget if that was not measured.
        tier_bytes: size of the swap drives; 0 if there are none.
        written_bytes_per_second: measured writes to these drives; None if unknown.
        vms_interval: the fewest and the most VMs that the server may carry; the most are None if unknown. None as a
            whole where the number was not searched for.
        vms_ratio: C(estimate) and C(interval) of the VMs as a multiple of the baseline's.
        node_bytes: memory of nodes without processors, such as CXL memory; it is a tier, too.
        hidden: whether a hypervisor below the operating system (IMDT) hides how much of the memory is DRAM.
    """

    name: str
    vms: int | None
    why: str
    dram_bytes: float
    tier_bytes: float = 0.0
    written_bytes_per_second: float | None = None
    vms_interval: tuple[int, int | None] | None = None
    vms_ratio: t.Mapping[str, t.Any] | None = None
    node_bytes: float = 0.0
    hidden: bool = False


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
        "source": str(given.get("source") or ""),
        "currency": str(given["currency"]),
    }
    for name, allowed in PRICES.items():
        value = given.get(name, _DEFAULTS.get(name))
        checked[name] = None if value is None and name in _OPTIONAL else number(f"{option}.{name}", value, allowed)
    checked["arms"] = _of_arms(f"{option}.arms", given.get("arms") or {})
    for where, found in ((option, checked), *((f"{option}.arms.{name}", arm) for name, arm in checked["arms"].items())):
        if found.get("tier_terabytes_written") is not None and found.get("tier_drive_writes_per_day") is not None:
            raise SettingError(
                f"{where}: tier_terabytes_written and tier_drive_writes_per_day both set the endurance; "
                f"leave one of them out"
            )
    if checked["servers"] == 1:
        raise SettingError(
            f"{option}.servers: 1 is not allowed, since a single server has no headroom for a failed one; "
            f"it must be 2 or more, or leave it out"
        )
    return checked


def _of_arms(option: str, given: t.Any) -> dict[str, dict[str, float]]:
    """Return the prices that differ by arm, checked.

    Raises:
        SettingError: a price is unknown or out of range; the text names it.
    """
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise SettingError(
            f"{option}: {given!r} is not allowed; it must have the prices of each arm, such as "
            f"{{imdt: {{dram_gb: 192, tier_gb: 1500}}}}"
        )
    for arm, own in given.items():
        unknown = sorted(set(own) - set(OF_AN_ARM))
        if unknown:
            raise SettingError(
                f"{option}.{arm}: {', '.join(unknown)} cannot differ by arm; allowed are {', '.join(OF_AN_ARM)}"
            )
    return {
        str(arm): {name: number(f"{option}.{arm}.{name}", value, PRICES[name]) for name, value in own.items()}
        for arm, own in given.items()
    }


def _check_names(option: str, given: t.Mapping[str, t.Any]) -> None:
    """Raise a SettingError for unknown prices, and for required prices that are missing."""
    others = ("date", "source", "currency")
    problems = [f"{name} is unknown" for name in sorted(set(given) - set(PRICES) - {*others, "arms"})]
    problems += [f"{name} is missing" for name in REQUIRED if given.get(name) in (None, "")]
    if problems:
        raise SettingError(
            f"{option}: {', '.join(problems)}; it must have {', '.join([*others, *PRICES, 'arms'])}, "
            f"of which {', '.join(REQUIRED)} are required"
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
    rows = [_row(_paid_for(paid, arm), arm) for arm in arms]
    reference = next((row for row in rows if row["name"] == baseline), None)
    if reference is None and paid["dram_vms"] is not None and arms:
        reference = _row(paid, PricedArm("DRAM alone", paid["dram_vms"], "", arms[0].dram_bytes))
    for row, arm in zip(rows, arms):
        paid_for_arm = _paid_for(paid, row["name"])
        row.update(_against(paid_for_arm, row, reference if reference is not row else None, arm.vms_ratio))
    return {
        "prices": dict(paid),
        "baseline": reference and {name: reference[name] for name in ("name", "vms", "per_vm_month", "server_month")},
        "arms": rows,
    }


def _row(paid: t.Mapping[str, t.Any], arm: PricedArm) -> dict[str, t.Any]:
    """Return the cost of one server a month, in total and for each VM."""
    dram_gb = paid["dram_gb"] if paid["dram_gb"] is not None else arm.dram_bytes / DRAM_GB
    tier_gb = arm.tier_bytes / DRIVE_GB + arm.node_bytes / DRAM_GB
    own_tier = paid["arms"].get(arm.name, {}).get("tier_gb")
    if own_tier is not None:
        tier_gb = own_tier
    elif paid["tier_gb"] is not None and (tier_gb or arm.hidden):  # not for arms that have no tier
        tier_gb = paid["tier_gb"]
    if arm.hidden and (paid["dram_gb"] is None or not tier_gb):
        arm = arm._replace(
            vms=None,
            why=f"IMDT hides how much of its memory is DRAM; set arms.{arm.name}.dram_gb and tier_gb of the prices",
        )
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
        "parts_per_month": {name: round(value, 4) for name, value in parts.items()},
        "server_month": round(month, 4),
        "dram_share": _share(parts["dram"], parts["server"] + parts["dram"] + parts["tier"]),
        "per_vm_month": _per(month, arm.vms),
        "vms_interval": arm.vms_interval and list(arm.vms_interval),
        "per_vm_month_interval": arm.vms_interval and [_per(month, vms) for vms in reversed(arm.vms_interval)],
        "vms_with_head_room": spared,
        "per_vm_month_with_head_room": _per(month, spared),
        "written_bytes_per_second": arm.written_bytes_per_second,
        "drive_life_years": drive_life(paid, tier_gb, arm.written_bytes_per_second),
    }


def _paid_for(paid: t.Mapping[str, t.Any], arm: PricedArm | str) -> dict[str, t.Any]:
    """Return the prices with those of the arm."""
    own = paid["arms"].get(arm if isinstance(arm, str) else arm.name, {})
    # The kind of endurance that the arm states replaces the other kind.
    endurance = {"tier_terabytes_written": None, "tier_drive_writes_per_day": None}
    return {**paid, **(endurance if set(endurance) & set(own) else {}), **own}


def _per(month: float, vms: int | None) -> float | None:
    return round(month / vms, 4) if vms else None


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None


def _against(
    paid: t.Mapping[str, t.Any],
    row: t.Mapping[str, t.Any],
    reference: t.Mapping[str, t.Any] | None,
    vms_ratio: t.Mapping[str, t.Any] | None,
) -> dict[str, t.Any]:
    """Return the saving of a VM against the reference, and the prices at which the saving becomes 0.

    The interval of a ratio becomes that of the saving.
    """
    against: dict[str, t.Any] = dict.fromkeys(
        (
            "saving",
            "saving_interval",
            "server_ratio",
            "break_even_tier_per_gb",
            "dram_instead_gb",
            "break_even_dram_per_gb",
            "servers_for_same_fleet",
            "same_fleet_month",
            "target_server_ratio",
            "target_server_price",
        )
    )
    if reference is None:
        return against
    month, month_of_reference = row["server_month"], reference["server_month"]
    if month_of_reference and vms_ratio:
        against["saving_interval"] = [
            round(1 - month / month_of_reference / times, 4) if times else None for times in vms_ratio["interval"]
        ]
    if not reference["vms"] or not row["vms"]:
        return against
    if month_of_reference:
        against["server_ratio"] = round(month / month_of_reference, 4)
        against["saving"] = round(1 - (month / row["vms"]) / (month_of_reference / reference["vms"]), 4)
    budget = month_of_reference * row["vms"] / reference["vms"]
    left_for_tier = budget - (month - row["parts_per_month"]["tier"])
    against["break_even_tier_per_gb"] = break_even(left_for_tier, row["tier_gb"], paid["months"])
    against.update(_dram_instead(paid, row, reference))
    if paid["servers"] is not None:
        # Both fleets have room for the VMs of a failed server.
        servers = math.ceil((paid["servers"] - 1) * reference["vms"] / row["vms"]) + 1
        against.update(servers_for_same_fleet=servers, same_fleet_month=round(servers * month, 2))
    if paid["target_saving"] is not None and month_of_reference:
        ratio = (1 - paid["target_saving"]) * row["vms"] / reference["vms"]
        others = month - row["parts_per_month"]["server"]
        against["target_server_ratio"] = round(ratio, 4)
        against["target_server_price"] = round((ratio * month_of_reference - others) * paid["months"], 2)
    return against


def _dram_instead(
    paid: t.Mapping[str, t.Any], row: t.Mapping[str, t.Any], reference: t.Mapping[str, t.Any]
) -> dict[str, float]:
    """Return how much more DRAM the reference needs for as many VMs in one server, and from which price the arm pays.

    C(dram_instead_gb) is in addition to the DRAM of the arm. C(break_even_dram_per_gb) is the price of a GB above which
    the arm costs less than that DRAM. Nothing if the arm saves no DRAM.
    """
    instead = reference["dram_gb"] * row["vms"] / reference["vms"] - row["dram_gb"]
    if instead <= 0:
        return {}
    extra = sum(row["parts_per_month"][name] - reference["parts_per_month"][name] for name in _OTHER_PARTS)
    return {
        "dram_instead_gb": round(instead, 3),
        "break_even_dram_per_gb": round(extra * paid["months"] / instead, 4),
    }


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
        # By inventory name and by boot id, as of_carriers() names them.
        self._servers: dict[str, t.Any] = {
            key: record
            for host, record in run.get("hosts", {}).items()
            for key in (host, (record.get("kernel") or {}).get("boot_id"))
            if key
        }
        self._written, self._seconds, self._known = 0.0, 0.0, True

    def add(self, phase: t.Mapping[str, t.Any]) -> None:
        """Add the document of a phase."""
        if phase["phase"]["kind"] != "iteration":
            return
        for name, pressure in of_carriers(phase).items():
            counters = (pressure or {}).get("counters", {})
            if name not in self._servers or "pswpout" not in counters or not counters.get("clock_s"):
                self._known = False
                continue
            page_bytes = (self._servers[name].get("memory") or {}).get("page_bytes") or 4096
            self._written += counters["pswpout"] * page_bytes
            self._seconds += counters["clock_s"]

    @property
    def bytes_per_second(self) -> float | None:
        """The mean over phases and machines; None if the counter of one is unknown."""
        return round(self._written / self._seconds, 1) if self._known and self._seconds else None


def arm_of(
    name: str,
    run: t.Mapping[str, t.Any],
    verdict: str,
    hosts: int,
    writes: SwapWrites,
    dram: t.Mapping[str, t.Any] | None = None,
) -> PricedArm:
    """Return a run as an arm: the hardware of its servers, and how many VMs one server carried.

    A fleet that misses the SLO has no cost per VM.

    Args:
        name: of the arm.
        run: run.json.
        verdict: of the run.
        hosts: the size of its fleet.
        writes: has all phases of the run.
        dram: C(dram) of its summary; None if its servers have no DRAM budget.
    """
    servers = list(recorded_machines(run).values())
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
        dram["charged_bytes"] / dram["machines"] if dram and dram["charged_bytes"] else _dram_of_one(servers),
        sum(area["size_bytes"] for area in drives) / max(1, len(servers)),
        writes.bytes_per_second if drives and len(drives) == len(areas) else None,
        node_bytes=sum(_nodes(record) for record in servers) / max(1, len(servers)),
        hidden=any((record.get("imdt") or {}).get("detected") for record in servers),
    )


def _dram_of_one(servers: t.Sequence[t.Mapping[str, t.Any]]) -> float:
    """Return the DRAM of a server, the mean of all of them."""
    return sum(_dram(record) for record in servers) / max(1, len(servers))


def _dram(record: t.Mapping[str, t.Any]) -> float:
    budget = (record.get("tuning") or {}).get("dram_budget") or {}
    if budget.get("size_bytes"):
        return float(budget["size_bytes"])
    return max(0.0, ((record.get("memory") or {}).get("total_bytes") or 0) - _nodes(record))


def _nodes(record: t.Mapping[str, t.Any]) -> float:
    """Return the memory of nodes without processors."""
    nodes = (record.get("numa") or {}).get("nodes") or []
    return float(sum(node.get("total_bytes") or 0 for node in nodes if node.get("memory_only")))
