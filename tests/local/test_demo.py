# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo, in small, on this machine."""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from ansible_collections.memstretch.density.plugins.plugin_utils.density import sentence

from .conftest import (
    DEMO,
    PATIENCE,
    REDIS_OF_THE_PLAY,
    ROOT,
    SMALL,
    STRETCHED,
    RedisServer,
    daemons_in,
    free_ports,
    smaller_inventory,
    wait_for,
    write_inventory,
)
from .machine import RECORDS, differences, snapshot

# Sets no bound on the load of other tests.
QUICK_CHECK = {
    "site_check_blocks": 3,
    "site_check_block_seconds": 0.1,
    "site_check_max_stolen": 1,
    "site_check_max_gap": 1e6,
}
TINY = {
    **QUICK_CHECK,
    # Four servers fit. Every machine meets the objective.
    "density_budget": "32M",
    "density_rounds": 1,
    "density_references": 2,
    "density_window": 1,
    "density_settle": 3,
    "density_wait": 0,
    "slo": "absolute",
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
    "latency_benchmark_key_count": 3000,
    "latency_benchmark_rate": 500,
    "swap_space_file_size": "128M",
}


@pytest.fixture
def demo(untuned_machine, fleet, tmp_path):
    """Starts the demo with these variables, and restores the machine in any case."""
    before = snapshot()
    path = smaller_inventory(DEMO, tmp_path / "demo", *(f"redis{number}" for number in range(1, 9)))
    port = f"{{{{ {free_ports(10)} - 1 + (inventory_hostname[5:] | int) }}}}"

    def start(playbook="demo", **variables):
        given = {**TINY, "latency_benchmark_port": port, **variables}
        return fleet.start("-e", json.dumps(given), playbook=playbook, inventory=path)

    yield start
    fleet.stop_playbooks()
    if differences(before, snapshot()):  # only after a test that failed
        fleet.wait(start("restore"))


def mark(fleet):
    return fleet.results / "demo-unfinished"


@pytest.mark.long
def test_root_gets_no_number_from_a_noisy_site(demo, fleet):
    before = snapshot()
    outcome = fleet.wait(demo(site_check_max_gap=0))
    assert outcome.status != 0
    assert "Site check of this_machine: avg " in outcome.output and "the bounds of p99 are" in outcome.output
    assert (
        "the site is too noisy for a study: this_machine: " in outcome.output
        and "Nothing was measured" in outcome.output
    )
    assert not differences(before, snapshot()) and not mark(fleet).exists()
    assert not list(fleet.results.glob("density-*")), "nothing was searched"


def children(pid):
    """Return the processes that descend from a process."""
    found, parents = [], {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    waiting = [pid]
    while waiting:
        of = waiting.pop()
        waiting += [child for child, parent in parents.items() if parent == of]
        found += [child for child, parent in parents.items() if parent == of]
    return found


@pytest.mark.long
def test_after_ctrl_c_the_machine_is_as_before(demo, fleet):
    before = snapshot()
    process = demo()
    wait_for("the machine is tuned", (RECORDS / "host_settings.json").exists, process)
    # A terminal sends it to every process, but those of a running playbook are in a session of their own.
    process.send_signal(signal.SIGINT)
    outcome = fleet.wait(process)
    assert outcome.status != 0
    assert not differences(before, snapshot()), outcome.output
    (path,) = fleet.results.glob("density-*/density.json")
    assert json.loads(path.read_text(encoding="utf-8"))["restored"], "not only by the test"
    log = (path.parent / "log.txt").read_text(encoding="utf-8")
    assert "== Interrupted: the running playbook ends now, then the hosts are restored" in log
    assert "== The hosts are restored" in log
    assert not mark(fleet).exists(), "nothing is left for the next demo to look for"


@pytest.mark.long
def test_a_mark_that_an_earlier_demo_has_left_undoes_no_profile_of_somebody_else(demo, fleet, untuned_machine):
    mark(fleet).parent.mkdir(parents=True, exist_ok=True)
    mark(fleet).write_text("demo of long ago", encoding="utf-8")
    applied = fleet.run_playbook("-e", "profile=dram", playbook="tune", inventory=STRETCHED)
    try:
        assert applied.status == 0, applied.output
        tuned = snapshot()
        refused = fleet.wait(demo())
        assert refused.status != 0 and "a profile that this demo did not apply is in force" in refused.output
        assert not differences(tuned, snapshot()), refused.output
    finally:
        restored = fleet.run_playbook("-e", "profile=dram", playbook="restore", inventory=STRETCHED)
    assert restored.status == 0, restored.output


@pytest.mark.long
def test_root_gets_an_answer_after_a_kill_and_the_machine_is_as_before(demo, fleet):
    before = snapshot()
    process = demo()
    wait_for("the machine is tuned", (RECORDS / "host_settings.json").exists, process)
    for pid in [*children(process.pid), process.pid]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has ended
            continue
    process.communicate()
    assert mark(fleet).exists() and differences(before, snapshot()), "something is left to restore"

    outcome = fleet.wait(demo())
    assert outcome.status == 0, outcome.output
    assert not differences(before, snapshot()) and not mark(fleet).exists()
    *_killed, path = sorted(fleet.results.glob("density-*/density.json"), key=os.path.getmtime)
    document = json.loads(path.read_text(encoding="utf-8"))
    base, *tiers = document["arms"]
    assert base["name"] == "dram" and tiers[0]["name"] in ("zram", "zswap") and document["restored"]
    drive = re.search(r"The drive of the swap file reads 4 KiB in \d+ us|swap \(this drive is too slow", outcome.output)
    assert drive and [each["name"] for each in tiers[1:]] == ([] if "too slow" in drive[0] else ["swap"])
    assert all(each["density"] > base["density"] for each in tiers)
    assert base["density"] >= 3 and base["cause"] == "capacity"
    tier = max(tiers, key=lambda each: each["density"])
    expected = (
        rf"^In 32 MiB of DRAM, {sentence.name(tier)} carries .*, DRAM alone {base['density']}: (at least )?\d\.\d "
        r"times \(.*one ramp each"
    )
    assert re.search(expected, outcome.output, re.MULTILINE), outcome.output
    assert re.fullmatch(r"Open .*/density.html; all results: .*/index.html", outcome.output.splitlines()[-1])
    checked = document["site_checks"][0]["hosts"]["this_machine"]
    assert checked["reasons"] == [] and checked["awake"] is not False, "as in the ramps, no CPU sleeps"


@pytest.mark.long
def test_root_cannot_start_a_second_demo_beside_the_first(demo, fleet):
    first = demo()
    wait_for("the machine is tuned", (RECORDS / "host_settings.json").exists, first)
    second = fleet.wait(demo())
    assert second.status != 0 and "another playbook is changing this host since" in second.output, second.output
    assert (RECORDS / "host_settings.json").exists(), "the second one has restored nothing"
    outcome = fleet.wait(first)
    assert outcome.status == 0, outcome.output


def test_make_demo_of_a_user_measures_an_untouched_machine_and_ends_with_the_page_to_open(fleet, tmp_path):
    """Also where the machine misses the objective."""
    first = free_ports(2)
    hosts = {
        name: {"redis_port": port, "latency_benchmark_port": port} for name, port in (("a", first), ("b", first + 1))
    }
    # Every site is too noisy for this check; that must not stop the demo, but be in its answer.
    site_check = {**QUICK_CHECK, "site_check_max_gap": 0, "latency_benchmark_slo_avg_us": 0.001}
    common = {
        **SMALL,
        **site_check,
        "redis_supervisor": "daemon",
        "redis_directory": str(tmp_path / "state"),
        **REDIS_OF_THE_PLAY,
    }
    inventory = write_inventory(
        tmp_path / "fleet.yml",
        {"hypervisors": {}, "fleet": {"hosts": hosts, "vars": common}},
        results_dir=str(fleet.results),
    )
    # What is installed is taken for new. With SUDO, make takes root for an ordinary user.
    command = ["make", "--assume-old=.venv/.run", "demo", "SUDO=sudo", f"INVENTORY={inventory}"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=fleet.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    outcome = fleet.wait(process)
    assert outcome.status == 0, outcome.output
    assert outcome.output.splitlines()[-1] == (
        f"Open {outcome.run}/report.html; all results: {fleet.results}/index.html"
    )
    assert not (tmp_path / "state").exists(), "the Redis servers and their files are removed"
    assert outcome.summary["fleet"]["expected"] == 2 and outcome.summary["verdict"] == "fail"
    assert outcome.output.index("Site check of a: avg ") < outcome.output.index("Latency of the fleet")
    (label,) = [
        each for each in outcome.summary["labels"] if each.startswith("the site was too noisy: a: the bounds of")
    ]
    assert f"note: {label}" in outcome.output
    assert "the site was too noisy: a: the bounds of" in (outcome.run / "report.html").read_text(encoding="utf-8")


@pytest.mark.long
def test_after_ctrl_c_make_demo_of_a_user_says_that_it_removes_its_servers(fleet, tmp_path):
    first = free_ports(1)
    common = {**SMALL, **daemons_in(tmp_path / "state")}
    groups = {
        "hypervisors": {},
        "fleet": {"hosts": {"a": {"redis_port": first, "latency_benchmark_port": first}}, "vars": common},
    }
    inventory = write_inventory(tmp_path / "fleet.yml", groups, results_dir=str(fleet.results))
    options = "-e latency_benchmark_requests=1000000 -e latency_benchmark_slo_avg_us=1e6"
    process = subprocess.Popen(
        ["make", "--assume-old=.venv/.run", "demo", "SUDO=sudo", f"INVENTORY={inventory}", f"DEMO={options}"],
        cwd=ROOT,
        env=fleet.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_for("the servers", lambda: RedisServer.answers_on(first), process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    outcome = fleet.wait(process)
    assert outcome.status != 0 and not (tmp_path / "state").exists(), outcome.output
    assert "its Redis servers are removed now (playbooks/teardown.yml, about half a minute)" in outcome.output


def users_checkout(tmp_path: pathlib.Path) -> pathlib.Path:
    """Make a checkout of an ordinary user with what make needs for the demo."""
    checkout = tmp_path / "checkout"
    (checkout / ".venv").mkdir(parents=True)
    for name in ("Makefile", "requirements.txt", "requirements.lock"):
        shutil.copy(ROOT / name, checkout)
    os.chown(checkout / "Makefile", 65534, 65534)
    return checkout


@pytest.mark.parametrize("target", ["demo", "setup"])
def test_what_a_failed_installation_of_root_leaves_belongs_to_the_user_of_the_checkout(needs_root, tmp_path, target):
    """pip failed after it had made 1,659 files of root's, which the user could not remove."""
    checkout = users_checkout(tmp_path)
    pip = checkout / ".venv" / "bin" / "pip"
    pip.parent.mkdir()
    pip.write_text("#!/bin/sh\necho $*\nmkdir -p .venv/lib/site-packages && exit 3\n", encoding="utf-8")
    pip.chmod(0o755)
    done = subprocess.run(["make", target, "PACKAGES="], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode and "Error 3" in done.stderr, done.stderr
    assert "--require-hashes --only-binary :all: -r requirements.lock" in done.stdout
    assert {path.lstat().st_uid for path in (checkout / ".venv", *checkout.glob(".venv/**/*"))} == {65534}


def test_nobody_else_can_hold_the_lock_of_an_installation(needs_root, tmp_path):
    """Any user may lock a file that is readable, and the Makefile is."""
    checkout = users_checkout(tmp_path)
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    apt.chmod(0o755)
    (checkout / ".venv" / "bin").mkdir()
    for name in ("pip", "python"):
        program = checkout / ".venv" / "bin" / name
        program.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{apt.parent}:{os.environ['PATH']}"}
    with open(checkout / "Makefile", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(
            ["make", "setup", "PACKAGES=memstretch-no-such-package"],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
    assert "Installing Debian packages: memstretch-no-such-package" in done.stdout, done.stderr
    assert done.returncode == 0, done.stderr


def test_what_root_measures_belongs_to_the_user_of_the_checkout(needs_root, tmp_path):
    checkout, playbook = users_checkout(tmp_path), tmp_path / "ansible-playbook"
    (checkout / ".venv" / ".run").touch()
    playbook.write_text(
        "#!/bin/sh\nmkdir -p results/site_check && ln -s /etc/hostname results/latest && exit 3\n", "utf-8"
    )
    playbook.chmod(0o755)
    owner = os.stat("/etc/hostname").st_uid
    done = subprocess.run(
        ["make", "demo", f"BIN={tmp_path}"], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert done.returncode and "Error 3" in done.stderr, done.stderr
    made = [
        checkout / "results",
        checkout / "results" / "site_check",
        checkout / "results" / "latest",
        checkout / ".venv",
    ]
    assert {os.lstat(path).st_uid for path in made} == {65534}
    assert os.stat("/etc/hostname").st_uid == owner, "a link is not followed"
