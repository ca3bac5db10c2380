# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole run on real Redis servers, and its figures computed again by other means."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tarfile

import pytest
import yaml
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from .conftest import ANSIBLE_PLAYBOOK, ROOT, SMALL, free_ports


def test_a_run_is_measured_kept_and_judged(lab):
    lab.add("a", "b", "c")
    lab.variables.update(latency_benchmark_influences=[0, 10], latency_benchmark_iterations=2)
    outcome = lab.play("-e", "profile=swap")
    assert outcome.status == 0, outcome.output
    summary = outcome.summary
    assert summary["verdict"] == "pass"
    assert summary["profile"] == "swap"
    assert summary["fleet"] == {"expected": 3, "reported": 3, "failed": []}
    assert len(summary["cells"]) == 4
    assert len(outcome.phase_files) == 13
    assert "[ 1/13] fill" in outcome.output and "[13/13] influence 10, 70 % GET, iteration 2" in outcome.output
    assert "elapsed" in outcome.output and "remaining about" in outcome.output
    assert "Verdict: PASS" in outcome.output
    assert outcome.output.count("Verdict:") == 1
    assert any("host not tuned" in label for label in summary["labels"]) and "host not tuned" in outcome.output
    for server in lab.servers.values():
        assert server.command("dbsize") == "500"
    assert lab.clients() == []
    run = json.loads((outcome.run / "run.json").read_text(encoding="utf-8"))
    assert run["config"]["load"]["rate"] == 1000
    assert any(record["kernel"]["release"] == os.uname().release for record in run["hosts"].values())
    assert run["inventory"]["groups"] == {"fleet": ["a", "b", "c"]} and "profile=swap" in run["command"]
    assert set(run["versions"]) == {"ansible-core", "memstretch.density", "python"}
    assert (outcome.run / "report.txt").exists() and "Verdict" in (outcome.run / "log.txt").read_text(
        encoding="utf-8"
    ) + outcome.output

    # The six figures of the brief, by hand from the hosts' own values.
    for index, cell in enumerate(summary["cells"]):
        documents = [outcome.phase(name) for name in outcome.phase_files[2 + 3 * index : 4 + 3 * index]]
        service = [host["latency"]["service"] for document in documents for host in document["hosts"].values()]
        assert len(service) == 6
        assert cell["brief"] == {
            "hosts": 3,
            "avg_ms": round(sum(each["avg_us"] for each in service) / 6 / 1000, 3),
            "min_ms": round(min(each["min_us"] for each in service) / 1000, 3),
            "p95_ms": round(sum(each["p95_us"] for each in service) / 6 / 1000, 3),
            "p99_ms": round(sum(each["p99_us"] for each in service) / 6 / 1000, 3),
            "max_ms": round(max(each["max_us"] for each in service) / 1000, 3),
        }
        assert cell["response"]["count"] == 2 * 3 * 500

    # The reference library reads the histograms, and merging them with it gives our percentiles.
    document = outcome.phase(outcome.phase_files[-1])
    theirs = HdrHistogram(1, 2**63 - 1, 2)
    for host in document["hosts"].values():
        theirs.decode_and_add(host["latency"]["response"]["histogram"])
    merged = document["merged"]["response"]
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
        if interval.tag == "response":
            logged.add(interval)
    reader.close()
    response = summary["cells"][3]["response"]
    assert (summary["cells"][3]["influence"], summary["cells"][3]["read_mix"]) == (10, 70)
    assert logged.get_total_count() == response["count"] == 3000
    assert min(logged.get_value_at_percentile(99) / 1000, response["max_us"]) == pytest.approx(
        response["p99_us"], abs=0.001
    )

    # Judging it again changes nothing; another objective gives another verdict, and enforcing it fails.
    again = lab.play(playbook="report")
    assert again.status == 0 and "changed=0" in again.output
    assert outcome.summary["cost"] is None and 'id="cost"' not in (outcome.run / "report.html").read_text(
        encoding="utf-8"
    )
    paid = {"date": "2026-01-31", "currency": "EUR", "server": 4800, "dram_per_gb": 0, "months": 48, "servers": 4}
    priced = lab.play("-e", json.dumps({"density_report_prices": paid}), playbook="report")
    assert priced.status == 0 and "Cost of a VM (EUR, prices of 2026-01-31, 48 months)" in priced.output, priced.output
    (arm,) = priced.summary["cost"]["arms"]
    assert (arm["vms"], arm["server_month"], arm["per_vm_month"]) == (3, 100, pytest.approx(33.3333))
    wrong = lab.play("-e", json.dumps({"density_report_prices": {**paid, "months": 0}}), playbook="report")
    assert wrong.status != 0 and "prices.months: 0 is out of range" in wrong.output
    strict = lab.play("-e", "slo_enforce=true", "-e", "density_report_slo_p99_us=0.01", playbook="report")
    assert strict.status != 0 and "misses the SLO" in strict.output
    assert strict.summary["verdict"] == "fail"


def test_merged_percentiles_are_those_of_the_raw_samples(lab, tmp_path):
    lab.add("a", "b")
    playbook = tmp_path / "raw.yml"
    playbook.write_text(
        yaml.safe_dump(
            [
                {
                    "hosts": "fleet",
                    "gather_facts": False,
                    "tasks": [
                        {
                            "memstretch.density.solotest": {
                                "executable": "{{ client }}",
                                "port": "{{ latency_benchmark_port }}",
                                "mode": "{{ item }}",
                                "key_count": 3000,
                                "rate": 2000,
                                "influence": 10,
                                "read_mix": 70,
                                "raw_samples": f"{tmp_path}/{{{{ inventory_hostname }}}}.raw",
                            },
                            "name": "Load",
                            "loop": ["fill"],
                        },
                        {
                            "memstretch.density.solotest": {
                                "executable": "{{ client }}",
                                "port": "{{ latency_benchmark_port }}",
                                "key_count": 3000,
                                "rate": 2000,
                                "influence": 10,
                                "read_mix": 70,
                                "raw_samples": f"{tmp_path}/{{{{ inventory_hostname }}}}.raw",
                            },
                            "name": "Measure",
                        },
                    ],
                }
            ]
        ),
        encoding="utf-8",
    )
    lab.environment["MEMSTRETCH_RESULTS_DIR"] = str(lab.results)
    outcome = lab.play("-e", f"client={client(tmp_path)}", playbook=str(playbook))
    assert outcome.status == 0, outcome.output
    # Nobody announced this run; the callback made one of it all the same.
    assert outcome.run.name.startswith("adhoc-")
    document = outcome.phase(outcome.phase_files[-1])
    columns = {"service": 0, "response": 1, "intended": 2, "lateness": 3}
    rows = [
        [int(word) for word in line.split()]
        for host in lab.servers
        for line in (tmp_path / f"{host}.raw").read_text(encoding="ascii").splitlines()
    ]
    assert len(rows) == 6000
    for name, column in columns.items():
        values = sorted(row[column] for row in rows)
        merged = document["merged"][name]
        assert merged["count"] == 6000
        assert merged["sum_ns"] == sum(values)
        assert (merged["min_ns"], merged["max_ns"]) == (values[0], values[-1])
        for figure, rank in (("p50_us", 3000), ("p95_us", 5700), ("p99_us", 5940), ("p999_us", 5994)):
            truth = values[rank - 1] / 1000
            assert truth - 0.001 <= merged[figure] <= truth * 1.01 + 0.001, (name, figure)


def client(tmp_path: pathlib.Path) -> pathlib.Path:
    """Build the client by hand, as somebody would who uses only the module."""
    path = tmp_path / "solotest"
    sources = [ROOT / "files" / "solotest.c", *sorted((ROOT / "files" / "solotest").glob("*.c"))]
    subprocess.run(["cc", "-std=c11", "-O2", "-o", path, *sources, "-lhiredis", "-lm"], check=True)
    return path


def test_the_redis_role_and_the_benchmark_together(lab, tmp_path):
    """site.yml as make demo plays it, in small: our own instances, made and removed."""
    variables = {
        **SMALL,
        "latency_benchmark_key_count": 300,
        "latency_benchmark_read_mixes": [100],
        "redis_directory": str(tmp_path / "state"),
    }
    arguments = ["-e", json.dumps(variables), "-e", "profile=imdt"]
    inventory = ROOT / "inventories" / "local" / "hosts.yml"
    below = free_ports(4) - 1  # of its own, since this test may run twice on a machine
    arguments += [
        "-e",
        json.dumps({"redis_port": f"{{{{ {below} + (inventory_hostname | regex_replace('[^0-9]', '') | int) }}}}"}),
    ]
    checked = lab.play("--check", *arguments, playbook="site", inventory=inventory)
    assert checked.status == 0, checked.output
    assert not lab.results.exists() and not (tmp_path / "state").exists()
    try:
        outcome = lab.play(*arguments, playbook="site", inventory=inventory)
        assert outcome.status == 0, outcome.output
        assert outcome.summary["verdict"] == "pass"
        assert any("IMDT not detected" in label for label in outcome.summary["labels"])
        assert "IMDT not detected" in outcome.output
        second = lab.play(*arguments, "--tags", "redis", playbook="site", inventory=inventory)
        assert second.status == 0 and "changed=0" in second.output and "changed=1" not in second.output, second.output
    finally:
        removed = lab.play(*arguments, playbook="teardown", inventory=inventory)
    assert removed.status == 0, removed.output


def test_the_collection_works_from_where_galaxy_installs_it(lab, tmp_path):
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
    assert not [
        name
        for name in names
        if name.startswith((".venv/", "results/", ".ansible/", ".cache/", ".build/", "tests/output/"))
    ]
    subprocess.run(
        [galaxy, "collection", "install", archive, "-p", tmp_path / "collections", "--no-deps"],
        check=True,
        capture_output=True,
        cwd=tmp_path,
        env=environment,
    )
    # Only what a collection may rely on: meta, plugins, roles, playbooks, files.
    installed = tmp_path / "collections" / "ansible_collections" / "memstretch" / "density"
    for name in ("tests", "docs", "inventories", "molecule", "site.yml", "ansible.cfg", "Makefile", "changelogs"):
        subprocess.run(["rm", "-rf", installed / name], check=True)
    lab.add("a", "b")
    lab.variables.update(latency_benchmark_read_mixes=[100])
    done = subprocess.run(
        [ANSIBLE_PLAYBOOK, "-i", lab.inventory(), "memstretch.density.benchmark", "-e", "profile=dram"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        json.loads((tmp_path / "results" / "latest" / "summary.json").read_text(encoding="utf-8"))["verdict"] == "pass"
    )
