# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section of the experiment writeback_benchmark: its answer, its figures next to the source's, and its charts."""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.experiment import knee
from ansible_collections.memstretch.density.plugins.plugin_utils.report.section import (
    Chart,
    Section,
    Table,
    hosts,
    median,
    origin,
    ratio,
    series,
)

# What the source measured: 20 GB of zeroes in sequence on a host of 6 GB, sysbench, 30 s. By size of the
# writes and number of writers: idle IOPS, IOPS under the flood by default and with vm.dirty_bytes of 15 MB; and the
# average, p95 and maximum of a write in milliseconds, by default and with 15 MB. None is not known.
_SOURCE: dict[tuple[int, int], tuple[float | None, float, float]] = {
    (16384, 10): (1500, 33, 700),
    (16384, 1): (None, 8, 400),
    (4096, 1): (1460, 0.98, 450),
}
_SOURCE_TIMES = ("1,015 / 1,591 / -", "2.22 / 12.35 / 145")
_SOURCE_TIMES_CELL = (4096, 1)
_SOURCE_SEQUENTIAL = (251, 216)
# A percentile of fewer fsyncs is their maximum.
_LEAST_FSYNCS = {"p95_ms": 20, "p99_ms": 100}


def writeback_benchmark(document: t.Mapping[str, t.Any]) -> Section:
    """Return the section of the experiment writeback_benchmark."""
    answers: list[str] = []
    sentences: list[str] = []
    doubts: list[str] = []
    tables: list[Table] = []
    charts: list[Chart] = []
    for number, (host, result, prefix) in enumerate(hosts(document)):
        answers.append(f"{prefix}{_answer(result)}")
        sentences += [f"{prefix}{text}" for text in _sentences(result)]
        doubts += [
            f"{prefix}{_setting(each)} does not count: {each['reason']}"
            for each in result["settings_measured"]
            if not each["valid"]
        ]
        doubts += [
            f"{prefix}{_setting(each)}: {each['doubt']}" for each in result["settings_measured"] if each.get("doubt")
        ]
        tables += [_source_table(prefix, result), _figures_table(prefix, result), _proof_table(prefix, result)]
        charts += _charts(f"writeback_benchmark-{number}", host, prefix, result)
    title = "Synchronous writes under a flood of dirty pages"
    return Section("writeback_benchmark", title, sentences, doubts, tables, charts, answer=" ".join(answers))


def _answer(result: t.Mapping[str, t.Any]) -> str:
    """Return the best setting, or that there is none, in one sentence."""
    where = _drive(result)
    chosen, found = result["chosen"], result["knee"]
    if not chosen:
        return f"There is no knee on {where}: {result['reason']}."
    limits = (
        "" if not found["limits"] else f" ({found['limits'][0] / 2**20:,.4g} to {found['limits'][1] / 2**20:,.4g} MiB)"
    )
    gain = found["gain"]
    least = min(each["gain"] or 0 for each in chosen["cells"])
    how_many = f"{gain[0]:.1f} ({gain[1]:.1f} to {gain[2]:.1f})" if gain else f"{least:.1f}"
    return (
        f"The knee on {where} is {_setting(chosen)}{limits}: the cell that suffers most keeps {how_many} times as much "
        f"of its idle IOPS as under {_setting(result['baseline'])}, at {chosen['sequential_share']:.0%} of the "
        f"sequential throughput there{'' if gain else ' (indicative)'}."
    )


def _drive(result: t.Mapping[str, t.Any]) -> str:
    settings = result["settings"]
    if not settings["emulated_iops"]:
        return result["disk"]["name"]
    return (
        f"an EMULATED slow drive ({settings['emulated_iops']:,} writes/s, "
        f"{settings['emulated_bandwidth'] / 1e6:,.0f} MB/s, not a drive of this host)"
    )


def _sentences(result: t.Mapping[str, t.Any]) -> list[str]:
    found = []
    repetitions = result["knee"]["repetitions"]
    there = f"there {_are(repetitions, 'repetition')}"
    if not result["knee"]["gain"]:
        found.append(f"There is no interval: that of the gain needs 3 repetitions, that of the knee 5; {there}.")
    elif repetitions < knee.MIN_FOR_LIMITS:
        found.append(
            f"The interval of the gain is at 95 %, over {repetitions} repetitions (Student's t). The knee has no "
            f"interval: it needs {knee.MIN_FOR_LIMITS} repetitions."
        )
    else:
        found.append(
            f"The intervals are at 95 %, over {repetitions} repetitions: that of the gain is Student's t, that of the "
            f"knee is what resampled repetitions choose."
        )
    if result["baseline"] and result["baseline"]["dirty_bytes"]:
        found.append(
            f"The baseline is {_setting(result['baseline'])}: nothing was written back under the host's own settings."
        )
    if result["chosen"] and not result["settings"]["emulated_iops"]:
        found += _how_to_keep(result["chosen"], result["disk"]["name"])
    return found + origin(result, f"fio {result.get('fio') or 'of an unknown version'}")


def _how_to_keep(chosen: t.Mapping[str, t.Any], disk: str) -> list[str]:
    how = []
    if chosen["dirty_bytes"]:
        how.append(f"To keep this setting: host_tuning_dirty_bytes: {chosen['dirty_bytes']}")
    if chosen["queue"]:
        queue = ", ".join(f"{name}: {value}" for name, value in sorted(chosen["queue"].items()))
        how.append(
            f"To keep this queue: the module memstretch.density.host_settings with block_queue: {{{queue}}} and "
            f"block_devices: [the path of {disk} below /dev/disk/by-id]"
        )
    return how


def _are(count: int, noun: str) -> str:
    return f"is 1 {noun}" if count == 1 else f"are {count} {noun}s"


def _name(cell: t.Mapping[str, t.Any]) -> str:
    writers = "1 writer" if cell["threads"] == 1 else f"{cell['threads']} writers"
    return f"{writers} of {cell['write_size'] / 1024:g} KiB"


def _of(setting: t.Mapping[str, t.Any] | None, cell: tuple[int, int]) -> t.Mapping[str, t.Any] | None:
    cells = setting["cells"] if setting else []
    return next((each for each in cells if (each["write_size"], each["threads"]) == cell), None)


def _source_table(prefix: str, result: t.Mapping[str, t.Any]) -> Table:
    """Return the source's figures next to ours."""
    baseline, chosen = result["baseline"], result["chosen"]
    rows = []
    for cell, (idle, default, remedy) in _SOURCE.items():
        ours, best = _of(baseline, cell), _of(chosen, cell)
        name = _name({"write_size": cell[0], "threads": cell[1]})
        rows += [
            (name, "idle IOPS", "-" if idle is None else f"{idle:,g}", median(ours and ours["idle_iops"], 1, 0)),
            (name, "IOPS under the flood, baseline", f"{default:,g}", median(ours and ours["flood_iops"], 1, 1)),
            (
                name,
                "IOPS under the flood, source 15 MB, here the knee",
                f"{remedy:,g}",
                median(best and best["flood_iops"], 1, 1),
            ),
            (name, "gain", f"{remedy / default:,.0f}", ratio(best["gain"] if best else None)),
        ]
        if cell == _SOURCE_TIMES_CELL:
            rows += [
                (name, f"average / p95 / maximum ms, {what}", source, _times(ours_or_best))
                for what, source, ours_or_best in zip(("baseline", "knee"), _SOURCE_TIMES, (ours, best))
            ]
    sequential, after = _SOURCE_SEQUENTIAL
    rows.append(("sequential MB/s", "baseline", str(sequential), median(baseline and baseline["sequential"], 1e6, 0)))
    rows.append(("sequential MB/s", "knee", str(after), median(chosen and chosen["sequential"], 1e6, 0)))
    return Table(f"{prefix}next to the source", ("cell", "figure", "source", "here"), rows)


def _times(cell: t.Mapping[str, t.Any] | None) -> str:
    if cell is None:
        return "-"
    p95 = f"{cell['p95_ms']['median']:,.2f}" if _has(cell, "p95_ms") else "-"
    return f"{cell['avg_ms']['median']:,.2f} / {p95} / {cell['max_ms']:,.0f}"


def _has(cell: t.Mapping[str, t.Any], name: str) -> bool:
    """Decide whether a cell had so many fsyncs in each repetition that a percentile of them means something."""
    return bool(cell["fsyncs"]["min"] >= _LEAST_FSYNCS.get(name, 1))


def _figures_table(prefix: str, result: t.Mapping[str, t.Any]) -> Table:
    headings = (
        "setting",
        "writers",
        "idle IOPS",
        "IOPS under the flood",
        "x baseline",
        "x idle",
        "fsyncs",
        "fsync average ms",
        "p95 ms",
        "p99 ms",
        "max ms",
        "sequential MB/s",
        "x baseline",
    )
    rows = [
        (
            _setting(setting),
            _name(each),
            median(each["idle_iops"], 1, 0),
            median(each["flood_iops"], 1, 1),
            ratio(each["gain"]),
            ratio(each["of_idle"]),
            median(each["fsyncs"], 1, 0),
            *(median(each[name], 1, 2) if _has(each, name) else "-" for name in ("avg_ms", "p95_ms", "p99_ms")),
            f"{each['max_ms']:,.1f}",
            median(setting["sequential"], 1e6, 0),
            ratio(setting["sequential_share"]),
        )
        for setting in result["settings_measured"]
        for each in setting["cells"]
    ]
    return Table(f"{prefix}writes with an fsync after each, on {_drive(result)}", headings, rows)


def _proof_table(prefix: str, result: t.Mapping[str, t.Any]) -> Table:
    """State what was written back: a flood that is not written back measures nothing."""
    headings = (
        "setting",
        "writers",
        "flood written back MB/s",
        "disk MB/s",
        "Dirty at most MiB",
        "Writeback at most MiB",
        "counts",
    )
    rows = [
        (
            _setting(setting),
            _name(each),
            median(each["writeback_per_second"], 1e6, 0),
            median(each["device_per_second"], 1e6, 0),
            f"{each['dirty_max'] / 2**20:,.0f}",
            f"{each['writeback_max'] / 2**20:,.0f}",
            "no" if not setting["valid"] else "doubtful" if setting["doubt"] else "yes",
        )
        for setting in result["settings_measured"]
        for each in setting["cells"]
    ]
    return Table(
        f"{prefix}proof of write-back: flood of {result['settings']['flood_size'] / 2**30:,.3g} GiB", headings, rows
    )


def _charts(name: str, host: str, prefix: str, result: t.Mapping[str, t.Any]) -> list[Chart]:
    valid = [each for each in result["settings_measured"] if each["valid"]]
    if not valid:
        return []
    lines: dict[str, list[list[float]]] = {}
    for setting in valid:
        size, queue = setting["limit"] / 2**20, _queue(setting["queue"])
        for each in setting["cells"]:
            if each["gain"]:
                lines.setdefault(f"{prefix}{_name(each)}{queue}", []).append([round(size, 3), each["gain"]])
        lines.setdefault(f"{prefix}sequential{queue}", []).append([round(size, 3), setting["sequential_share"]])
    drawn = [
        Chart(
            f"{name}-knee",
            f"Writes of {host} under the flood by dirty limit; the table below has the same figures",
            "dirty limit, MiB",
            "x the baseline",
            series({line: sorted(each) for line, each in lines.items()}),
            log_x=True,
            log_y=True,
        )
    ]
    shown = {"baseline": result["baseline"], "knee": result["chosen"]}
    over_time = {
        f"{prefix}{what}, {kind}": [
            [sample[0], round(sample[column] / 2**20, 1)] for cell in setting["cells"] for sample in cell["samples"]
        ]
        for what, setting in shown.items()
        if setting
        for column, kind in ((1, "Dirty"), (2, "Writeback"), (3, "disk, per second"))
    }
    return [
        *drawn,
        Chart(
            f"{name}-flood",
            f"Dirty pages of {host} and what its disk wrote, from the start of the flood, last repetition",
            "seconds since the start of the flood",
            "MiB, for the disk MiB/s",
            series(over_time),
        ),
    ]


def _setting(setting: t.Mapping[str, t.Any]) -> str:
    size = (
        f"vm.dirty_bytes {setting['dirty_bytes'] / 2**20:g} MiB"
        if setting["dirty_bytes"]
        else "the host's own settings"
    )
    return size + _queue(setting["queue"])


def _queue(queue: t.Mapping[str, t.Any]) -> str:
    return "".join(f", {name} {value}" for name, value in sorted(queue.items()))
