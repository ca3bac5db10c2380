# SPDX-License-Identifier: GPL-3.0-or-later
"""Studies and searches for the density, for real: whole playbooks that play whole playbooks, interrupted and taken up again."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
import yaml

from .conftest import SMALL, Outcome, free_ports
from .test_tuning import RECORDS, differences, snapshot

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRETCHED = ROOT / "inventories" / "stretched" / "hosts.yml"
TINY = {**SMALL, "latency_benchmark_read_mixes": [100], "latency_benchmark_key_count": 300}
# Nothing here is about speed, and a machine that others use takes its time.
PATIENCE = 1500


@pytest.fixture
def study(lab, tmp_path):
    """Plays on two Redis instances that the role sets up, with nothing to tune; checks that none is left."""
    ports = free_ports(2)
    inventory = tmp_path / "fleet.yml"
    inventory.write_text(
        yaml.safe_dump(
            {
                "all": {
                    "vars": {
                        "ansible_connection": "local",
                        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                    },
                    "children": {
                        "hypervisors": {},
                        "fleet": {
                            "hosts": {
                                name: {"redis_port": ports + number, "latency_benchmark_port": ports + number}
                                for number, name in enumerate("ab")
                            },
                            "vars": {**TINY, "redis_supervisor": "daemon", "redis_directory": str(tmp_path / "state")},
                        },
                    },
                }
            }
        ),
        encoding="utf-8",
    )
    return Play(lab, inventory)


class Play:
    """One playbook after another on one inventory."""

    def __init__(self, lab, inventory):
        self.lab, self.inventory = lab, inventory

    def command(self, playbook, variables, *arguments):
        return self.lab.command(playbook, "-e", json.dumps(variables), *arguments, inventory=self.inventory)

    def __call__(self, playbook, variables, *arguments):
        done = subprocess.run(
            self.command(playbook, variables, *arguments),
            cwd=ROOT,
            env=self.lab.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, self.lab.results)

    def interrupt(self, playbook, variables, ready):
        """Press Ctrl-C as soon as ready() says so, and return what came of it."""
        process = subprocess.Popen(
            self.command(playbook, variables),
            cwd=ROOT,
            env=self.lab.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.lab.playbooks.append(process)
        deadline = time.monotonic() + PATIENCE
        while not ready():
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "it did not come so far"
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, dummy = process.communicate(timeout=PATIENCE)
        return Outcome(process.returncode, output, self.lab.results)

    def document(self, kind, name=None):
        (found,) = self.lab.results.glob(f"{kind}*/{name or kind}.json")
        return json.loads(found.read_text(encoding="utf-8"))


def phase_files(results):
    return {path: path.read_bytes() for path in results.glob("*/phases/*.json")}


def test_a_study_of_two_profiles_is_interrupted_and_goes_on(study, lab, tmp_path):
    variables = {"profiles": "dram,swap", "study_rounds": 2, "latency_benchmark_key_count": 3000}
    checked = study("study", variables, "--check")
    assert checked.status == 0 and "4 of 4 runs to measure" in checked.output
    assert not lab.results.exists() and not (tmp_path / "state").exists()

    interrupted = study.interrupt("study", variables, lambda: list(lab.results.glob("*-swap-1/phases/02-*.json")))
    assert interrupted.status != 0
    document = study.document("study")
    assert document["restored"] is True and [run["state"] for run in document["runs"]] == [
        "finished",
        "pending",
        "pending",
        "pending",
    ]
    assert not (tmp_path / "state").exists(), "the instances are still there"
    assert "Restoring the hosts" in interrupted.output
    kept = {path: content for path, content in phase_files(lab.results).items() if "-dram" in str(path)}
    assert len(kept) == 3

    (unfinished,) = lab.results.glob("*-swap-1/run.json")
    run = json.loads(unfinished.read_text(encoding="utf-8"))
    run["hashed"]["hosts"] = {"a": "before the kernel was updated"}
    run["config_hash"] = "of that"
    unfinished.write_text(json.dumps(run), encoding="utf-8")

    other = study("study", {**variables, "study_id": document["id"], "latency_benchmark_rate": 777})
    assert other.status != 0 and "has other settings (load.rate: 1000.0 -> 777.0)" in " ".join(other.output.split()), (
        other.output
    )
    again = study("study", variables)
    assert again.status == 0, again.output
    assert "Resuming study" in again.output and "3 of 4 runs to measure" in again.output
    assert f"kept as {unfinished.parent.name}-set-aside" in again.output and list(
        lab.results.glob("*-swap-1-set-aside/phases/02-*.json")
    )
    assert {path: phase_files(lab.results)[path] for path in kept} == kept
    document = study.document("study")
    assert [(run["arm"], run["round"]) for run in document["runs"]] == [
        ("dram", 1),
        ("swap", 1),
        ("swap", 2),
        ("dram", 2),
    ]
    assert {run["state"] for run in document["runs"]} == {"finished"} and document["finished"] and document["restored"]
    comparison = json.loads((lab.results / document["id"] / "comparison.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in comparison["runs"]] == ["dram", "swap"]
    cell = comparison["cells"][1]
    assert cell["iterations"] == 2 and cell["ratio"]["p99_us"] > 0 and len(cell["ratio_interval"]["p99_us"]) == 2
    for run in comparison["runs"]:
        merged = sum(
            json.loads((lab.results / part / "summary.json").read_text(encoding="utf-8"))["cells"][0]["response"][
                "count"
            ]
            for part in run["parts"]
        )
        assert merged == 2 * 2 * 3000
    assert (
        "host not tuned" in again.output and (lab.results / document["id"] / "comparison.html").stat().st_size > 500_000
    )
    assert not (tmp_path / "state").exists(), "the instances are still there"


@pytest.mark.parametrize(
    "playbook, variables, message",
    [
        ("study", {"profiles": "dram"}, "a comparison takes at least 2"),
        ("study", {}, "profiles: nothing is named"),
        ("study", {"profiles": "dram,turbo"}, "turbo"),
        ("study", {"profiles": "dram,swap,dram"}, "dram is named twice"),
        (
            "study",
            {"profiles": "dram,swap", "study_order": "random"},
            "study_order: 'random' is not allowed; it takes one of interleaved, blocks",
        ),
        ("study", {"profiles": "dram,swap", "study_rounds": 0}, "a whole number from 1 to 1,000"),
        ("study", {"profiles": "dram,swap", "study_id": "../x"}, "study_id: '../x' is not allowed"),
        ("study", {"profiles": "dram,swap", "latency_benchmark_rate": 0}, "0.001 to 1,000,000,000"),
        (
            "density",
            {"profiles": "dram", "density_max": 3},
            "density_max: 3 is more than the 2 hosts of the group fleet",
        ),
        ("density", {"profiles": "dram", "density_start": 5}, "density_start: 5 is more than density_max, 2"),
        (
            "ablation",
            {"profile": "swap", "ablation_settings": "vm.swapiness"},
            "vm.swapiness is no setting of profile swap; it sets cpu_governor",
        ),
    ],
)
def test_a_mistake_is_refused_before_anything_is_touched(study, lab, tmp_path, playbook, variables, message):
    outcome = study(playbook, variables)
    assert outcome.status != 0 and message in " ".join(outcome.output.split()), outcome.output
    assert not (tmp_path / "state").exists()
    assert not list(lab.results.glob("*/run.json"))


def test_a_damaged_document_is_named(study, lab):
    (lab.results / "study-old").mkdir(parents=True)
    (lab.results / "study-old" / "study.json").write_text('{"schema": 1, "plan', encoding="utf-8")
    outcome = study("study", {"profiles": "dram,swap"})
    assert outcome.status != 0 and "study-old/study.json is damaged" in outcome.output
    (lab.results / "study-old" / "study.json").write_text('{"schema": 99}', encoding="utf-8")
    outcome = study("study", {"profiles": "dram,swap"})
    assert outcome.status != 0 and "of another version (schema 1 is known)" in outcome.output


@pytest.fixture
def budget():
    """A control group whose memory is limited, and which does not swap."""
    memory = pathlib.Path("/sys/fs/cgroup/memory")
    if os.geteuid() != 0 or not memory.is_dir():
        pytest.skip("making a control group needs root and the memory controller of cgroup v1")
    group = memory / f"density-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text("130M", encoding="ascii")
    (group / "memory.swappiness").write_text("0", encoding="ascii")
    yield group.name
    group.rmdir()


def test_the_density_under_a_dram_budget(budget, study, lab, tmp_path):  # the control group goes last
    """Two Redis of 52 MB fit into 130 MB, the third is killed; the search goes on when it was interrupted."""
    inventory = yaml.safe_load(study.inventory.read_text(encoding="utf-8"))
    fleet = inventory["all"]["children"]["fleet"]
    ports = free_ports(4)
    fleet["hosts"] = {
        name: {"redis_port": ports + number, "latency_benchmark_port": ports + number}
        for number, name in enumerate("abcd")
    }
    fleet["vars"].update(redis_daemon_cgroup=budget, latency_benchmark_key_count=40000, latency_benchmark_requests=500)
    study.inventory.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    variables = {"profiles": "dram", "density_start": 2, "density_repeats": 1}

    interrupted = study.interrupt("density", variables, lambda: list(lab.results.glob("*-n0004-1/phases")))
    assert interrupted.status != 0
    document = study.document("density")
    assert [(run["size"], run["outcome"]) for run in document["runs"]] == [(2, "pass")] and document["restored"] is True
    assert not (tmp_path / "state").exists(), "the instances are still there"

    outcome = study("density", variables)
    assert outcome.status == 0, outcome.output
    assert "Resuming density search" in outcome.output and "1 probes are done" in outcome.output
    document = study.document("density")
    assert [(run["size"], run["outcome"]) for run in document["runs"]] == [(2, "pass"), (4, "fail"), (3, "fail")]
    (found,) = document["density"]
    assert (found["density"], found["limited_by"], found["next_size"], found["ratio"]) == (2, "fail", 3, 1)
    lost = document["runs"][-1]["lost"]
    assert lost and set(lost) <= set("abc"), "who was killed is named"
    assert f"lost {', '.join(lost)}" in outcome.output
    assert "dram 2" in (lab.results / document["id"] / "density.html").read_text(encoding="utf-8")
    assert not (tmp_path / "state").exists(), "the instances are still there"


@pytest.fixture
def stretched(lab, tmp_path):
    """Plays on the hosts of inventories/stretched, in small, under a DRAM budget of this machine; checks that it is put back."""
    if os.geteuid() != 0:
        pytest.skip("tuning this machine needs root")
    if RECORDS.exists():
        pytest.fail(
            f"{RECORDS} is there: this machine carries a profile already; restore it first (playbooks/restore.yml)"
        )
    below = free_ports(4) - 1
    variables = {
        **TINY,
        "redis_port": f"{{{{ {below} + (inventory_hostname | regex_replace('[^0-9]', '') | int) }}}}",
        "latency_benchmark_duration": "",
        "redis_directory": str(tmp_path / "state"),
    }
    before = snapshot()
    play = Play(lab, STRETCHED)
    yield lambda playbook, more, *arguments: play(playbook, {**variables, **more}, *arguments), play
    left = differences(before, snapshot())
    if RECORDS.exists():  # for the tests that follow
        play("restore", {})
    assert left == {} and not (tmp_path / "state").exists()


def test_an_ablation_leaves_out_what_would_change_nothing(stretched, lab):
    play, files = stretched
    outcome = play(
        "ablation",
        {"profile": "swap", "fleet_size": 2, "ablation_settings": "vm.swappiness,/sys/kernel/mm/lru_gen/min_ttl_ms"},
    )
    assert outcome.status == 0, outcome.output
    document = files.document("ablation", "study")
    states = {run["arm"]: run["state"] for run in document["runs"]}
    has_lru_gen = pathlib.Path("/sys/kernel/mm/lru_gen/min_ttl_ms").exists()
    assert states["swap"] == states["without vm.swappiness"] == "finished"
    assert states["without /sys/kernel/mm/lru_gen/min_ttl_ms"] == "skipped" or has_lru_gen
    comparison = json.loads((lab.results / document["id"] / "comparison.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in comparison["runs"]][:2] == ["swap", "without vm.swappiness"]
    changed = {setting["name"]: setting["values"] for setting in comparison["settings"]}
    assert changed["vm.swappiness"][0] == "100" and changed["vm.swappiness"][1] == ""
