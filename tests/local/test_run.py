# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole run on real Redis servers, and its figures computed again by other means."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from .conftest import ANSIBLE_PLAYBOOK, LOCAL, PATIENCE, REDIS_OF_THE_PLAY, ROOT, SMALL, free_ports, write_inventory


def test_a_run_is_measured_kept_and_judged(fleet):
    fleet.add("a", "b")
    fleet.servers["b"].command("config", "set", "bind", "127.0.0.1 ::1")
    fleet.variables.update(
        latency_benchmark_host="{{ '::1' if inventory_hostname == 'b' else '127.0.0.1' }}",
        latency_benchmark_influences=[0, 10],
        latency_benchmark_read_mixes=[70],
        latency_benchmark_warmups=1,
        latency_benchmark_iterations=2,
    )
    outcome = fleet.run_playbook("-e", "profile=swap")
    assert outcome.status == 0, outcome.output
    summary = outcome.summary
    assert summary["verdict"] == "pass"
    assert summary["profile"] == "swap"
    assert summary["fleet"] == {"expected": 2, "reported": 2, "failed": [], "killed": 0}
    assert [(cell["influence"], cell["read_mix"]) for cell in summary["cells"]] == [(0, 70), (10, 70)]
    assert outcome.phase_files == [
        "01-fill.json",
        "02-i0-r70-warmup1.json",
        "03-i0-r70-1.json",
        "04-i0-r70-2.json",
        "05-i10-r70-warmup1.json",
        "06-i10-r70-1.json",
        "07-i10-r70-2.json",
    ]
    assert "[1/7] fill" in outcome.output and "[7/7] influence 10, 70 % GET, iteration 2" in outcome.output
    assert "elapsed" in outcome.output and "remaining about" in outcome.output
    assert "Verdict: PASS" in outcome.output
    assert outcome.output.count("Verdict:") == 1
    assert any("host not tuned" in label for label in summary["labels"]) and "host not tuned" in outcome.output
    for server in fleet.servers.values():
        assert server.command("dbsize") == "501"  # the keys, and the note of the fill
    assert fleet.clients() == []
    run = json.loads((outcome.run / "run.json").read_text(encoding="utf-8"))
    assert run["config"]["load"]["rate"] == 1000
    ports = {name: server.port for name, server in fleet.servers.items()}
    endpoints = {name: each["endpoint"] for name, each in run["fleet"].items()}
    assert endpoints == {"a": f"127.0.0.1:{ports['a']}", "b": f"[::1]:{ports['b']}"}
    assert any(record["kernel"]["release"] == os.uname().release for record in run["hosts"].values())
    assert run["inventory"]["groups"] == {"fleet": ["a", "b"]} and "profile=swap" in run["command"]
    assert set(run["versions"]) == {"ansible-core", "memstretch.density", "python"}
    # The files have what the terminal had.
    report = (outcome.run / "report.txt").read_text(encoding="utf-8")
    assert "Verdict: PASS" in report and report.strip() in outcome.output
    log = (outcome.run / "log.txt").read_text(encoding="utf-8")
    assert "[1/7] fill" in log and "[7/7] influence 10, 70 % GET, iteration 2" in log

    # The six figures of the brief, by hand from the hosts' own values.
    for index, cell in enumerate(summary["cells"]):
        documents = [outcome.phase(name) for name in outcome.phase_files[2 + 3 * index : 4 + 3 * index]]
        assert [sorted(document["hosts"]) for document in documents] == [["a", "b"]] * 2
        service = [host["latency"]["service"] for document in documents for host in document["hosts"].values()]
        assert cell["brief"] == {
            "hosts": 2,
            "avg_ms": round(sum(each["avg_us"] for each in service) / 4 / 1000, 3),
            "min_ms": round(min(each["min_us"] for each in service) / 1000, 3),
            "p95_ms": round(sum(each["p95_us"] for each in service) / 4 / 1000, 3),
            "p99_ms": round(sum(each["p99_us"] for each in service) / 4 / 1000, 3),
            "max_ms": round(max(each["max_us"] for each in service) / 1000, 3),
        }
        assert cell["intended"]["count"] == 2 * 2 * 500

    # The reference library reads the histograms, and merging them with it gives our percentiles.
    document = outcome.phase(outcome.phase_files[-1])
    theirs = HdrHistogram(1, 2**63 - 1, 2)
    for host in document["hosts"].values():
        theirs.decode_and_add(host["latency"]["intended"]["histogram"])
    merged = document["merged"]["intended"]
    for name, percent in (("p50_us", 50), ("p95_us", 95), ("p99_us", 99)):
        assert merged[name] == pytest.approx(
            min(theirs.get_value_at_percentile(percent), merged["max_ns"]) / 1000, abs=0.001
        )

    # So does adding up a cell's log.
    reader, logged = (
        HistogramLogReader(str(outcome.run / "histograms" / "i10-r70.hlog"), theirs),
        HdrHistogram(1, 2**63 - 1, 2),
    )
    while (interval := reader.get_next_interval_histogram()) is not None:
        if interval.tag == "intended":
            logged.add(interval)
    reader.close()
    latency = summary["cells"][1]["intended"]
    assert logged.get_total_count() == latency["count"] == 2000
    assert min(logged.get_value_at_percentile(99) / 1000, latency["max_us"]) == pytest.approx(
        latency["p99_us"], abs=0.001
    )

    # Judging it again changes nothing; another objective gives another verdict, and enforcing it fails.
    again = fleet.run_playbook(playbook="report")
    assert again.status == 0 and "changed=0" in again.output
    assert outcome.summary["cost"] is None and 'id="cost"' not in (outcome.run / "report.html").read_text(
        encoding="utf-8"
    )
    paid = {"date": "2026-01-31", "currency": "EUR", "server": 4800, "dram_per_gb": 0, "months": 48, "servers": 4}
    priced = fleet.run_playbook("-e", json.dumps({"report_prices": paid}), playbook="report")
    assert priced.status == 0 and "Cost of a VM (EUR, prices of 2026-01-31, 48 months)" in priced.output, priced.output
    (arm,) = priced.summary["cost"]["arms"]
    assert (arm["vms"], arm["server_month"], arm["per_vm_month"]) == (2, 100, pytest.approx(50))
    strict = fleet.run_playbook("-e", "slo_enforce=true", "-e", "latency_benchmark_slo_p99_us=0.01", playbook="report")
    assert strict.status != 0 and "misses the SLO" in strict.output
    assert strict.summary["verdict"] == "fail"
    misspelt = fleet.run_playbook("-e", "latency_benchmark_slo_p99=0.01", playbook="report")
    assert misspelt.status != 0 and "did you mean latency_benchmark_slo_p99_us?" in misspelt.output, misspelt.output


def test_a_custom_playbook_and_its_merged_percentiles(fleet, client):
    """The merged percentiles are those of the raw samples; a closed loop is measured too."""
    fleet.add("a", "b")
    endpoint = {"executable": str(client), "port": "{{ latency_benchmark_port }}", "key_count": 3000}
    samples = f"{fleet.path}/{{{{ inventory_hostname }}}}.raw"
    load = {"rate": 2000, "influence": 10, "read_mix": 70, "raw_samples": samples}
    closed = {"pacing": "none", "duration": 0.3, "connections": 2, "pipeline": 8}
    playbook = fleet.custom_playbook(
        [
            {"name": "Fill", "memstretch.density.solotest": {**endpoint, "mode": "fill"}},
            {"name": "Measure", "memstretch.density.solotest": {**endpoint, **load}},
            {"name": "Load without a schedule", "memstretch.density.solotest": {**endpoint, **closed}},
        ]
    )
    fleet.environment["MEMSTRETCH_RESULTS_DIR"] = str(fleet.results)
    outcome = fleet.run_playbook(playbook=playbook)
    assert outcome.status == 0 and "could not record" not in outcome.output and "[WARNING]" not in outcome.output, (
        outcome.output
    )
    # The callback makes a run of a playbook that is not one of the collection's.
    assert outcome.run.name.startswith("adhoc-")
    dummy, measured, unpaced = [outcome.phase(name) for name in outcome.phase_files]
    columns = {"service": 0, "response": 1, "intended": 2, "lateness": 3}
    rows = [
        [int(word) for word in line.split()[: len(columns)]]  # the others are "-" where they are unknown
        for host in fleet.servers
        for line in (fleet.path / f"{host}.raw").read_text(encoding="ascii").splitlines()
    ]
    assert len(rows) == 6000
    for name, column in columns.items():
        values = sorted(row[column] for row in rows)
        merged = measured["merged"][name]
        assert merged["count"] == 6000
        assert merged["sum_ns"] == sum(values)
        assert (merged["min_ns"], merged["max_ns"]) == (values[0], values[-1])
        for figure, rank in (("p50_us", 3000), ("p95_us", 5700), ("p99_us", 5940), ("p999_us", 5994)):
            truth = values[rank - 1] / 1000
            assert truth - 0.001 <= merged[figure] <= truth * 1.01 + 0.001, (name, figure)

    # Whether the phase is valid depends on how busy this machine is; that no rate was missed does not.
    assert unpaced["achieved_rate_ratio"] is None
    assert not [reason for reason in unpaced["reasons"] if not re.search(r"under load|\blate\b", reason)]
    for host in unpaced["hosts"].values():
        assert host["rate"]["target"] is None and host["requests"]["ok"] > 0


@pytest.mark.long
def test_the_redis_role_and_the_benchmark_together(fleet, tmp_path):
    """site.yml as make demo runs it, in small: our own instances, made and removed."""
    below = free_ports(4) - 1
    variables = {
        **SMALL,
        "latency_benchmark_key_count": 300,
        "redis_directory": str(tmp_path / "state"),
        **REDIS_OF_THE_PLAY,
        "redis_port": f"{{{{ {below} + (inventory_hostname | regex_replace('[^0-9]', '') | int) }}}}",
    }
    arguments = ["--limit", "localhost,this_machine,redis01", "-e", json.dumps(variables), "-e", "profile=imdt"]
    checked = fleet.run_playbook("--check", *arguments, playbook="site", inventory=LOCAL)
    assert checked.status == 0, checked.output
    assert not fleet.results.exists() and not (tmp_path / "state").exists()
    try:
        outcome = fleet.run_playbook(*arguments, playbook="site", inventory=LOCAL)
        assert outcome.status == 0, outcome.output
        assert outcome.summary["verdict"] == "pass"
        assert outcome.summary["fleet"] == {"expected": 1, "reported": 1, "failed": [], "killed": 0}
        assert any("IMDT not detected" in label for label in outcome.summary["labels"])
        assert "IMDT not detected" in outcome.output
        second = fleet.run_playbook(*arguments, "--tags", "redis", playbook="site", inventory=LOCAL)
        assert second.status == 0 and "changed=0" in second.output and "changed=1" not in second.output, second.output
    finally:
        removed = fleet.run_playbook(*arguments, playbook="teardown", inventory=LOCAL)
    assert removed.status == 0, removed.output
    assert not (tmp_path / "state").exists()


@pytest.mark.long
def test_the_collection_runs_where_galaxy_installs_it(fleet, tmp_path):
    # Nothing of the checkout's own configuration, in which the collection would be there already.
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
        "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CALLBACKS_ENABLED": "memstretch.density.fleet_latency",
    }
    build = tmp_path / "build"
    galaxy = ANSIBLE_PLAYBOOK.with_name("ansible-galaxy")
    subprocess.run(
        [galaxy, "collection", "build", ROOT, "--output-path", build],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        env=environment,
    )
    (archive,) = build.glob("memstretch-density-*.tar.gz")
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert {"files/solotest.c", "files/solotest/load.c", "files/solotest/load.h"} <= set(
        names
    ) and "roles/redis/tasks/main.yml" in names
    # Nothing that serves only those who work on the collection, and nothing that a run or a build has left.
    documents = {"CHANGELOG.rst", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md"}
    directories = {"changelogs", "docs", "files", "inventories", "meta", "playbooks", "plugins", "roles"}
    made_by_galaxy = {"FILES.json", "MANIFEST.json"}
    assert {name.split("/")[0] for name in names} == documents | directories | made_by_galaxy | {"site.yml"}
    subprocess.run(
        [galaxy, "collection", "install", archive, "-p", tmp_path / "collections", "--no-deps"],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        env=environment,
    )
    # Only what a collection may rely on: meta, plugins, roles, playbooks, files.
    installed = tmp_path / "collections" / "ansible_collections" / "memstretch" / "density"
    for name in ("tests", "docs", "inventories", "extensions", "site.yml", "ansible.cfg", "Makefile", "changelogs"):
        subprocess.run(["rm", "-rf", installed / name], check=True)
    fleet.add("a")
    # Directories of its own, so that the client is built.
    fleet.variables["latency_benchmark_cache_directory"] = str(tmp_path / "cache")
    fleet.variables["latency_benchmark_client_directory"] = str(tmp_path / "client")
    done = subprocess.run(
        [ANSIBLE_PLAYBOOK, "-i", fleet.inventory(), "memstretch.density.benchmark", "-e", "profile=dram"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in (tmp_path / "cache" / "controller").glob("solotest-*") if os.access(path, os.X_OK)]
    assert (
        json.loads((tmp_path / "results" / "latest" / "summary.json").read_text(encoding="utf-8"))["verdict"] == "pass"
    )


@pytest.mark.long
def test_an_observer_gives_the_upper_bound(fleet):
    fleet.add("a", "b")
    hosts = {name: {"latency_benchmark_port": server.port} for name, server in fleet.servers.items()}
    hosts["a"]["latency_benchmark_observer"] = "watcher"
    fleet.variables.update(
        latency_benchmark_observer_host="127.0.0.1", latency_benchmark_rate=2500, latency_benchmark_duration=2
    )

    def run(rate, observers):
        groups = {"fleet": {"hosts": hosts, "vars": {**fleet.variables, "latency_benchmark_observer_rate": rate}}}
        inventory = write_inventory(fleet.path / "observed.yml", {**groups, "observers": {"hosts": observers}})
        return fleet.run_playbook(inventory=inventory)

    few, absent = run(100, {"watcher": {}}), run(2500, {})
    assert few.status and "make 200 requests in the 1 iterations of a cell; 5,000 are needed" in " ".join(
        few.output.split()
    ), few.output
    assert absent.status and "latency_benchmark_observer: watcher has no client" in absent.output, absent.output
    outcome = run(2500, {"watcher": {}})
    assert outcome.status == 0, outcome.output
    measured = outcome.phase("02-i0-r100-1.json")["hosts"]
    assert "observed" not in measured["b"] and measured["a"]["observed"]["latency"]["intended"]["count"] == 5000
    assert measured["a"]["observed"]["machine"] == measured["a"]["machine"]
    run_document = json.loads((outcome.run / "run.json").read_text(encoding="utf-8"))
    observer = {"name": "watcher", "endpoint": f"127.0.0.1:{fleet.servers['a'].port}", "rate": 2500.0}
    assert [run_document["fleet"][name]["observer"] for name in "ab"] == [observer, None]
    assert outcome.summary["verdict"] == "pass"
