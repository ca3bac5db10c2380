# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes wrong on real machines: a clear message, a status that is not 0, and nothing lost."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import yaml

from ansible_collections.memstretch.density.plugins.module_utils.host.files import private_directory

from .conftest import free_ports, holds, wait_for, write_inventory

# One phase that is kept, and one that is long enough to be interrupted on a busy machine.
TWO_CELLS = {
    "latency_benchmark_read_mixes": [70],
    "latency_benchmark_influences": [0, 10],
    "latency_benchmark_requests": 5000,
}

# A run is only resumed on hosts with the same settings, and other tests change those of this machine.
UNRECORDED = ("--skip-tags", "host_tuning")


def test_bad_input_is_refused_before_anything_is_touched(fleet):
    fleet.add("a")
    fleet.servers["a"].command("set", "precious", "1")
    outcome = fleet.run_playbook("-e", "profile=turbo")
    assert outcome.status != 0 and holds(outcome.output, ["profile", "turbo", "dram", "imdt", "zram"]), outcome.output
    assert not fleet.results.exists()
    assert fleet.servers["a"].command("get", "precious") == "1"


BAD_SETTINGS = [
    ({"rate": 0}, ["latency_benchmark_rate", "0.001 to 1,000,000,000"]),
    ({"rate": "fast"}, ["latency_benchmark_rate", "'fast'", "0.001 to 1,000,000,000"]),
    ({"run_id": "../elsewhere"}, ["run_id", "../elsewhere"]),
    ({"key_count": "0"}, ["latency_benchmark_key_count", "1 to 1,000,000,000,000"]),
    ({"value_size": "1e3x"}, ["latency_benchmark_value_size", "1 to 536,870,912"]),
    ({"read_mixes": "100,101"}, ["latency_benchmark_read_mixes", "'101'", "-1 to 100"]),
    ({"influences": 5_000_000}, ["latency_benchmark_influences", "-1,000,000 to 1,000,000"]),
    ({"iterations": 0}, ["latency_benchmark_iterations", "1 to 1,000"]),
    (
        {"cpu": "beside"},
        ["latency_benchmark_cpu", "'beside'", "any, beside_redis, own or a whole number from 0 to 1,023"],
    ),
    ({"duration": 0}, ["latency_benchmark_duration", "0.001 to 1,000,000,000"]),
    ({"duration": 2, "requests": 7}, ["latency_benchmark_duration", "2,000 requests", "requests is 7"]),
    ({"pattern": "uniform", "influences": 10}, ["latency_benchmark_influences", "it must be [0]"]),
]


def test_bad_settings_of_the_role_are_named(fleet):
    fleet.add("a")
    role = {"name": "memstretch.density.latency_benchmark", "tasks_from": "check"}
    common = {"latency_benchmark_results_dir": str(fleet.results)}
    messages = fleet.messages(
        [
            {
                "ansible.builtin.include_role": role,
                "vars": {**common, **{f"latency_benchmark_{name}": value for name, value in settings.items()}},
            }
            for settings, dummy in BAD_SETTINGS
        ]
    )
    wrong = [(words, message) for (dummy, words), message in zip(BAD_SETTINGS, messages) if not holds(message, words)]
    assert not wrong
    assert not fleet.results.exists()


def test_a_fleet_without_hosts(fleet):
    outcome = fleet.run_playbook()
    assert outcome.status != 0
    assert "The fleet is empty" in outcome.output


@pytest.mark.parametrize(
    ("silent", "other"),
    [
        pytest.param("b", "a", id="another host"),
        pytest.param("a", "b", id="the first host of the machine", marks=pytest.mark.long),
    ],
)
def test_no_answer_and_a_wrong_password(fleet, silent, other):
    fleet.add("a", "b")
    fleet.add("c", password="correct horse")
    fleet.servers[silent].kill()
    fleet.variables["latency_benchmark_password"] = "{{ 'wrong staple' if inventory_hostname == 'c' else '' }}"
    outcome = fleet.run_playbook()
    assert outcome.status != 0
    assert f"fatal: [{silent}]" in outcome.output and "is Redis running there" in outcome.output
    assert "fatal: [c]" in outcome.output and "check username and password" in outcome.output
    assert f"hosts of the fleet cannot take part ({silent}, c)" in outcome.output
    assert not fleet.results.exists()
    assert fleet.servers[other].command("dbsize") == "0"


def test_a_host_that_is_down_is_the_last_line_with_what_to_do(fleet):
    fleet.add("a")
    fleet.add("b")
    hosts = {"a": {}, "b": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": free_ports(1)}}
    hosts["a"]["latency_benchmark_port"] = fleet.servers["a"].port
    inventory = write_inventory(fleet.path / "down.yml", {"fleet": {"hosts": hosts, "vars": fleet.variables}})
    outcome = fleet.run_playbook(inventory=inventory)
    last = outcome.output.strip().splitlines()[-1]
    assert outcome.status != 0 and last.startswith("[ERROR]: b: "), outcome.output
    # On a busy machine Ansible may see that ssh reads nothing more before it has read why.
    assert "Connection refused" in last or "Broken pipe" in last, last
    assert holds(last, ["Check that the host is on", "run the same command again"])


def test_data_that_do_not_fit_into_the_machine_are_refused_before_the_fill(fleet):
    fleet.add("a", "b")
    fleet.variables.update(latency_benchmark_overwrite=True, latency_benchmark_key_count=10**9)
    fleet.servers["b"].command("set", "precious", "1")
    outcome = fleet.run_playbook()
    last = outcome.output.strip().splitlines()[-1]
    assert outcome.status != 0, outcome.output
    assert holds(last, ["latency_benchmark_key_count", "in each of 2 Redis servers", "(a and b)", "Choose fewer keys"])
    assert fleet.servers["b"].command("get", "precious") == "1" and not fleet.results.exists()


def test_an_overloaded_redis_fails(fleet):
    """No Redis answers 300,000 requests a second on one connection."""
    fleet.add("a", "b")
    fleet.variables.update(
        latency_benchmark_rate=300_000,
        latency_benchmark_requests=30_000,
        latency_benchmark_slo_avg_us=5_000,
        latency_benchmark_slo_p99_us=10_000,
    )
    outcome = fleet.run_playbook()
    assert outcome.status == 0, outcome.output
    (cell,) = outcome.summary["cells"]
    assert outcome.summary["verdict"] == cell["verdict"] == "fail"
    assert cell["hosts"] == {"pass": 0, "fail": 2, "undecided": 0} and cell["achieved_rate_ratio"] < 0.9
    assert "Verdict: FAIL" in outcome.output and "2 of 2 hosts miss the SLO" in outcome.output


@pytest.mark.long
def test_a_redis_that_refuses_requests_cannot_pass(fleet):
    fleet.add("a", "b")
    fleet.variables.update(TWO_CELLS)
    process = fleet.start()
    fleet.wait_for_phase(0, process)
    fleet.servers["a"].command("config", "set", "maxmemory", "1")
    outcome = fleet.wait(process)
    assert outcome.status == 0, outcome.output
    assert outcome.summary["verdict"] == "undecided" and outcome.summary["fleet"]["failed"] == []
    assert [cell["hosts"] for cell in outcome.summary["cells"]] == [{"pass": 1, "fail": 0, "undecided": 1}] * 2
    errors = outcome.phase("02-i0-r70-1.json")["hosts"]["a"]["requests"]["errors"]
    assert set(errors) == {"OOM"} and f"{errors['OOM']:,} requests failed" in outcome.summary["reasons"][0]
    enforced = fleet.run_playbook("-e", "slo_enforce=true", playbook="report")
    assert enforced.status != 0 and "does not prove that the SLO is met" in enforced.output, enforced.output


# After the preflight, the host's monotonic clock is 3 s ahead: as if its wall clock had been set back by 3 s. The
# recorder of this machine, which has the clock of all others, is another host's.
_PYTHON_WITH_A_CLOCK_THAT_IS_SET = """\
#!/bin/sh
if [ -e "{results}/latest/run.json" ]; then
    session=$(grep -o '"id": *"[0-9a-f]*"' "{results}/latest/run.json" | tail -n 1 | cut -d '"' -f 4)
    for _try in $(seq 100); do
        [ ! -e "{private}/session-$session/recorder.json" ] || break
        sleep 0.1
    done
    exec unshare --time --monotonic 3 --fork "{python}" "$@"
fi
exec "{python}" "$@"
"""

# After the fill, the host's clocks differ from the controller's: as after a VM was paused for a second (lags -1).
_SHELL_WITH_A_CLOCK_THAT_MOVES = """\
#!/bin/sh
[ ! -e "{results}/latest/phases/01-fill.json" ] || PATH="{directory}:$PATH"
exec /bin/sh "$@"
"""
_DATE_THAT_MOVED = """\
#!/bin/sh
exec /bin/date -d '{seconds} second' "$@"
"""


def executable(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.long
def test_clocks_that_do_not_hold_make_the_run_invalid(fleet, tmp_path):
    """The stamps of each named host's client are in order, so only the controller can notice."""
    fleet.add("holds", "lags", "jumps", "is_set")
    text = _PYTHON_WITH_A_CLOCK_THAT_IS_SET.format(
        results=fleet.results, python=sys.executable, private=private_directory()
    )
    mine = {"is_set": {"ansible_python_interpreter": executable(tmp_path / "python", text)}}
    for host, seconds in (("lags", -1), ("jumps", 3)):
        directory = tmp_path / host
        executable(directory / "date", _DATE_THAT_MOVED.format(seconds=seconds))
        shell = _SHELL_WITH_A_CLOCK_THAT_MOVES.format(results=fleet.results, directory=directory)
        mine[host] = {"ansible_shell_executable": executable(directory / "sh", shell)}
    inventory = yaml.safe_load(fleet.inventory().read_text(encoding="utf-8"))
    for host, variables in mine.items():
        inventory["all"]["children"]["fleet"]["hosts"][host].update(variables)
    path = tmp_path / "clocks.yml"
    path.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    outcome = fleet.run_playbook(inventory=path)
    assert outcome.status != 0
    assert outcome.summary["verdict"] == "invalid"
    told = " ".join(outcome.summary["reasons"])
    assert "is_set: its clock was set by -3.000 s since the preflight" in told
    for host, seconds in (("lags", -1), ("jumps", 3)):
        (clock,) = [clocks[host] for clocks in ended_with(outcome)]
        assert clock["after"]["offset"] - clock["before"]["offset"] == pytest.approx(seconds, abs=0.5)
        for when in ("before the end of this phase", "during the run"):
            assert re.search(
                rf"{host}: its clock moved by \{'-' if seconds < 0 else '+'}\d\.\d+ s against the controller's {when}",
                told,
            )
    assert "holds: " not in told


def ended_with(outcome):
    """Return the clocks that each session measured after the last phase."""
    run = json.loads((outcome.run / "run.json").read_text(encoding="utf-8"))
    return [session["clocks"] for session in run["sessions"]]


def test_foreign_data_is_kept_and_secrets_stay_secret(fleet, tmp_path):
    """Data is not wiped unless that is allowed. Secrets are nowhere to be read, however they are called and given."""
    fleet.add("a", password="correct horse")
    fleet.servers["a"].command("set", "customer:17", "precious")
    secret = ("-e", '{"latency_benchmark_password": "correct horse"}')
    outcome = fleet.run_playbook(*secret)
    assert outcome.status != 0
    assert "overwrite" in outcome.output
    assert fleet.servers["a"].command("get", "customer:17") == "precious"
    for name in ("secrets.yml", "vault-hunter2"):
        (tmp_path / name).write_text("file_secret: hunter2\n", encoding="utf-8")
    allowed = fleet.run_playbook(
        *("-vvv", *secret, "-e", "latency_benchmark_overwrite=true"),
        *("-e", "ansible_become_pass=hunter2"),
        *("-e", '{"ansible_ssh_pass": "hunter2", "nested": {"list": ["hunter2"]}}'),
        *("-edb_pwd=hunter2", "--extra-vars=redis_auth='hunter2 x'"),
        *("--extra-v", "pin=hunter2"),
        *("-e", f"@{tmp_path / 'secrets.yml'}"),
        *("--vault-password-file", str(tmp_path / "vault-hunter2")),
        *("--ssh-common-args", "-o SetEnv=X=hunter2"),
        *("-e", "profile=swap"),
    )
    assert allowed.status == 0, allowed.output
    assert fleet.servers["a"].command("dbsize") == "501"
    command = json.loads((allowed.run / "run.json").read_text(encoding="utf-8"))["command"]
    assert "profile=swap" in command and "ansible_become_pass=********" in command
    # The command line that the user typed is not ours; everything that we print or keep is.
    assert "correct horse" not in allowed.output
    kept = [path for path in allowed.run.rglob("*") if path.is_file()]
    assert {"run.json", "report.html", "log.txt", "summary.json"} <= {path.name for path in kept}
    for path in kept:
        text = path.read_text(encoding="utf-8")
        assert "correct horse" not in text and "hunter2" not in text, path


@pytest.mark.long
def test_a_redis_that_dies_in_a_phase(fleet):
    fleet.add("a", "b")
    fleet.variables.update(TWO_CELLS)
    process = fleet.start(*UNRECORDED)
    fleet.wait_for_phase(1, process)
    fleet.servers["b"].kill()
    outcome = fleet.wait(process)
    assert outcome.status != 0
    summary = outcome.summary
    assert summary["verdict"] == "fail"
    assert summary["fleet"]["failed"] == ["b"]
    assert any("b died under the load: Redis 127.0.0.1" in reason for reason in summary["reasons"])
    # The other's results and the earlier phases are kept.
    assert outcome.phase_files == ["01-fill.json", "02-i0-r70-1.json", "03-i10-r70-1.json"]
    assert outcome.phase("02-i0-r70-1.json")["died"] == []
    last = outcome.phase("03-i10-r70-1.json")
    assert list(last["hosts"]) == ["a"] and last["died"] == ["b"]
    assert outcome.output.count("Verdict: FAIL") == 1
    assert fleet.leftovers() == []

    # The run is finished, whatever its verdict. Repaired, the same command begins a new one.
    before = files(outcome.run)
    fleet.servers["b"].start()
    again = fleet.run_playbook(*UNRECORDED)
    assert again.status == 0, again.output
    assert "Resuming run" not in again.output
    assert again.run != outcome.run
    assert again.summary["verdict"] == "pass"
    assert files(outcome.run) == before


def files(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.long
def test_a_client_that_is_killed(fleet):
    fleet.add("a", "b")
    fleet.variables.update(TWO_CELLS)
    process = fleet.start()
    fleet.wait_for_phase(1, process)
    victim, dummy = fleet.clients()
    os.kill(victim, signal.SIGKILL)
    outcome = fleet.wait(process)
    assert outcome.status != 0
    assert outcome.summary["verdict"] == "invalid"
    assert len(outcome.summary["fleet"]["failed"]) == 1
    assert "ended without a result" in outcome.output
    assert outcome.phase("02-i0-r70-1.json")["valid"], "it was finished before"
    assert fleet.leftovers() == []


@pytest.mark.parametrize(
    "number",
    [signal.SIGINT, *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGTERM, signal.SIGKILL))],
)
def test_an_interrupted_run_is_resumed(fleet, number):
    """After Ctrl-C nothing runs on; after a playbook has vanished, its clients finish. Both is collected later."""
    fleet.add("a", "b")
    fleet.variables.update(TWO_CELLS)
    process = fleet.start(*UNRECORDED)
    fleet.wait_for_phase(1, process)
    process.send_signal(number)
    sent = time.monotonic()
    if number == signal.SIGKILL:
        assert len(fleet.clients()) == 2, "the hosts need no controller"
    else:
        wait_for("the clients and the recorder have ended", lambda: not fleet.running())
        assert time.monotonic() - sent < 2
    interrupted = fleet.wait(process)
    assert interrupted.status != 0
    assert (number != signal.SIGKILL) == ("Stopping the 2 clients of the run" in interrupted.output)
    assert interrupted.phase_files == ["01-fill.json"]

    again = fleet.run_playbook(*UNRECORDED)
    assert again.status == 0, again.output
    assert "Resuming run" in again.output and "Collecting what was measured since" in again.output
    assert again.run == interrupted.run
    assert again.summary["verdict"] == "pass"
    assert again.phase_files == ["01-fill.json", "02-i0-r70-1.json", "03-i10-r70-1.json"]
    starts = [again.phase(name)["start_at"] for name in again.phase_files[1:]]
    measured_again = starts[1] - starts[0] > 8  # of a schedule, the second phase begins 6 s after the first one
    assert measured_again == (number != signal.SIGKILL)
    assert fleet.leftovers() == []


@pytest.mark.long
def test_what_a_boot_has_removed_is_measured_again(fleet):
    """What nobody has collected is in /run. The Redis servers of this test keep their data."""
    fleet.add("a", "b")
    fleet.variables.update(TWO_CELLS)
    process = fleet.start(*UNRECORDED)
    fleet.wait_for_phase(1, process)
    process.kill()
    interrupted = fleet.wait(process)
    shutil.rmtree(fleet.session())
    wait_for("the clients and the recorder have ended", lambda: not fleet.running())
    removed = time.time()

    again = fleet.run_playbook(*UNRECORDED)
    assert again.status == 0, again.output
    assert again.run == interrupted.run and again.summary["verdict"] == "pass"
    assert [again.phase(name)["start_at"] > removed for name in again.phase_files[1:]] == [True, True]
    assert fleet.leftovers() == []


# The start of what this host has launched is written much later than it is due.
_SHELL_THAT_RELEASES_LATE = """\
#!/bin/sh
case "$*" in *schedule.start*) sleep 10;; esac
exec /bin/sh "$@"
"""


@pytest.mark.long
def test_an_observer_that_is_released_late_delays_no_client(fleet, tmp_path):
    fleet.add("a", "b")
    fleet.variables.update(
        latency_benchmark_lead_seconds=3, latency_benchmark_iterations=5, latency_benchmark_requests=2000
    )
    hosts = {name: {"latency_benchmark_port": server.port} for name, server in fleet.servers.items()}
    hosts["a"].update(latency_benchmark_observer="watcher", latency_benchmark_observer_host="127.0.0.1")
    hosts["a"]["latency_benchmark_observer_rate"] = 1000
    watcher = {"ansible_shell_executable": executable(tmp_path / "sh", _SHELL_THAT_RELEASES_LATE)}
    groups = {"fleet": {"hosts": hosts, "vars": fleet.variables}, "observers": {"hosts": {"watcher": watcher}}}
    outcome = fleet.run_playbook(inventory=write_inventory(tmp_path / "observed.yml", groups))
    first = outcome.phase("02-i0-r100-1.json")
    assert sorted(first["hosts"]) == ["a", "b"] and first["failed"] == {}, outcome.output
    assert "should have begun" in first["hosts"]["a"]["observed"]["error"]


@pytest.mark.long
def test_a_run_that_another_playbook_measures_is_refused(fleet):
    fleet.add("a")
    fleet.variables.update(
        TWO_CELLS, latency_benchmark_requests=600_000
    )  # it is interrupted, so it must not end before
    process = fleet.start(*UNRECORDED)
    fleet.wait_for_phase(0, process)
    second = fleet.run_playbook(*UNRECORDED)
    process.send_signal(signal.SIGINT)
    assert second.status != 0 and "is working on this run" in second.output, second.output
    assert fleet.wait(process).status != 0 and fleet.clients() == []


@pytest.mark.long
def test_a_results_directory_that_exists(fleet):
    fleet.add("a")
    mine = ["-e", "run_id=mine", *UNRECORDED]
    first = fleet.run_playbook(*mine)
    assert first.status == 0, first.output
    written = {path: path.read_bytes() for path in first.run.rglob("*.json")}
    same = fleet.run_playbook(*mine)
    assert same.status != 0 and "its run is finished" in same.output, same.output
    other = fleet.run_playbook(*mine, "-e", "latency_benchmark_rate=900")
    assert other.status != 0 and "load.rate: 1000.0 -> 900.0" in other.output, other.output
    (fleet.results / "theirs").mkdir()
    (fleet.results / "theirs" / "thesis.txt").write_text("x", encoding="utf-8")
    foreign = fleet.run_playbook("-e", "run_id=theirs")
    assert foreign.status != 0
    assert [path.name for path in (fleet.results / "theirs").iterdir()] == ["thesis.txt"]
    # A finished run is not resumed; the same command without a name begins a new one. It judges its own run, even if
    # another one is the newest by then.
    point = f"rm {fleet.results}/latest; ln -s mine {fleet.results}/latest; echo 3"
    fleet.variables["latency_benchmark_lead_seconds"] = f"{{{{ lookup('ansible.builtin.pipe', '{point}') }}}}"
    new = fleet.run_playbook()
    assert new.status == 0, new.output
    assert "Resuming run" not in new.output and new.run == first.run
    (judged,) = fleet.results.glob("dram-*/summary.json")
    assert "Verdict: PASS" in new.output and f"({judged})" in new.output
    # A playbook that measures nothing has nothing to judge.
    nothing = fleet.run_playbook("--skip-tags", "latency_benchmark")
    assert nothing.status != 0 and "This playbook has measured nothing" in nothing.output
    assert "Verdict" not in nothing.output
    assert written == {path: path.read_bytes() for path in first.run.rglob("*.json")}


def test_the_callback_is_not_enabled(fleet):
    fleet.add("a")
    fleet.environment["ANSIBLE_CALLBACKS_ENABLED"] = "ansible.builtin.tree"
    outcome = fleet.run_playbook()
    assert outcome.status != 0
    assert "callbacks_enabled" in outcome.output
    assert fleet.servers["a"].command("dbsize") == "0"


@pytest.fixture
def small_disk(needs_root, tmp_path):
    """A file system of 6 MB."""
    path = tmp_path / "disk"
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@pytest.fixture
def exfat(needs_root, tmp_path):
    """A file system without symbolic links."""
    image, path = tmp_path / "image", tmp_path / "exfat"
    path.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 * 2**20)
    subprocess.run(["mkfs.exfat", image], check=True, stdout=subprocess.DEVNULL)
    loop = subprocess.run(
        ["losetup", "--find", "--show", image], check=True, capture_output=True, text=True
    ).stdout.strip()
    subprocess.run(["mount.exfat-fuse", loop, path], check=True)
    yield path
    subprocess.run(["umount", path], check=True)
    subprocess.run(["losetup", "--detach", loop], check=True)


@pytest.mark.long
def test_results_on_a_file_system_without_links_are_a_warning(fleet, exfat: pathlib.Path):
    fleet.add("a")
    fleet.results = exfat / "results"
    outcome = fleet.run_playbook("-e", "run_id=linkless", *UNRECORDED)
    assert outcome.status == 0, outcome.output
    assert "latest cannot be made, because this file system has no symbolic links" in outcome.output
    assert sorted(each.name for each in fleet.results.iterdir() if each.is_dir()) == ["linkless"]
    assert (fleet.results / "linkless" / "report.html").stat().st_size > 100_000


@pytest.mark.long
def test_a_full_disk(fleet, small_disk: pathlib.Path):
    fleet.add("a")
    fleet.results = small_disk / "results"
    (small_disk / "ballast").write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * 4096 - 8192))
    refused = fleet.run_playbook()
    assert refused.status != 0
    assert holds(refused.output.strip().splitlines()[-1], [str(fleet.results), "make room or choose another"])
    # The disk fills up while the run goes on.
    (small_disk / "ballast").unlink()
    fleet.variables.update(TWO_CELLS)
    process = fleet.start("-e", "run_id=squeezed", *UNRECORDED)
    fleet.wait_for_phase(0, process)
    with open(small_disk / "ballast", "wb", buffering=0) as ballast, pytest.raises(OSError, match="No space"):
        while True:
            ballast.write(b"x" * 4096)
    outcome = fleet.wait(process)
    assert outcome.status != 0
    assert re.search(rf"No space left on device: '{fleet.results}/squeezed/[^']+'", outcome.output)
    last = outcome.output.strip().splitlines()[-1]
    assert holds(last, ["No space left on device", str(fleet.results), "Make room", "run the same command again"]), last
    (small_disk / "ballast").unlink()
    again = fleet.run_playbook("-e", "run_id=squeezed", *UNRECORDED)
    assert again.status == 0, again.output
    assert "Resuming run squeezed" in again.output
