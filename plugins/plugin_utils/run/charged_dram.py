# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The charged DRAM of a run: what its fleet really took from its DRAM budget, and what follows from that."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, size_text
from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import (
    Fields,
    Flag,
    Listed,
    Message,
    OneOf,
    Optional,
    Real,
    Table,
    Text,
    Whole,
)

# The maximum of the charged DRAM may be this share of the budget: the sum is read while pages move.
MOST_OF_BUDGET = 1.02
# The host may have lost this share of the charged DRAM in addition. A larger one is a warning only: other programs of
# the host move this figure, too.
HOST_TOLERANCE = 0.05

# The longest series of page-ins: a phase of a day.
_MOST_INTERVALS = 100_000

_BYTES = Whole(-(2**62), 2**62)
DOCUMENT = Fields(
    {
        "machine": Text(),
        "mechanism": OneOf(("cgroup", "hugepages")),
        "budget_bytes": Whole(1),
        "group_processes": Optional(Whole()),
        "fits": Optional(Flag()),
    },
    {
        "fit": Optional(
            Fields({}, {"limit": Whole(), "steps": Whole(), "ratio": Optional(Real()), "why": Message()}),
        ),
        "samples": Whole(),
        "charged_bytes": Optional(Fields({"maximum": Whole(), "mean": Whole()})),
        "parts": Table(Optional(_BYTES), 20),
        "compression_ratio": Optional(Real()),
        "client_bytes": Whole(),
        "limit_bytes": Optional(Listed(Whole(), 2, 2)),
        "limit_hits": Optional(Whole()),
        "reclaim_cpu_s": Real(0),
        "host_check": Optional(
            Fields({"host_bytes": _BYTES, "charged_bytes": _BYTES, "difference": Real(-1e9, 1e9)}),
        ),
        "page_ins": Optional(
            Fields({"age_s": Real(), "interval_s": Real(0.1, 60), "per_second": Listed(Real(), _MOST_INTERVALS)})
        ),
    },
)

_Document = t.Mapping[str, t.Any]


def reading(answer: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return the accepted part of what the module dram_budget returned on a host.

    Args:
        answer: with the keys that the module documents, and those of any module.

    Raises:
        MeasurementError: a key is missing or does not fit.
    """
    if "charged_dram" not in answer:
        return answer
    return {**answer, "charged_dram": Optional(DOCUMENT).check("charged_dram", answer["charged_dram"])}


def hosts_with_budget(run: _Document) -> dict[str, str]:
    """Return the hosts that were given a DRAM budget for a run, with the boot id of each.

    Args:
        run: run.json, or what the action C(benchmark_run) returned.
    """
    return {
        name: (record.get("kernel") or {}).get("boot_id") or name
        for name, record in run.get("hosts", {}).items()
        if (record.get("tuning") or {}).get("dram_budget")
    }


def check_groups(answers: t.Mapping[str, _Document]) -> None:
    """Refuse DRAM budgets that do not limit the fleet, because no process is in their groups.

    Some of several hypervisors may carry no VM of this fleet, and huge pages have no group.

    Args:
        answers: what a loop of the module C(dram_budget) over hosts returned, by the host that worked for them.

    Raises:
        SettingError: none of the groups has a process.
    """
    processes = {
        each["item"]: document["group_processes"]
        for answer in answers.values()
        for each in answer.get("results", [])
        if (document := each.get("charged_dram")) and document["group_processes"] is not None
    }
    if processes and not any(processes.values()):
        raise SettingError(
            f"host_tuning_dram_budget: the fleet is not in the control group of its DRAM budget, because no process is "
            f"({', '.join(sorted(processes))}). Set group in host_tuning_dram_budget to the group that the fleet runs "
            f"in: machine.slice for VMs of libvirt, or the slice of redis_systemd_slice"
        )


def reasons(charged: _Document, expected: _Document) -> list[str]:
    """Explain why the charged DRAM makes a phase invalid; nothing if it does not.

    A fleet that does not fit is not invalid. It fails: see Summary.failures().

    Args:
        charged: the documents of the machines, by boot id.
        expected: the machines with a budget: their boot ids, by host.
    """
    found = []
    for host, machine in expected.items():
        document = charged.get(machine)
        taken = document and document["charged_bytes"]
        if document and document["fits"] is False:
            continue
        if not document or not taken:
            found.append(f"{host}: its charged DRAM is unknown, so the fleet may have taken more than its DRAM budget")
        elif taken["maximum"] > MOST_OF_BUDGET * document["budget_bytes"]:
            budget = document["budget_bytes"]
            found.append(
                f"{host}: over budget, the fleet took up to {size_text(taken['maximum'])} of DRAM, "
                f"{taken['maximum'] / budget:.1%} of its budget of {size_text(budget)}; at most {MOST_OF_BUDGET:.0%} "
                f"is allowed. A longer warm-up lets compressed memory settle before the limit is fixed"
            )
        elif document["limit_bytes"] and document["limit_bytes"][0] != document["limit_bytes"][1]:
            low, high = map(size_text, document["limit_bytes"])
            found.append(
                f"{host}: the limit of the fleet's control group changed between {low} and {high} in the phase"
            )
    return found


def warnings(charged: _Document) -> list[str]:
    """Find where the host's own free memory disagrees with the charged DRAM of a phase."""
    return [
        f"host check: the host's memory in use {_changed(check['host_bytes'])} and the charged DRAM "
        f"{_changed(check['charged_bytes'])}, a difference of {check['difference']:+.1%} of the charged DRAM; up to "
        f"{HOST_TOLERANCE:.0%} is expected. Did other programs of the host allocate or free memory?"
        for document in charged.values()
        if (check := document.get("host_check")) and abs(check["difference"]) > HOST_TOLERANCE
    ]


def _changed(size: int) -> str:
    return f"{'fell' if size < 0 else 'grew'} by {size_text(abs(size))}"


def is_too_large(summary: _Document) -> bool:
    """Decide whether the fleet of a run does not fit into its DRAM budget.

    It then ran without a limit, so its latency is that of a larger host.

    Args:
        summary: summary.json, or the entry of a probe in density.json; early ones have no charged DRAM.
    """
    return (summary.get("dram") or {}).get("fits") is False


class Summary:
    """Collects the charged DRAM of a run from its measured phases."""

    def __init__(self) -> None:
        self._machines: dict[str, list[_Document]] = {}

    def add(self, phase: _Document) -> None:
        """Add the document of a phase."""
        if phase["phase"]["kind"] == "iteration":
            for machine, document in (phase.get("charged_dram") or {}).items():
                self._machines.setdefault(machine, []).append(document)

    def document(self) -> dict[str, t.Any] | None:
        """Return C(dram) of summary.json; None if no machine had a DRAM budget.

        Returns:
            C(budget_bytes), C(charged_bytes) (the maximum), C(mean_bytes): sums over machines, None if one is unknown.
            C(machines). C(compression_ratio) of all machines together, None without compressed memory. C(fits), False
            if the fleet does not fit into the budget of one machine; None if that was not tried on any.
        """
        if not self._machines:
            return None
        taken = [[document["charged_bytes"] for document in each] for each in self._machines.values()]
        known = all(each for documents in taken for each in documents)
        ratios = [each["compression_ratio"] for documents in self._machines.values() for each in documents]
        ratios = [ratio for ratio in ratios if ratio]
        fits = [each["fits"] for documents in self._machines.values() for each in documents]
        return {
            "budget_bytes": sum(documents[0]["budget_bytes"] for documents in self._machines.values()),
            "charged_bytes": sum(max(each["maximum"] for each in one) for one in taken) if known else None,
            "mean_bytes": sum(round(sum(each["mean"] for each in one) / len(one)) for one in taken) if known else None,
            "machines": len(self._machines),
            "compression_ratio": round(sum(ratios) / len(ratios), 3) if ratios else None,
            "fits": False if False in fits else True if True in fits else None,
        }

    def failures(self) -> list[str]:
        """Return one sentence for each machine whose fleet does not fit into its DRAM budget."""
        sentences = {}
        for machine, documents in self._machines.items():
            for document in documents:
                if document["fits"] is False:
                    taken = document["charged_bytes"]
                    size = size_text(taken["maximum"]) if taken else "an unknown part"
                    why = (document.get("fit") or {}).get("why") or "it cannot be brought within its budget"
                    sentences[machine] = (
                        f"does not fit: the fleet took {size} of DRAM, its budget is "
                        f"{size_text(document['budget_bytes'])}, and {why}"
                    )
        return list(sentences.values())
