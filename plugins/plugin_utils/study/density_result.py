# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a density search: lines for the terminal, density.json, .txt and .html."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report import cost_text
from ansible_collections.memstretch.density.plugins.plugin_utils.report.density_page import density_page
from ansible_collections.memstretch.density.plugins.plugin_utils.report.text import grid, microseconds
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import (
    INVALID,
    PASS,
    DensitySearch,
    Finding,
)


def probed(run: t.Mapping[str, t.Any], finding: Finding) -> list[str]:
    """Return the result of a probe, and what is known after it."""
    lost = f", lost {', '.join(run['lost'])}" if run["lost"] else ""
    known = f"so far at least {finding.density}" + (f", less than {finding.next_size}" if finding.next_size else "")
    figures = f"p99 {microseconds(run['p99_us'])} us, of the worst host {microseconds(run['worst_host_p99_us'])} us"
    return [
        f"   {run['arm']}, {run['size']} hosts: {run['outcome'].upper()}, "
        f"{run['hosts_within_slo']} within the SLO{lost}; {figures} | {known}"
    ]


def conclude(document: dict[str, t.Any]) -> None:
    """Add C(density) to the document, one entry for each arm; docs/study.md explains it."""
    definition, found = document["definition"], []
    for arm in definition["arms"]:
        runs = [run for run in document["runs"] if run["arm"] == arm["name"]]
        search = DensitySearch(definition["maximum"], definition["start"], definition["repeats"])
        for run in runs:
            search.add(run["size"], run["outcome"])
        finding = search.finding()
        sizes = {size.size: size for size in search.sizes()}
        found.append(
            {
                "name": arm["name"],
                "density": finding.density,
                "limited_by": finding.limited_by,
                "next_size": finding.next_size,
                "decided": finding.decided,
                "votes": {
                    str(size): _votes(sizes[size]) for size in (finding.density, finding.next_size) if size in sizes
                },
                "contradictions": [list(pair) for pair in finding.contradictions],
                "labels": list(dict.fromkeys(label for run in runs for label in run["labels"])),
                "curve": [_point(size, [run for run in runs if run["size"] == size.size]) for size in search.sizes()],
            }
        )
    first = found[0]["density"]
    for each in found:
        each["ratio"] = round(each["density"] / first, 3) if first else None
    document["density"] = found
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
    lines = table(document) + cost_text.lines(document["cost"])
    directory.write_json("density.json", document)
    directory.write_text("density.txt", "\n".join(lines).strip() + "\n")
    directory.write_text("density.html", density_page(document, reason, contradictions))
    for line in lines:
        say(line)
    say(f"Density: {directory.file('density.html')}")


def _at_density(
    directory: RunDirectory, document: t.Mapping[str, t.Any], found: t.Mapping[str, t.Any]
) -> cost.Measured:
    """Return the probes that passed at the density, or all probes of the arm if none passed."""
    of_arm = [run for run in document["runs"] if run["arm"] == found["name"]]
    runs = [run for run in of_arm if (run["size"], run["outcome"]) == (found["density"], PASS)]
    directories = [RunDirectory(directory.results_dir, run["run_id"]) for run in runs or of_arm]
    return cost.Measured(found["name"], directories, "pass" if runs else "fail", found["density"])


def table(document: t.Mapping[str, t.Any]) -> list[str]:
    """Return the densities, how certain they are, and the curves."""
    slo, baseline = document["slo"], document["density"][0]["name"]
    columns = (
        ("profile", lambda each: each["name"]),
        ("density", lambda each: str(each["density"])),
        (f"x {baseline}", lambda each: "-" if each["ratio"] is None else f"{each['ratio']:.2f}"),
        ("", reason),
    )
    curve = (
        ("profile", lambda row: row["name"]),
        ("hosts", lambda row: str(row["size"])),
        (
            "passed",
            lambda row: (
                f"{row['passed']} of {row['passed'] + row['failed']}"
                + (f", {row['invalid']} invalid" if row["invalid"] else "")
            ),
        ),
        ("within SLO", lambda row: str(row["hosts_within_slo"])),
        ("avg us", lambda row: microseconds(row["avg_us"])),
        ("p99", lambda row: microseconds(row["p99_us"])),
        ("worst host's", lambda row: microseconds(row["worst_host_p99_us"])),
        ("", lambda row: f"lost {', '.join(row['lost'])}" if row["lost"] else ""),
    )
    lines = [
        "",
        f"Density: the largest fleet whose hosts all meet avg <= {slo['avg_us']:g} us and p99 <= {slo['p99_us']:g} us",
        *grid(columns, document["density"]),
        "",
        "Probes (worst cell of each; median over the valid probes of a size):",
        *grid(curve, [{**row, "name": each["name"]} for each in document["density"] for row in each["curve"]]),
    ]
    for each in document["density"]:
        lines += [f"  {each['name']}: {text}" for text in (*contradictions(each), *each["labels"])]
    return lines


def reason(found: t.Mapping[str, t.Any]) -> str:
    """Return why a density is not larger, and how certain that is."""

    def votes(size: int) -> str:
        each = found["votes"].get(str(size))
        return f"{each['passed']} of {each['passed'] + each['failed']} probes of {size} passed" if each else ""

    at = votes(found["density"])
    if found["limited_by"] == "maximum":
        return f"{at}; no larger fleet was allowed"
    if found["limited_by"] == INVALID:
        return f"{at}{'; ' if at else ''}at least this many: a fleet of {found['next_size']} could not be judged"
    return "; ".join(text for text in (at, votes(found["next_size"])) if text) + (
        "" if found["decided"] else "; the search is not finished"
    )


def contradictions(found: t.Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each size that failed although a larger one passed."""
    return [
        f"not monotonic: a fleet of {low} fails and one of {high} passes; "
        f"the density is the largest passing size below {low}"
        for low, high in found["contradictions"]
    ]


def _votes(size: t.Any) -> dict[str, int]:
    return {"passed": size.passed, "failed": size.failed, "invalid": size.invalid}


def _point(size: t.Any, runs: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    """Return the probes of a size as one point of the curve. Figures of invalid probes are ignored."""
    valid = [run for run in runs if run["outcome"] != INVALID]
    return {
        "size": size.size,
        **_votes(size),
        "hosts_within_slo": min((run["hosts_within_slo"] for run in valid), default=0),
        **{name: _median(run[name] for run in valid) for name in ("avg_us", "p99_us", "worst_host_p99_us")},
        "lost": sorted({host for run in runs for host in run["lost"]}),
    }


def _median(values: t.Iterable[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known else None
