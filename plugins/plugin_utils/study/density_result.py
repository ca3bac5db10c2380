# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a density search: density.json, .txt and .html, and the lines for the terminal."""

from __future__ import annotations

import math
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import cost_text, density_text, headline, index
from ansible_collections.memstretch.density.plugins.plugin_utils.report.density_page import density_page
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import microseconds
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL, INVALID, PASS, UNDECIDED
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study import attempts, calibration, overcommit
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_model import ratio_bound
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import (
    DensitySearch,
    next_probe,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_target import FirstSearch, TargetSearch

# A host that misses the SLO in every probe that holds it is called sick after this many probes.
SICK_PROBES = 3

_Run = t.Mapping[str, t.Any]


def searches(document: t.Mapping[str, t.Any]) -> dict[str, DensitySearch]:
    """Return the search of each arm as the attempts of a density.json left it."""
    definition = document["definition"]
    # What fits into DRAM is the best first guess.
    start = document["calibration"]["fitting"] if "calibration" in document else definition["start"]
    found: dict[str, DensitySearch] = {}
    for arm in definition["arms"]:
        found[arm["name"]] = _search(definition, start, next(iter(found.values()), None))
    for run in document["runs"]:
        found[run["arm"]].add(run["size"], run["outcome"])
    return found


def probes_left(document: t.Mapping[str, t.Any]) -> int:
    """Count how many probes a search still needs if each ends as what is known makes most likely.

    Real outcomes are less regular, so it is an estimate.
    """
    of_arms, left = searches(document), 0
    while (probe := next_probe(of_arms)) is not None:
        name, size = probe
        search = of_arms[name]
        passes, does_not_fail = (size <= curve.n50.median for curve in (search.passes, search.not_fails))
        search.add(size, PASS if passes else UNDECIDED if does_not_fail else FAIL)
        left += 1
    return left


def left_text(left: int, seconds: float, longest: float) -> str:
    """Count how many probes are left, and how many of them there is time for.

    Args:
        left: what probes_left() returned.
        seconds: until no more probes are begun.
        longest: seconds that the longest probe so far took; 0 if it is unknown.
    """
    text = f"about {counted(left, 'probe')} left"
    if not longest or left * longest <= seconds:
        return text
    return f"{text}, time for {max(1, int(seconds / longest))}"


def _search(definition: t.Mapping[str, t.Any], start: int | None, first: DensitySearch | None) -> DensitySearch:
    """Return a search without probes.

    Args:
        definition: of the search.
        start: the first size; after a calibration, the number of hosts that fit into DRAM.
        first: the search under the first profile; None for itself.
    """
    if "overcommit" in definition:
        return overcommit.GivenSizes(definition, start or 1)
    if "target" in definition:
        return (
            TargetSearch(definition, start, first) if isinstance(first, FirstSearch) else FirstSearch(definition, start)
        )
    return DensitySearch(definition["maximum"], definition["probes"], definition["factor"], start)


def probed(run: _Run, search: DensitySearch) -> list[str]:
    """Return the result of a probe, and what is known after it."""
    lost = f", lost {', '.join(run['lost'])}" if run["lost"] else ""
    figures = f"p99 {microseconds(run['p99_us'])} us, highest of a host {microseconds(run['worst_host_p99_us'])} us"
    passes, not_fails = (density_text.size(each._asdict()) for each in search.estimate())
    known = passes if passes == not_fails else f"{passes}, undecided up to {not_fails}"
    return [
        f"   {run['arm']}, {counted(run['size'], 'host')}: {run['outcome'].upper()}, "
        f"{run['hosts_within_slo']} within the SLO{lost}; {figures} | N90 so far {known}"
    ]


def conclude(document: dict[str, t.Any]) -> None:
    """Add C(density) to the document, one entry for each arm; docs/study.md explains it."""
    of_arms = searches(document)
    baseline = next(iter(of_arms.values()))
    document["density"] = [
        _found(
            name,
            search,
            baseline,
            [run for run in document["runs"] if run["arm"] == name],
            document.get("out_of_time", False),
        )
        for name, search in of_arms.items()
    ]
    if "overcommit" in document["definition"]:
        document["overcommit"] = overcommit.found(document)
    document["derived"] = document.get("calibration") and calibration.sentence(document["calibration"])
    document["labels"] = site_check.labels(document.get("site_checks", []))
    document["slo"] = document["runs"][0]["slo"] if document["runs"] else None


def publish(
    directory: RunDirectory,
    document: dict[str, t.Any],
    say: t.Callable[[str], None],
    prices: t.Mapping[str, t.Any] | None = None,
) -> None:
    """Write density.json, .txt and .html, and show the table. Prices are from cost.prices()."""
    conclude(document)
    document["cost"] = prices and cost.of_runs(
        prices, [_at_density(directory, document, each) for each in document["density"]]
    )
    document["attempts_summary"] = attempts.summary(document.get("attempts", []), ("arm", "size"))
    lines = density_text.lines(document) + site_check.lines(document.get("site_checks", []))
    lines += attempts.lines(document["attempts_summary"]) + cost_text.lines(document["cost"])
    lines += ["", *headline.all_of_density(document)]
    directory.write_json("density.json", document)
    directory.write_text("density.txt", "\n".join(lines).strip() + "\n")
    directory.write_text("density.html", density_page(document))
    index.enter(directory, "density.html", document["created_at"], headline.density(document))
    for line in lines:
        say(line)
    say(f"Density: {directory.file('density.html')}")


def _found(
    name: str, search: DensitySearch, baseline: DensitySearch, runs: t.Sequence[_Run], out_of_time: bool
) -> dict[str, t.Any]:
    """Make the entry of an arm in density.json."""
    passes, not_fails = search.estimate()
    if_discarded_failed = search.if_discarded_failed()
    return {
        "name": name,
        "density": passes.n90,
        "passes": _as_lists(passes._asdict()),
        "not_fails": _as_lists(not_fails._asdict()),
        "if_discarded_failed": if_discarded_failed and _as_lists(if_discarded_failed._asdict()),
        "stopped_by": search.stopped_by or ("minutes" if out_of_time else None),
        "indicative": search.indicative,
        "seen": _seen(runs),
        "ratio": None if search is baseline else _ratio(search, baseline),
        "probes": search.probed,
        "attempts": search.attempts,
        "discarded": len(search.discarded),
        "sick": _sick(runs),
        "labels": list(dict.fromkeys(label for run in runs for label in run["labels"])),
        "curve": [
            _point(size, [run for run in runs if run["size"] == size]) for size in sorted({run["size"] for run in runs})
        ],
    }


def _seen(runs: t.Sequence[_Run]) -> dict[str, int | list[int] | None]:
    """Sum up what the probes of an arm have shown, whatever may be concluded from them.

    Returns:
        C(missed), the smallest size at which a probe failed, None if none did. C(undecided), the sizes below it at
        which a probe was undecided. C(passed), the largest size below all these at which one passed, 0 if none did.
    """
    sizes = {outcome: {run["size"] for run in runs if run["outcome"] == outcome} for outcome in (PASS, UNDECIDED, FAIL)}
    missed = min(sizes[FAIL], default=None)
    undecided = sorted(size for size in sizes[UNDECIDED] if missed is None or size < missed)
    end = min([*undecided, *sizes[FAIL]], default=math.inf)
    return {
        "passed": max((size for size in sizes[PASS] if size < end), default=0),
        "undecided": undecided,
        "missed": missed,
    }


def _as_lists(estimate: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return an estimate as it is read back from JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in estimate.items()}


def _ratio(search: DensitySearch, baseline: DensitySearch) -> dict[str, t.Any] | None:
    """Compute how many times as many hosts an arm carries as the first one; None if that one carries none.

    An undecided probe may have met the SLO or not, in either arm. So the interval begins with the fewest hosts of the
    arm and the most of the first one, and ends the other way round. There is an estimate only without such probes, and
    with enough of the others.
    """
    low = ratio_bound(search.passes, baseline.not_fails, upper=False)
    high = ratio_bound(search.not_fails, baseline.passes, upper=True)
    if low == math.inf:
        return None
    indicative = search.indicative or baseline.indicative
    (ours, our_most), (base, base_most) = search.estimate(), baseline.estimate()
    is_plain = not indicative and (ours, base) == (our_most, base_most) and base.n90
    return {
        "estimate": round(ours.n90 / base.n90, 3) if is_plain else None,
        "interval": [round(low, 3), None if high == math.inf else round(high, 3)],
        "indicative": indicative,
    }


def _sick(runs: t.Sequence[_Run]) -> list[dict[str, t.Any]]:
    """Return the hosts that missed the SLO in each probe that held them, while most other hosts met it.

    Where most hosts miss the SLO, the fleet is overloaded, and no host is to blame.
    """
    judged = [run for run in runs if run["outcome"] != INVALID]
    found = []
    for host in sorted({host for run in judged for host in run["missed"]}):
        held = [run for run in judged if host in run["hosts"]]
        alone = [run for run in held if 2 * (len(run["missed"]) - 1) < len(run["hosts"]) - 1]
        if len(held) >= SICK_PROBES and all(host in run["missed"] for run in held) and 2 * len(alone) > len(held):
            found.append({"name": host, "probes": len(held)})
    return found


def _at_density(
    directory: RunDirectory, document: t.Mapping[str, t.Any], found: t.Mapping[str, t.Any]
) -> cost.Measured:
    """Return the probes of the size next to the density: those that passed at most at it, else those of any outcome."""
    of_arm = [run for run in document["runs"] if run["arm"] == found["name"]]
    passed = [run for run in of_arm if run["outcome"] == PASS and run["size"] <= found["density"]]
    usable = passed or of_arm
    next_to = min((run["size"] for run in usable), key=lambda size: abs(size - found["density"]))
    runs = [run for run in usable if run["size"] == next_to]
    return cost.Measured(
        found["name"],
        [RunDirectory(directory.results_dir, run["run_id"]) for run in runs],
        "pass" if found["density"] else "fail",
        found["density"],
        next_to,
        (found["passes"]["n90_interval"][0], found["not_fails"]["n90_interval"][1]),
        found["ratio"],
    )


def _point(size: int, runs: t.Sequence[_Run]) -> dict[str, t.Any]:
    """Return the probes of a size as one point of the curve. Figures of invalid probes are ignored."""
    valid = [run for run in runs if run["outcome"] != INVALID]
    counts = {"passed": PASS, "undecided": UNDECIDED, "failed": FAIL, "invalid": INVALID}
    return {
        "size": size,
        **{name: sum(run["outcome"] == outcome for run in runs) for name, outcome in counts.items()},
        "hosts_within_slo": min((run["hosts_within_slo"] for run in valid), default=0),
        **{
            name: _median(run[name] for run in valid)
            for name in ("avg_us", "p99_us", "worst_host_avg_us", "worst_host_p99_us")
        },
        "cpu_us": _median((run.get("cpu") or {}).get("total_us") for run in valid),
        "lost": sorted({host for run in runs for host in run["lost"]}),
    }


def _median(values: t.Iterable[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None
