# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory pressure of a run's machines: what is accepted from hypervisors, whose it is, and its figures.

A figure is None, never 0, if one of the machines that it would sum up does not have it.
"""

from __future__ import annotations

import re
import statistics
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    Fields,
    Kind,
    MeasurementError,
    Message,
    Optional,
    Real,
    Table,
    Text,
    Whole,
    plain,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.run.measurement import PRESSURE

# These are None, too, if there was nothing to time.
LATENCIES = ("read_ms", "write_ms")

_Machines = t.Iterable[t.Optional[t.Mapping[str, t.Any]]]
# A counter that a kernel does not have because it lacks what would be counted, and which of them shows that.
_PART_OF = {"zswpin": "pswpin", "zswpout": "pswpout"}
_DISK_READS = re.compile(r"disk\.(?P<name>.+)\.reads")


class LongText(Kind):
    """A text of several lines, such as a file, which is made printable."""

    def __init__(self, longest: int) -> None:
        self.longest = longest

    def check(self, name: str, value: t.Any) -> t.Any:
        if not isinstance(value, str) or len(value) > self.longest:
            raise MeasurementError(f"{name} must be a text of at most {self.longest:,} characters")
        return plain(value.replace("\t", " "))


# What the module host_memory_info returns, except for the record, whose keys depend on the host.
_READING = Fields(
    {"machine": Text()},
    {
        "snapshot": Table(Real(), 200),
        "pressure": PRESSURE,
        "log": Fields(
            {"position": Optional(Whole())}, {"text": LongText(2**20), "lost": Whole(), "unknown": Message()}
        ),
        "files": Fields({"/proc/meminfo": LongText(2**17), "/sys/kernel/mm": LongText(2**20)}),
    },
)


def reading(answer: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the accepted part of what the module host_memory_info returned on a host.

    Args:
        answer: with the keys that the module documents, and those of any module.

    Raises:
        MeasurementError: a key does not fit; the text names it.
    """
    if answer.get("failed") or answer.get("unreachable") or answer.get("skipped"):
        return answer
    given = {name: answer[name] for name in (*_READING.required, *_READING.known) if name in answer}
    return {**answer, **_READING.check("host_memory_info", given)}


def of_carriers(document: t.Mapping[str, t.Any]) -> dict[str, t.Mapping[str, t.Any] | None]:
    """Return the pressure of the machines whose memory holds the fleet's data: hypervisors, or else the fleet's own.

    Args:
        document: of a phase.

    Returns:
        By inventory name for hypervisors, by boot id for others; None for one that is unknown.
    """
    hypervisors = document.get("hypervisors")
    if not hypervisors:
        return dict(document["pressure"])
    return {name: document["pressure"].get(each["machine"]) for name, each in hypervisors.items()}


def of_carrying_machines(document: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any] | None]:
    """Return the machines of of_carriers(), each once: two hypervisors may share a kernel, as in the lab.

    Sums over machines need this. A hypervisor without a known machine is None.
    """
    return [document["pressure"].get(machine) for machine in _carrying(document)]


def recorded_by_carriers(document: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """Return the series of the machines of of_carrying_machines(); none if one is unknown."""
    recorded = [document.get("over_time", {}).get(machine) for machine in _carrying(document)]
    return [] if None in recorded else t.cast("list[t.Mapping[str, t.Any]]", recorded)


def _carrying(document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the boot ids of the machines of of_carrying_machines()."""
    hypervisors = document.get("hypervisors")
    return list(
        dict.fromkeys(each["machine"] for each in hypervisors.values()) if hypervisors else document["pressure"]
    )


def of_guests(document: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """Return the pressure of the machines of the fleet that are on hypervisors; none without hypervisors."""
    carriers = {each["machine"] for each in document.get("hypervisors", {}).values()}
    return [each for machine, each in document["pressure"].items() if machine not in carriers] if carriers else []


def figures(machines: _Machines) -> dict[str, float | None]:
    """Return the pressure during a phase: sums over the machines, but the highest share of stalled time and latency.

    Returns:
        C(page_ins), C(page_outs), C(major_faults) per second; C(psi_memory), C(psi_io) in percent of the time;
        C(swap_used_mb), C(available_mb), C(compressed_mb) (zswap and zram, before compression, and C(pool_mb), what
        they use) at the end; C(read_ms), C(write_ms), the mean latency of the slowest disk.
    """
    known = list(machines)
    return {
        "page_ins": total(_rate(each, "pswpin", "zswpin") for each in known),
        "page_outs": total(_rate(each, "pswpout", "zswpout") for each in known),
        "major_faults": total(_rate(each, "pgmajfault") for each in known),
        "psi_memory": highest(_share(each, "psi_memory_some_us") for each in known),
        "psi_io": highest(_share(each, "psi_io_some_us") for each in known),
        "swap_used_mb": total(_after(each, "swap_used_bytes") for each in known),
        "available_mb": total(_after(each, "mem_available_bytes") for each in known),
        "compressed_mb": total(_after(each, "zswap_stored_bytes", "zram_stored_bytes") for each in known),
        "pool_mb": total(_after(each, "zswap_compressed_bytes", "zram_used_bytes") for each in known),
        "read_ms": _slowest(known, "read"),
        "write_ms": _slowest(known, "write"),
    }


def total(values: t.Iterable[float | None]) -> float | None:
    """Return the sum; None if a value is unknown, or there is none."""
    known = list(values)
    return sum(t.cast("list[float]", known)) if known and None not in known else None


def highest(values: t.Iterable[float | None]) -> float | None:
    """Return the highest value; None if one is unknown, or there is none."""
    known = list(values)
    return max(t.cast("list[float]", known)) if known and None not in known else None


def _rate(machine: t.Mapping[str, t.Any] | None, *names: str) -> float | None:
    """Return the sum of counters per second; None if one of them is unknown."""
    counters: t.Mapping[str, float] = (machine or {}).get("counters", {})
    doubtful = (machine or {}).get("doubtful", [])
    for name in names:
        lacked = _PART_OF.get(name) in counters and name not in doubtful
        if name not in counters and not lacked:
            return None
    seconds = counters.get("clock_s")
    return sum(counters.get(name, 0) for name in names) / seconds if seconds else None


def _share(machine: t.Mapping[str, t.Any] | None, name: str) -> float | None:
    """Return a stalled time as a percentage of the phase."""
    rate = _rate(machine, name)
    return None if rate is None else rate / 10_000


def _after(machine: t.Mapping[str, t.Any] | None, *names: str) -> float | None:
    """Return the sum of the gauges that a machine has, at the end, in MB; None if it has none of them."""
    gauges = (machine or {}).get("gauges", {})
    known = [gauges[name][1] for name in names if name in gauges]
    return sum(known) / 1e6 if known else None


def _slowest(machines: _Machines, direction: str) -> float | None:
    """Return the mean latency of the disk that was slowest; None if no disk was used, or a machine is unknown."""
    means = []
    for machine in machines:
        if machine is None:
            return None
        counters = machine.get("counters", {})
        for name in filter(None, map(_DISK_READS.fullmatch, counters)):
            done = counters.get(f"disk.{name['name']}.{direction}s", 0)
            spent = counters.get(f"disk.{name['name']}.{direction}_ms")
            if done and spent is not None:
                means.append(spent / done)
    return max(means, default=None)


class PressureByMachine:
    """Collects the pressure of the iterations of a run, by cell: each carrier's, and that of its guests together."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, list[dict[str, float | None]]]] = {}
        self._names: dict[str, str] = {}

    def add(self, document: t.Mapping[str, t.Any]) -> None:
        """Add the document of a phase."""
        phase = document["phase"]
        if phase["kind"] != "iteration":
            return
        cell = self._found.setdefault(configuration.cell_name(phase), {})
        carriers, guests = of_carriers(document), of_guests(document)
        if document.get("hypervisors"):
            for name, each in carriers.items():
                cell.setdefault(name, []).append(figures([each]))
            if guests:
                cell.setdefault(f"{len(guests)} guest{'s' if len(guests) > 1 else ''}", []).append(figures(guests))
        else:
            cell.setdefault(_title(len(carriers)), []).append(figures(of_carrying_machines(document)))

    def of(self, cell: t.Mapping[str, t.Any]) -> dict[str, dict[str, float | None]]:
        """Return the figures of a cell by machine, each the mean over its iterations; None where one is unknown."""
        found = self._found.get(configuration.cell_name(cell), {})
        return {name: _means(several) for name, several in found.items()}


def _title(machines: int) -> str:
    return "the fleet's machine" if machines == 1 else f"the fleet's {machines} machines"


def _means(several: t.Sequence[t.Mapping[str, float | None]]) -> dict[str, float | None]:
    """Return the means over iterations. An iteration without I/O has no latency, and does not make it unknown."""
    means: dict[str, float | None] = {}
    for name in several[0]:
        known = [value for each in several if (value := each[name]) is not None]
        whole = len(known) == len(several) or (known and name in LATENCIES)
        means[name] = float(f"{statistics.fmean(known):.4g}") if whole else None
    return means
