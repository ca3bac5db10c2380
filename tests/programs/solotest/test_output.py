# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program prints: the six lines, the JSON object, the raw samples; and that they agree."""

from __future__ import annotations

import pathlib
import re

import pytest
import truth
from hdrh.histogram import HdrHistogram

LATENCIES = ["service", "response", "intended", "lateness", "wakeup", "server"]


def measure(port):
    """The arguments of a usual test."""
    return ["test", port, 100, 1000, 0, 5000]


def counts(histogram):
    """The sparse buckets as a dictionary."""
    pairs = histogram["buckets"]
    return dict(zip(pairs[::2], pairs[1::2]))


def test_six_lines_are_those_of_the_raw_samples(solotest, filled, tmp_path):
    raw = tmp_path / "raw"
    result = solotest.run("--raw", raw, "--requests", 2000, *measure(filled.port))
    assert result.code == 0, result
    assert re.fullmatch(r"\d+\n(\d\.\d{6}e[+-]\d\d\n){5}", result.output)
    count, average, minimum, maximum, p99, p95 = result.lines
    service = [value / 1e9 for value in truth.read_raw(raw)[0]]
    assert count == len(service) == 2000
    assert average == pytest.approx(sum(service) / 2000, rel=1e-6)
    assert minimum == pytest.approx(min(service), rel=1e-6)
    assert maximum == pytest.approx(max(service), rel=1e-6)
    for reported, permille in ((p99, 990), (p95, 950)):
        exact = truth.percentile(service, permille)
        assert exact * (1 - 1e-6) <= reported <= exact * (1 + 1 / 128) * (1 + 1e-6)


def known(column):
    """Return the samples of a column without those that are unknown, because the client was away while it sent."""
    assert column.count(None) < len(column) / 2
    return [value for value in column if value is not None]


def test_histograms_are_those_of_the_raw_samples(solotest, filled, tmp_path):
    raw = tmp_path / "raw"
    result = solotest.run("--json", "--raw", raw, "--requests", 3000, *measure(filled.port))
    columns = truth.read_raw(raw)
    for name, column in zip(LATENCIES, columns):
        histogram, values = result.json["test"]["latency"][name], known(column)
        assert histogram["count"] == len(values) == sum(counts(histogram).values())
        assert histogram["sum_ns"] == sum(values)
        assert histogram["min_ns"] == min(values)
        assert histogram["max_ns"] == max(values)
        for key, permille in (("p50_ns", 500), ("p95_ns", 950), ("p99_ns", 990), ("p999_ns", 999)):
            exact = truth.percentile(values, permille)
            assert exact <= histogram[key] <= exact * (1 + 1 / 128)
    for service, response, intended, lateness, wakeup, server in zip(*columns):
        assert intended == response + lateness
        assert intended >= service
        assert server is None or (service >= wakeup and intended >= server)


def test_without_time_stamps_there_is_no_lower_bound(solotest, filled, tmp_path):
    raw = tmp_path / "raw"
    result = solotest.run("--json", "--raw", raw, "--requests", 100, "--pacing", "none", *measure(filled.port))
    latency = result.json["test"]["latency"]
    assert latency["service"]["count"] == 100 and latency["server"]["count"] == latency["wakeup"]["count"] == 0
    assert latency["server"]["max_ns"] is None
    assert set(truth.read_raw(raw)[5]) == {None}


def test_histograms_are_hdr_histograms(solotest, filled, tmp_path):
    raw = tmp_path / "raw"
    result = solotest.run("--json", "--raw", raw, "--requests", 3000, *measure(filled.port))
    for name, column in zip(LATENCIES, truth.read_raw(raw)):
        ours = result.json["test"]["latency"][name]
        theirs = HdrHistogram(1, 2**63 - 1, 2)
        for value in known(column):
            theirs.record_value(value)
        assert {i: c for i, c in enumerate(theirs.counts) if c} == counts(ours)
        assert theirs.get_total_count() == ours["count"]


def test_merged_histograms_are_those_of_all_raw_samples(solotest, filled, tmp_path):
    merged, values = {}, []
    for run in range(3):
        raw = tmp_path / f"raw{run}"
        result = solotest.run("--json", "--raw", raw, "--requests", 1000, *measure(filled.port))
        values += truth.read_raw(raw)[1]
        for index, count in counts(result.json["test"]["latency"]["response"]).items():
            merged[index] = merged.get(index, 0) + count
    whole = HdrHistogram(1, 2**63 - 1, 2)
    for value in values:
        whole.record_value(value)
    assert merged == {i: c for i, c in enumerate(whole.counts) if c}


def test_every_part_of_the_json_is_there(solotest, filled):
    report = solotest.run("--json", "--seed", 7, "--requests", 1000, *measure(filled.port)).json
    assert set(report) >= {
        "schema",
        "client",
        "mode",
        "settings",
        "error",
        "interrupted",
        "fill",
        "test",
        "client_health",
    }
    assert report["schema"] == 1 and report["mode"] == "test" and report["error"] is None
    assert set(report["client"]) == {"name", "version", "hiredis", "tls", "compiler", "static"}
    assert report["client"]["tls"] is None
    assert report["client"]["static"] is True
    assert report["settings"] == {
        "host": "127.0.0.1",
        "port": filled.port,
        "socket": None,
        "tls": False,
        "value_size": 100,
        "key_count": 1000,
        "requests": 1000,
        "duration_s": None,
        "influence": 0,
        "rate": 5000,
        "read_mix": 100,
        "pattern": "gaussian",
        "connections": 1,
        "pipeline": 1,
        "pacing": "hybrid",
        "arrivals": "periodic",
        "spin_us": 0,
        "start_at": None,
        "stagger": 0,
        "seed": 7,
        "compressibility": 0,
        "cpu": None,
        "timeout_s": 30,
    }
    test = report["test"]
    assert set(test) == {
        "started_at",
        "finished_at",
        "ready_at",
        "seconds",
        "cut_off",
        "requests",
        "rate",
        "latency",
        "hot_set",
        "series",
    }
    assert test["requests"] == {
        "planned": 1000,
        "sent": 1000,
        "ok": 1000,
        "gets": 1000,
        "sets": 0,
        "lost": 0,
        "not_sent": 0,
        "other_size": 0,
        "errors": {},
    }
    assert test["ready_at"] <= test["started_at"] < test["finished_at"]
    assert test["rate"]["target"] == 5000
    assert set(report["client_health"]) == {
        "major_faults",
        "minor_faults",
        "voluntary_switches",
        "involuntary_switches",
        "user_s",
        "system_s",
        "cpu_share",
        "cpu_wait_s",
        "steal_ticks",
        "clock_source",
        "memory_locked",
        "max_rss_kb",
        "cpu_first",
        "cpu_last",
        "cpus_allowed",
        "realtime",
        "realtime_refused",
        "spin_us_at_end",
    }


def test_the_spin_at_the_end_is_that_of_hybrid_pacing(solotest, filled):
    def spin(*options):
        report = solotest.run("--json", "--realtime", "off", *options, "--requests", 500, *measure(filled.port)).json
        return report["client_health"]["spin_us_at_end"]

    assert 0 <= spin() <= 150
    assert 60 <= spin("--spin-us", 60) <= 150
    assert spin("--spin-us", 160) == 160
    for other in ("sleep", "spin", "none"):
        assert spin("--pacing", other) is None


def test_the_servers_process_is_named(solotest, filled):
    report = solotest.run("--json", "ping", filled.port).json
    assert report["server_before"]["process_id"] == filled.process.pid


def test_other_builds_say_what_they_are(build_of, filled):
    for name, compiler in (("solotest-dynamic", "gcc"), ("solotest-clang", "clang")):
        report = build_of(name).run("--json", "--requests", 10, *measure(filled.port)).json
        assert report["client"]["static"] is False
        assert report["client"]["compiler"].startswith(compiler)


def test_the_series_adds_up_to_the_histogram(solotest, filled):
    report = solotest.run("--json", "--requests", 3000, *measure(filled.port)).json
    series, response = report["test"]["series"], report["test"]["latency"]["response"]
    assert 1 <= len(series["points"]) <= 120
    assert sum(point[0] for point in series["points"]) == response["count"]
    assert max(point[3] for point in series["points"]) == response["max_ns"]
    assert all(average <= maximum and p99 <= maximum for _count, average, p99, maximum in series["points"])
    whole = sum(point[0] * point[1] for point in series["points"])
    assert response["sum_ns"] - response["count"] <= whole <= response["sum_ns"]


def test_the_series_of_a_short_closed_loop_has_points(solotest, filled):
    """20,000 requests take a fraction of a second, of which a curve is drawn."""
    report = solotest.run("--json", "--pacing", "none", "--requests", 20_000, *measure(filled.port)).json
    series = report["test"]["series"]
    assert 10 <= len(series["points"]) <= 120
    assert sum(point[0] for point in series["points"]) == report["test"]["requests"]["ok"]


def test_the_series_of_a_long_closed_loop_stays_short(solotest, filled):
    report = solotest.run("--json", "--pacing", "none", "--duration", 1.5, *measure(filled.port)).json
    assert report["test"]["rate"]["target"] is None
    assert 10 <= len(report["test"]["series"]["points"]) <= 120
    assert sum(point[0] for point in report["test"]["series"]["points"]) == report["test"]["requests"]["ok"]


def test_fill_reports_its_rate_and_the_exact_size(solotest, fresh):
    result = solotest.run("--json", "fill", fresh.port, 100, 5000)
    fill = result.json["fill"]
    assert result.code == 0 and result.json["test"] is None
    assert fill["keys"] == fill["dbsize"] == fresh.dbsize() - 1 == 5000  # the note does not count
    assert fill["keys_per_second"] == pytest.approx(5000 / fill["seconds"], rel=1e-3)
    assert fill["started_at"] < fill["finished_at"]


def test_filltest_does_both_and_fill_alone_prints_nothing(solotest, fresh):
    result = solotest.run("FillTest", fresh.port, 100, 500, 0, 5000)
    assert result.code == 0 and result.lines[0] == 500
    result = solotest.run("fill", fresh.port, 100, 500)
    assert result.code == 0 and result.output == "" and "filled 500 keys" in result.messages


def test_progress_goes_to_standard_error(solotest, filled):
    result = solotest.run("--progress", "--requests", 1300, "test", filled.port, 100, 1000, 0, 1000)
    assert result.code == 0 and result.lines[0] == 1300
    assert re.search(r"^test: \d+ of 1300 \(\d+\.\d %\), \d+ per second, response average", result.messages, re.M)


def test_help_and_version(solotest):
    result = solotest.run("--help")
    assert result.code == 0 and "--start-at" in result.output and "READ_MIX" in result.output
    result = solotest.run("--version")
    assert result.code == 0 and re.match(r"solotest \d+\.\d+\.\d+ \(hiredis [\d.]+, without TLS, ", result.output)


def test_the_manual_names_every_option(solotest):
    manual = (pathlib.Path(__file__).parents[3] / "files" / "solotest.1").read_text(encoding="ascii")
    options = re.findall(r"^  (--[a-z-]+)", solotest.run("--help").output, re.M)
    assert len(options) > 20
    for option in options:
        assert option.replace("-", r"\-") in manual


def test_minus_one_is_sets_only_and_the_servers_cpu_time_is_told(solotest, fresh):
    result = solotest.run(
        "--json",
        "--pacing",
        "none",
        "--pattern",
        "sequential",
        "--pipeline",
        16,
        "test",
        fresh.port,
        100,
        5000,
        0,
        1,
        -1,
    ).json

    assert result["settings"]["read_mix"] == -1
    assert (result["test"]["requests"]["sets"], result["test"]["requests"]["gets"]) == (5000, 0)
    assert result["server_after"]["dbsize"] == 5000
    assert (
        0 < result["server_after"]["cpu_s"] - result["server_before"]["cpu_s"] <= 1.1 * result["test"]["seconds"] + 0.1
    )
