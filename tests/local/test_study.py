# SPDX-License-Identifier: GPL-3.0-or-later
"""Studies, for real: playbooks that run whole playbooks, interrupted and resumed."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import jsonschema
import pytest

from .conftest import REDIS_OF_THE_PLAY, SMALL, STRETCHED, free_ports, wait_for, write_inventory
from .machine import RECORDS, differences, snapshot

TINY = {**SMALL, "latency_benchmark_read_mixes": [70], "latency_benchmark_key_count": 300}


class Studies:
    """One playbook after another on one inventory."""

    def __init__(self, fleet, inventory):
        self.fleet, self.inventory = fleet, inventory

    def run_playbook(self, playbook, variables, *arguments):
        arguments = ["-e", json.dumps(variables), *arguments]
        return self.fleet.run_playbook(*arguments, playbook=playbook, inventory=self.inventory)

    def interrupt(self, playbook, variables, pattern):
        """Press Ctrl-C as soon as a file of a run is there, and return what came of it."""
        process = self.fleet.start("-e", json.dumps(variables), playbook=playbook, inventory=self.inventory)
        wait_for(pattern, lambda: list(self.fleet.results.glob(pattern)), process)
        process.send_signal(signal.SIGINT)
        return self.fleet.wait(process)

    def document(self, kind, name=None):
        (found,) = self.fleet.results.glob(f"{kind}*/{name or kind}.json")
        document = json.loads(found.read_text(encoding="utf-8"))
        schema = pathlib.Path(__file__).parents[2] / "docs" / "schemas" / found.name
        jsonschema.validate(document, json.loads(schema.read_text(encoding="utf-8")))
        return document


@pytest.fixture
def make_studies(fleet, tmp_path):
    """Makes studies on Redis instances that the role sets up, with nothing to tune."""

    def make(*names, **variables):
        first = free_ports(len(names))
        ports = {name: first + number for number, name in enumerate(names)}
        hosts = {name: {"redis_port": port, "latency_benchmark_port": port} for name, port in ports.items()}
        common = {
            **TINY,
            "redis_supervisor": "daemon",
            "redis_directory": str(tmp_path / "state"),
            **REDIS_OF_THE_PLAY,
            **variables,
        }
        groups = {"hypervisors": {}, "fleet": {"hosts": hosts, "vars": common}}
        return Studies(fleet, write_inventory(tmp_path / "fleet.yml", groups)), list(ports.values())

    return make


def phase_files(results):
    return {path: path.read_bytes() for path in results.glob("*/phases/*.json")}


# What an interrupted playbook shows, in this order: at once what is left to do, and then how it ends.
EXPLAINED = (
    "== Interrupted: the running playbook ends now, then the hosts are restored",
    "teardown.yml removes the VMs and the Redis instances",
    "run the same command again to continue",
    "User interrupted execution",
    "== Restoring the hosts, step 1 of 1: teardown.yml",
    "== The hosts are restored",
)


def test_a_limit_may_leave_out_the_first_host_of_the_fleet(make_studies):
    studies, _ports = make_studies("a", "b")
    checked = studies.run_playbook("study", {"profiles": "dram,swap"}, "--check", "--limit", "localhost,b")
    assert checked.status == 0 and "10 of 10 runs to measure" in checked.output, checked.output


@pytest.mark.long
def test_an_interrupted_study_of_two_profiles_is_resumed(make_studies, fleet, tmp_path):
    studies, ports = make_studies("a")
    # Phases that are long enough to be interrupted.
    variables = {"profiles": "dram,swap", "study_rounds": 1, "latency_benchmark_requests": 5000}
    checked = studies.run_playbook("study", variables, "--check")
    assert checked.status == 0 and "2 of 2 runs to measure" in checked.output
    assert not fleet.results.exists() and not (tmp_path / "state").exists()

    interrupted = studies.interrupt("study", variables, "*-swap/phases/01-fill.json")
    assert interrupted.status != 0
    document = studies.document("study")
    assert document["restored"] is True and [run["state"] for run in document["runs"]] == ["finished", "pending"]
    assert not (tmp_path / "state").exists(), "the instances are still there"
    # A slow machine may have finished the load before Ctrl-C reached it, and would be asked for its results. As after a
    # boot, it has none.
    session = fleet.session()
    if session and session.exists():
        shutil.rmtree(session)
    place = 0
    for told in EXPLAINED:
        place = interrupted.output.find(told, place)
        assert place >= 0, f"{told}: missing or too early in\n{interrupted.output}"
    kept = {path: content for path, content in phase_files(fleet.results).items() if "-dram" in str(path)}
    assert sorted(path.name for path in kept) == ["01-fill.json", "02-i0-r70-1.json"]

    other = studies.run_playbook("study", {**variables, "study_id": document["id"], "latency_benchmark_rate": 777})
    assert other.status != 0 and "has other settings (load.rate: 1000.0 -> 777.0)" in " ".join(other.output.split()), (
        other.output
    )
    # The instances were removed, so the interrupted run cannot go on. In the next attempt, from its fill until its
    # verdict, the host's clock lags.
    late = tmp_path / "late"
    late.mkdir()
    programs = {
        tmp_path / "sh": f'PATH="{late}:$PATH" exec /bin/sh "$@"',
        late / "date": f"""\
cd {fleet.results}/*-swap-attempt2 2>/dev/null && [ -e phases/01-fill.json ] && [ ! -e summary.json ] &&
    set -- -d '-1 second' "$@"
exec /bin/date "$@"
""",
    }
    for path, text in programs.items():
        path.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        path.chmod(0o755)
    again = studies.run_playbook("study", {**variables, "ansible_shell_executable": str(tmp_path / "sh")})
    assert again.status == 0, again.output
    assert "Resuming study" in again.output and "1 of 2 runs to measure" in again.output
    page = fleet.results / document["id"] / "comparison.html"
    assert again.output.splitlines()[-1] == f"Open {page}; all results: {fleet.results}/index.html"
    assert {path: phase_files(fleet.results)[path] for path in kept} == kept
    document = studies.document("study")
    assert [(run["arm"], run["round"]) for run in document["runs"]] == [("dram", 1), ("swap", 1)]
    assert {run["state"] for run in document["runs"]} == {"finished"} and document["finished"] and document["restored"]
    name = document["id"]
    ledger = [(each["run_id"].removeprefix(name), each["state"], each["attempt"]) for each in document["attempts"]]
    assert ledger == [
        ("-dram", "finished", 1),
        ("-swap", "interrupted", 1),
        ("-swap-attempt2", "invalid", 2),
        ("-swap-attempt3", "finished", 3),
    ]
    reasons = [each["reason"] for each in document["attempts"]]
    assert "the data of its fill is gone: a has 0 of 300 keys" in reasons[1] and "its clock moved by -" in reasons[2]
    assert document["runs"][1]["run_id"] == f"{name}-swap-attempt3"
    comparison = json.loads((fleet.results / document["id"] / "comparison.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in comparison["runs"]] == ["dram", "swap"]
    assert [group["passed_share"] for group in comparison["attempts"]["groups"]] == [[1, 1], [0.3333, 1]]
    assert "Attempts: 4, 2 discarded" in again.output and "1 of 3" in again.output
    assert f"{name}-swap-attempt2/report.html" in (fleet.results / name / "comparison.html").read_text(encoding="utf-8")
    cell = comparison["cells"][1]
    assert [each["name"] for each in comparison["cells"]] == ["dram", "swap"]
    assert cell["iterations"] == cell["runs"] == 1 and cell["ratio"]["p99_us"] > 0
    assert cell["ratio_interval"] is None and cell["indicative"], "one round is too few for an interval"
    assert "indicative" in again.output
    assert (
        "host not tuned" in again.output
        and (fleet.results / document["id"] / "comparison.html").stat().st_size > 500_000
    )
    assert not (tmp_path / "state").exists(), "the instances are still there"


@pytest.mark.parametrize(
    "playbook, variables, message",
    [
        ("study", {"profiles": "dram,turbo"}, "'turbo', but there is no such profile. Allowed: dram, "),
        pytest.param(
            "study", {}, "profiles: no name is given; it must be names, separated by commas", marks=pytest.mark.long
        ),
        pytest.param(
            "study", {"kind": "optimize"}, "the option profile (host_tuning_profile) is ''", marks=pytest.mark.long
        ),
        (
            "density",
            {"profiles": "dram", "density_budget": "64M"},
            "hypervisors: this group is empty; it must have the machines on which the Redis servers of the fleet start",
        ),
        (
            "benchmark",
            {"profiles": "zram"},
            "profiles: this playbook has one profile, and does not read this variable",
        ),
        pytest.param(
            "study",
            {"kind": "ablation", "profile": "swap", "study_settings": "vm.nothing"},
            "vm.nothing is not a setting of profile swap; its settings are cpu_governor",
            marks=pytest.mark.long,
        ),
    ],
    ids=["profile", "no profile", "no profile to optimize", "density", "profiles of a run", "ablation"],
)
def test_a_mistake_is_refused_before_anything_is_touched(make_studies, fleet, tmp_path, playbook, variables, message):
    studies, dummy = make_studies("a", "b")
    outcome = studies.run_playbook(playbook, {"site_check": playbook == "study", **variables})
    assert outcome.status != 0 and message in outcome.output.strip().splitlines()[-1], outcome.output
    assert "steady enough" not in outcome.output, "the site was checked first"
    assert not (tmp_path / "state").exists()
    assert not list(fleet.results.glob("*/run.json"))


def test_a_mistake_in_an_option_is_named(make_studies, fleet):
    studies, dummy = make_studies("a", "b")
    two = {"profiles": "dram,swap"}
    sections = ("sysctl", "sysfs", "block_queue", "services_stopped", "kernel_cmdline", "swap", "swap_candidates")
    data = {"cpu_governor": {"value": "performance", "candidates": ["schedutil"]}, **{name: {} for name in sections}}
    mine = {"profile": "mine.yml", "data": data}
    search = {**mine, "kind": "optimize"}
    cases = [
        ("study", {"profiles": "dram"}, "a comparison needs at least 2"),
        ("study", {"profiles": ""}, "profiles: no name is given"),
        (
            "study",
            {**mine, "kind": "ablation", "order": "blocks"},
            "order: has no effect with kind=ablation; it is for profiles",
        ),
        (
            "study",
            {**two, "order": "random"},
            "study_order: 'random' is not allowed; it must be one of interleaved, blocks",
        ),
        ("study", {**two, "rounds": 0}, "a whole number from 1 to 1,000"),
        ("study", {**two, "attempts": 0}, "study_attempts: 0 is out of range"),
        ("study", {**two, "study_id": "../x"}, "study_id: '../x' is not allowed"),
        ("study", search, "hypervisors: this group is empty, so there is no host to tune; add the hosts to it"),
        (
            "study",
            {**search, "figure": "max_us"},
            "study_figure: 'max_us' is not allowed; it must be one of avg_us",
        ),
        ("study", {**search, "rounds": 2}, "study_rounds: 2 is out of range; it must be a whole number from 3 to"),
        ("study", {**search, "minutes": 0}, "study_minutes: 0 is out of range"),
        ("study", {**search, "settings": "vm.x"}, "study_settings: vm.x has no candidates in profile mine.yml"),
        ("study", {**search, "data": {**data, "cpu_governor": ""}}, "profile: mine.yml has no candidates"),
    ]
    config = {"profile": "dram", "load": {}, "matrix": {}}
    common = {"run": {"config": config, "expected": ["a", "b"]}, "results_dir": str(fleet.results)}
    messages = fleet.messages(
        [{f"memstretch.density.{action}": {**common, **options}} for action, options, dummy in cases],
        studies.inventory,
        hosts="localhost",
        connection="local",
    )
    wrong = [(message, told) for (dummy, dummy, message), told in zip(cases, messages) if message not in told]
    assert not wrong
    assert not fleet.results.exists()


def test_a_damaged_document_is_named(make_studies, fleet):
    studies, dummy = make_studies("a")
    cases = {
        '{"schema": 1, "plan': "study-old/study.json is damaged",
        '{"schema": 99}': "was not written by this version of the collection (expected schema 1)",
    }
    run = {"config": {"profile": "dram", "load": {}, "matrix": {}}, "expected": ["a"]}
    tasks = []
    for number, document in enumerate(cases):
        directory = fleet.results / str(number)
        (directory / "study-old").mkdir(parents=True)
        (directory / "study-old" / "study.json").write_text(document, encoding="utf-8")
        tasks.append({"memstretch.density.study": {"profiles": "dram,swap", "run": run, "results_dir": str(directory)}})
    messages = fleet.messages(tasks, studies.inventory, hosts="localhost", connection="local")
    assert [text in message for text, message in zip(cases.values(), messages)] == [True, True], messages


def stretched_in_small(tmp_path, servers):
    """Return the variables of inventories/stretched in small, and the ports of this many servers."""
    first = free_ports(servers)
    variables = {
        **TINY,
        "redis_port": f"{{{{ {first - 1} + (inventory_hostname | regex_replace('[^0-9]', '') | int) }}}}",
        "latency_benchmark_duration": "",
        "redis_directory": str(tmp_path / "state"),
        **REDIS_OF_THE_PLAY,
    }
    return variables, list(range(first, first + servers))


@pytest.mark.long
def test_a_budget_of_a_group_without_the_fleet_is_refused(untuned_machine, fleet, tmp_path):
    """Else it would limit nothing, and every fleet would fit into it."""
    variables, _ports = stretched_in_small(tmp_path, 2)
    budget = {"mechanism": "cgroup", "size": "90M", "group": f"density-test-empty-{os.getpid()}"}
    variables.update(profile="dram", host_tuning_dram_budget=budget, redis_daemon_cgroup="")
    limit = ("--limit", "localhost,this_machine,redis01,redis02")
    try:
        outcome = fleet.run_playbook("-e", json.dumps(variables), *limit, playbook="site", inventory=STRETCHED)
    finally:
        studies = Studies(fleet, STRETCHED)
        studies.run_playbook("teardown", variables, *limit)
        if RECORDS.exists():
            studies.run_playbook("restore", {})
    assert outcome.status != 0, outcome.output
    assert "the fleet is not in the control group of its DRAM budget" in outcome.output, outcome.output
    assert not list((fleet.results / "latest" / "phases").glob("02-*")), "nothing was measured"


def kill_redis(port):
    told = subprocess.run(["redis-cli", "-p", str(port), "info", "server"], check=True, capture_output=True, text=True)
    os.kill(int(re.search(r"process_id:(\d+)", told.stdout)[1]), signal.SIGKILL)


def number_of_keys(port):
    """Return how many keys a Redis has; 0 as long as it does not answer."""
    told = subprocess.run(["redis-cli", "-p", str(port), "dbsize"], check=False, capture_output=True, text=True)
    return int(told.stdout) if told.stdout.strip().isdigit() else 0


@pytest.mark.long
def test_the_first_redis_of_a_budget_dies_in_the_fill_and_in_a_phase(untuned_machine, fleet, tmp_path):
    """Its host watches the charged DRAM of the fleet. Another one must fetch that, or the run is invalid.

    Nothing that works for a budget goes on after either run: it would reclaim in the group of the next one.
    """
    variables, ports = stretched_in_small(tmp_path, 2)
    variables["profile"] = "dram"
    variables["latency_benchmark_requests"] = 8000  # long enough to be interrupted
    filled_slowly = {"latency_benchmark_key_count": 2_000_000, "latency_benchmark_value_size": 10}
    limit = ("--limit", "localhost,this_machine,redis01,redis02")
    studies = Studies(fleet, STRETCHED)
    try:
        arguments = ["-e", json.dumps({**variables, **filled_slowly}), *limit]
        process = fleet.start(*arguments, playbook="site", inventory=STRETCHED)
        wait_for("the fill", lambda: number_of_keys(ports[0]) > 1000, process)
        kill_redis(ports[0])
        in_fill = fleet.wait(process)
        left = fleet.leftovers()

        process = fleet.start("-e", json.dumps(variables), *limit, playbook="site", inventory=STRETCHED)
        wait_for("the start", fleet.session, process)
        time.sleep(3)
        kill_redis(ports[0])
        outcome = fleet.wait(process)
        left += fleet.leftovers()
    finally:
        studies.run_playbook("teardown", variables, *limit)
        if RECORDS.exists():
            studies.run_playbook("restore", {})
    assert in_fill.status != 0 and in_fill.summary["verdict"] == "fail", in_fill.output
    assert in_fill.phase("01-fill.json")["died"] == ["redis01"] and left == []
    assert outcome.status != 0 and outcome.summary["verdict"] == "fail", outcome.output
    assert "has no attribute" not in outcome.output
    last = outcome.phase("02-i0-r70-1.json")
    assert last["died"] == ["redis01"] and list(last["hosts"]) == ["redis02"]
    assert [each["samples"] > 0 for each in last["charged_dram"].values()] == [True]


@pytest.mark.long
def test_an_ablation_leaves_out_what_would_change_nothing(untuned_machine, fleet, tmp_path):
    """On the hosts of inventories/stretched, in small, under a DRAM budget; this machine is restored."""
    variables, _ports = stretched_in_small(tmp_path, 4)
    settings = "vm.swappiness,/sys/kernel/mm/lru_gen/min_ttl_ms"
    variables.update(kind="ablation", profile="swap", study_settings=settings, study_rounds=1)
    before = snapshot()
    studies = Studies(fleet, STRETCHED)
    try:
        outcome = studies.run_playbook("study", variables, "--limit", "localhost,this_machine,redis01")
        left = differences(before, snapshot())
    finally:
        if RECORDS.exists():  # for the tests that follow
            studies.run_playbook("restore", {})
    assert outcome.status == 0, outcome.output
    assert left == {} and not (tmp_path / "state").exists()
    document = studies.document("ablation", "study")
    states = {run["arm"]: run["state"] for run in document["runs"]}
    has_lru_gen = pathlib.Path("/sys/kernel/mm/lru_gen/min_ttl_ms").exists()
    assert states["swap"] == states["without vm.swappiness"] == states["swap#2"] == "finished"
    assert states["without /sys/kernel/mm/lru_gen/min_ttl_ms"] == ("finished" if has_lru_gen else "skipped")
    comparison = json.loads((fleet.results / document["id"] / "comparison.json").read_text(encoding="utf-8"))
    assert [run["name"] for run in comparison["runs"]][:2] == ["swap", "without vm.swappiness"]
    (test,) = comparison["aa_tests"]
    assert (test["arm"], test["repeats"], test["intervals"]) == ("swap#2", "swap", 0)
    assert "A/A test: swap#2 is swap again" in outcome.output
    changed = {setting["name"]: setting["values"] for setting in comparison["settings"]}
    assert changed["vm.swappiness"][0] == "100" and changed["vm.swappiness"][1] == ""


@pytest.mark.long
def test_a_search_for_better_settings_is_resumed_and_restores(untuned_machine, fleet, tmp_path):
    """The candidate of a harmless sysctl, in a profile with a sysctl that no kernel has; this machine is restored."""
    mine = tmp_path / "mine.yml"
    settings = {name: {"value": 3, "candidates": [2]} for name in ("vm.stat_interval", "vm.no_such_setting")}
    mine.write_text(json.dumps({"name": "mine", "description": "Mine.", "sysctl": settings}), encoding="utf-8")
    port = free_ports(1)
    common = {
        **TINY,
        "redis_supervisor": "daemon",
        "redis_directory": str(tmp_path / "state"),
        **REDIS_OF_THE_PLAY,
        "redis_port": port,
    }
    groups = {
        "hypervisors": {"hosts": {"this_machine": {}}},
        "fleet": {"hosts": {"a": {}}, "vars": {**common, "latency_benchmark_port": port}},
    }
    studies = Studies(fleet, write_inventory(tmp_path / "fleet.yml", groups))
    variables = {
        "kind": "optimize",
        "profile": str(mine),
        "study_settings": "vm.stat_interval",
        "study_rounds": 3,
        "study_screening_rounds": 1,
        "latency_benchmark_requests": 3000,  # long enough to be interrupted
    }
    before = snapshot()
    try:
        checked = studies.run_playbook("study", variables, "--check")
        assert checked.status == 0 and "1 candidates of 1 settings of the profile" in checked.output, checked.output
        assert not fleet.results.exists() and not RECORDS.exists()

        interrupted = studies.interrupt("study", variables, "*-vm.stat_interval-2-1/phases/01-fill.json")
        assert interrupted.status != 0
        document = studies.document("optimize")
        assert document["restored"] is True and [run["arm"] for run in document["runs"]] == ["baseline"]
        assert differences(before, snapshot()) == {}
        kept = phase_files(fleet.results)

        outcome = studies.run_playbook("study", variables)
        assert outcome.status == 0, outcome.output
        assert differences(before, snapshot()) == {} and not (tmp_path / "state").exists()

        made = fleet.results / document["id"] / "profiles" / "mine_c01.yml"
        accepted = studies.run_playbook("tune", {"profile": str(made)}, "--check")
        assert accepted.status == 0 and "this kernel lacks: vm.no_such_setting" in accepted.output, accepted.output
    finally:
        if RECORDS.exists():  # for the tests that follow
            studies.run_playbook("restore", {})
    finished = [path for path in kept if "-baseline-1/" in str(path)]
    assert finished and all(path.read_bytes() == kept[path] for path in finished), "it was measured again"
    assert "Resuming the search" in outcome.output and "1 runs are done" in outcome.output
    document = studies.document("optimize")
    assert document["finished"] and document["restored"]
    runs = [(run["round"], run["arm"]) for run in document["runs"]]
    candidate = "vm.stat_interval=2"
    assert sorted(runs) == [(number, arm) for number in (1, 2, 3, 4) for arm in ("baseline", candidate)]
    result = document["result"]
    assert result["set_aside"] == []
    (test,) = result["confirmation"]
    assert test["candidate"] == candidate and test["rounds"] == 3 and len(test["interval"]) == 2
    for run in document["runs"]:
        record = json.loads((fleet.results / run["run_id"] / "run.json").read_text(encoding="utf-8"))
        (setting,) = [
            each for each in record["hosts"]["this_machine"]["tuning"]["settings"] if each["name"] == "vm.stat_interval"
        ]
        assert setting["effective"] == ("2" if run["arm"] == candidate else "3")
    # Whether one sysctl is faster here is chance; a profile is written if and only if it is proposed.
    assert bool(result["proposed"]) == (document["profile"] is not None) == ("-e profile=" in outcome.output)
    assert result["proposed"] or "No candidate is measurably better" in outcome.output
