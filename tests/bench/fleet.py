# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the overhead of runs: start skew, the playbook's own time, callback and report on large fleets.

python tests/bench/fleet.py [skew] [overhead] [ssh] [scale] [playbooks] [--sizes 16,128,1000]
    [--scales 100,1000,10000] [--write]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / ".ansible" / "collections"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "bench" / "simulated"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))

import hosts as simulated
import yaml
from synthetic_fleets import begun_run, record_run, run_config

from ansible_collections.memstretch.density.plugins.module_utils.solotest.histogram import decode
from ansible_collections.memstretch.density.plugins.plugin_utils.report.publish import publish
from ansible_collections.memstretch.density.plugins.plugin_utils.run import fleet_sum
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory

ROOT = pathlib.Path(__file__).resolve().parents[2]

INSTANCES = 32
SSH_PORT = 18722
FORKS = 2
SCALES = (100, 1000, 10_000)
PHASES = 25
# The most seconds of CPU time and megabytes that merging and reporting the largest of these fleets may take.
BAR = (60, 1000)
# The most seconds that a run may take beyond its load, by its number of hosts, and of CPU time for each host in all.
OWN_S = {4: 15, 32: 60, 1000: 300}
CPU_S = 0.5
SIZES = (16, 128, 1000)
PAGE = ROOT / "docs" / "bench" / "fleet.md"


def run_playbook(
    inventory: pathlib.Path,
    results: pathlib.Path,
    variables: dict[str, t.Any],
    playbook: str,
    *arguments: str,
    more_environment: dict[str, str] | None = None,
) -> float:
    """Run a playbook and return how many seconds it took; its output is in playbook.log next to results."""
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), **(more_environment or {})}
    began = time.monotonic()
    with open(results.parent / "playbook.log", "w", encoding="utf-8") as log:
        status = subprocess.run(
            [
                pathlib.Path(sys.executable).with_name("ansible-playbook"),
                "-i",
                inventory,
                ROOT / "playbooks" / f"{playbook}.yml",
                "-e",
                f"results_dir={results}",
                "-e",
                json.dumps(variables),
                *arguments,
            ],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    seconds = time.monotonic() - began
    if status and not (results / "latest" / "summary.json").exists():
        sys.exit((results.parent / "playbook.log").read_text(encoding="utf-8"))
    return seconds


def documents(results: pathlib.Path) -> list[dict[str, t.Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((results / "latest" / "phases").iterdir())]


@contextlib.contextmanager
def redis_servers(directory: pathlib.Path, count: int) -> t.Iterator[list[int]]:
    """Start Redis servers on loopback and yield their ports."""
    ports = list(range(18001, 18001 + count))
    servers = []
    try:
        for port in ports:
            place = directory / str(port)
            place.mkdir()
            servers.append(
                subprocess.Popen(
                    ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(place)],
                    stdout=subprocess.DEVNULL,
                )
            )
        time.sleep(2)
        yield ports
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def skew(directory: pathlib.Path) -> list[tuple[str, str, str]]:
    """Measure how far the first requests are from their due times, with 32 instances and two forks."""
    with redis_servers(directory, INSTANCES) as ports:
        inventory = directory / "hosts.yml"
        inventory.write_text(
            yaml.safe_dump(
                {
                    "fleet": {
                        "hosts": {f"i{port}": {"latency_benchmark_port": port} for port in ports},
                        "vars": {
                            "ansible_connection": "local",
                            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                        },
                    }
                }
            ),
            encoding="utf-8",
        )
        run_playbook(
            inventory,
            directory / "results",
            {
                "latency_benchmark_key_count": 2000,
                "latency_benchmark_rate": 200,
                "latency_benchmark_influences": [0],
                "latency_benchmark_read_mixes": [100],
                "latency_benchmark_warmups": 0,
                "latency_benchmark_iterations": 8,
                "latency_benchmark_arrivals": "periodic",  # with another, the first request is due later
            },
            "benchmark",
            "--forks",
            str(FORKS),
        )
    measured = [document for document in documents(directory / "results") if document["phase"]["kind"] != "fill"]
    clocks = json.loads((directory / "results" / "latest" / "run.json").read_text(encoding="utf-8"))["fleet"]
    skews = sorted(
        1000
        * (
            result["started_at"]
            - clocks[host]["clock_correction"]
            - document["start_at"]
            - result["settings"]["stagger"] / result["settings"]["rate"]
        )
        for document in measured
        for host, result in document["hosts"].items()
    )
    p99 = skews[-(-99 * len(skews) // 100) - 1]
    overlap = min(document["overlap"] for document in measured)
    return [
        (
            f"start skew, {INSTANCES} local instances, forks={FORKS}: p50 / p99 / max of {len(skews)} starts",
            f"{statistics.median(skews):.3f} / {p99:.3f} / {skews[-1]:.3f} ms",
            f"p99 <= 1 ms: {'met' if p99 <= 1 else 'missed'}",
        ),
        (
            "smallest overlap of a phase, 32 local instances",
            f"{overlap:.4f}",
            f">= 0.999: {'met' if overlap >= 0.999 else 'missed'}",
        ),
    ]


def overhead(directory: pathlib.Path) -> list[tuple[str, str, str]]:
    """Measure the time of the demo's playbook beyond that of its phases."""
    inventory = ROOT / "inventories" / "local" / "hosts.yml"
    results = directory / "results"
    # Servers of its own, next to those of a demo that may be running.
    port = "{{ 19000 + (inventory_hostname | regex_replace('[^0-9]', '') | int) }}"
    user = {"redis_daemon_user": "root"} if os.geteuid() == 0 else {}  # others cannot enter the directory
    variables = {"redis_directory": str(directory / "state"), "redis_port": port, **user}
    seconds = run_playbook(inventory, results, variables, "site")
    phases = documents(results)
    load = sum(document["finished_at"] - document["started_at"] for document in phases)
    overlap = min(document["overlap"] for document in phases if document["phase"]["kind"] != "fill")
    run_playbook(inventory, results, variables, "teardown")
    own = seconds - load
    return [
        (
            f"own time of the run, {len(phases)} phases on 4 local instances",
            f"{own:.1f} s of {seconds:.1f} s",
            f"<= {OWN_S[4]} s: {'met' if own <= OWN_S[4] else 'missed'}",
        ),
        (
            "smallest overlap of a phase, 4 instances",
            f"{overlap:.4f}",
            f">= 0.999: {'met' if overlap >= 0.999 else 'missed'}",
        ),
    ]


def sshd() -> str | None:
    """Return the path of sshd; None if it is not installed."""
    return shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")


@contextlib.contextmanager
def ssh_servers(directory: pathlib.Path, count: int) -> t.Iterator[dict[str, t.Any]]:
    """Start real sshd on addresses of loopback, and yield the variables with which Ansible reaches them."""
    program = sshd()
    assert program, "main() looks for it"
    if os.geteuid() == 0:
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    for key in ("key", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / key], check=True)
    config = directory / "sshd.conf"
    config.write_text(
        f"HostKey {directory / 'host_key'}\nAuthorizedKeysFile {directory / 'key.pub'}\nPort {SSH_PORT}\n"
        "StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
        "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n",
        encoding="utf-8",
    )
    daemons = []
    try:
        for number in range(1, count + 1):
            command = [program, "-D", "-f", config, "-o", f"ListenAddress=127.0.0.{number}"]
            daemons.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        time.sleep(2)
        yield {
            "ansible_connection": "ssh",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
            "ansible_port": SSH_PORT,
            "ansible_ssh_private_key_file": str(directory / "key"),
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
        }
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()


def ssh(directory: pathlib.Path) -> list[tuple[str, str, str]]:
    """Measure the time of a run beyond its load on 32 hosts that Ansible reaches by ssh."""
    with redis_servers(directory, INSTANCES) as ports, ssh_servers(directory, INSTANCES) as reached:
        inventory = directory / "hosts.yml"
        hosts = {
            f"i{port}": {"ansible_host": f"127.0.0.{number}", "latency_benchmark_port": port}
            for number, port in enumerate(ports, 1)
        }
        inventory.write_text(yaml.safe_dump({"fleet": {"hosts": hosts, "vars": reached}}), encoding="utf-8")
        seconds = run_playbook(
            inventory,
            directory / "results",
            {
                "latency_benchmark_key_count": 2000,
                "latency_benchmark_rate": 100,
                "latency_benchmark_requests": 200,
                "latency_benchmark_influences": [0],
                "latency_benchmark_read_mixes": [100],
                "latency_benchmark_warmups": 0,
                "latency_benchmark_iterations": PHASES - 1,
            },
            "benchmark",
        )
    phases = documents(directory / "results")
    own = seconds - sum(document["finished_at"] - document["started_at"] for document in phases)
    overlap = min(document["overlap"] for document in phases if document["phase"]["kind"] != "fill")
    return [
        (
            f"own time of the run, {len(phases)} phases on {INSTANCES} hosts over ssh",
            f"{own:.1f} s of {seconds:.1f} s",
            f"<= {OWN_S[INSTANCES]} s: {'met' if own <= OWN_S[INSTANCES] else 'missed'}; overlap >= {overlap:.4f}",
        )
    ]


def record_example(directory: pathlib.Path) -> pathlib.Path:
    """Measure one real phase, whose result is used for all hosts."""
    with redis_servers(directory, 1) as ports:
        inventory = directory / "one.yml"
        inventory.write_text(
            yaml.safe_dump(
                {
                    "fleet": {
                        "hosts": {
                            "example": {
                                "ansible_connection": "local",
                                "ansible_python_interpreter": "{{ ansible_playbook_python }}",
                                "latency_benchmark_port": ports[0],
                            }
                        }
                    }
                }
            ),
            encoding="utf-8",
        )
        run_playbook(
            inventory,
            directory / "results",
            {
                "latency_benchmark_key_count": 20000,
                "latency_benchmark_rate": 2500,
                "latency_benchmark_influences": [10],
                "latency_benchmark_read_mixes": [70],
                "latency_benchmark_warmups": 0,
                "latency_benchmark_iterations": 1,
            },
            "benchmark",
        )
    example = directory / "example.json"
    example.write_text(json.dumps(documents(directory / "results")[-1]["hosts"]["example"]), encoding="utf-8")
    return example


def replay(example: pathlib.Path, hosts: int, directory: pathlib.Path) -> dict[str, float]:
    """Pass a recorded result of each host through the recorder of the callback and the report, in this process."""
    result = json.loads(example.read_text(encoding="utf-8"))
    config = run_config(
        profile="dram",
        key_count=20000,
        rate=2500,
        influences=[0, 10, 25],
        iterations=3,
        min_overlap=0,
    )
    begun = begun_run(directory / "run", config, [f"vm{number:04d}" for number in range(hosts)])
    fill = {**result, "latency": None, "fill": {"keys": 20000, "seconds": 1.0}}

    def measure(phase: t.Mapping[str, t.Any], number: int, host: str) -> dict[str, t.Any]:
        settings = {
            **result["settings"],
            "influence": phase.get("influence", 0),
            "read_mix": phase.get("read_mix", 100),
        }
        return {**(fill if phase["kind"] == "fill" else result), "settings": settings}

    # On the controller this is the work of another process for each host.
    packed = fleet_sum.pack(result["latency"])
    began = time.process_time()
    record_run(
        begun,
        measure,
        start_of=lambda phase: result["started_at"],
        pack=lambda measured: packed if measured["latency"] else None,
    )
    callback = time.process_time() - began
    began = time.process_time()
    publish(RunDirectory.at(str(directory / "run")), lambda line: None)
    report = time.process_time() - began
    size = sum(path.stat().st_size for path in (directory / "run").rglob("*") if path.is_file())
    return {
        "callback_s": callback,
        "report_s": report,
        "slots": len(decode(result["latency"]["intended"]["histogram"])),
        "result_kb": len(json.dumps(result, separators=(",", ":"))) / 1000,
        "disk_mb": size / 1e6,
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def scale(directory: pathlib.Path, scales: t.Sequence[int] = SCALES) -> list[tuple[str, str, str]]:
    """Measure fleets of several sizes, each in its own process, which gives its memory; all hosts have one result."""
    example = record_example(directory)
    rows = []
    for hosts in scales:
        place = directory / str(hosts)
        place.mkdir()
        done = subprocess.run(
            [sys.executable, __file__, "--replay", str(example), str(hosts), str(place)],
            check=True,
            capture_output=True,
            text=True,
        )
        seen = json.loads(done.stdout)
        seconds = f"{seen['callback_s']:.1f} s / {seen['report_s']:.1f} s"
        is_met = seen["callback_s"] + seen["report_s"] <= BAR[0] and seen["rss_mb"] <= BAR[1]
        verdict = f"; <= {BAR[0]} s, <= {BAR[1]:,} MB: {'met' if is_met else 'missed'}" if hosts == max(SCALES) else ""
        rows.append(
            (
                f"{hosts} hosts x {PHASES} phases: CPU time of callback / report, memory, files",
                f"{seconds}, {seen['rss_mb']:.0f} MB, {seen['disk_mb']:.1f} MB",
                f"a result is {seen['result_kb']:.1f} KB, a histogram has {seen['slots']} slots in use{verdict}",
            )
        )
        shutil.rmtree(place)
    return rows


def controller_costs(directory: pathlib.Path, hosts: int, iterations: int) -> list[dict[str, t.Any]]:
    """Run site.yml on simulated hosts and return what each task cost the controller."""
    place = directory / str(hosts)
    place.mkdir()
    costs = place / "costs.jsonl"
    run_playbook(
        simulated.inventory(place / "hosts.yml", hosts, iterations, directory / "cache"),
        place / "results",
        {},
        "site",
        more_environment={
            **simulated.prepare(place / "answers"),
            "SIMULATED_COSTS": str(costs),
            "ANSIBLE_CALLBACKS_ENABLED": "memstretch.density.fleet_latency,controller_cost",
        },
    )
    return [json.loads(line) for line in costs.read_text(encoding="utf-8").splitlines()]


def playbooks(directory: pathlib.Path, sizes: t.Sequence[int] = SIZES) -> list[tuple[str, str, str]]:
    """Measure the time of site.yml on simulated hosts beyond its load, and the CPU time of the controller."""
    controller_costs(directory, 1, 1)  # builds the client and fills Ansible's caches
    rows = []
    for hosts in sizes:
        began = time.monotonic()
        costs = controller_costs(directory, hosts, PHASES - 1)
        seconds = time.monotonic() - began
        results = directory / str(hosts) / "results"
        measured = documents(results)
        # The fill of a simulated host takes no time.
        load = sum(document["phase"]["seconds"] for document in measured if document["phase"]["kind"] != "fill")
        own, cpu = seconds - load, sum(cost["cpu_s"] for cost in costs) / hosts
        size = sum(path.stat().st_size for path in (results / "latest").resolve().rglob("*") if path.is_file())
        lookups = sum(cost["hostvars"] for cost in costs)
        verdict = f"<= {OWN_S[hosts]} s: {'met' if own <= OWN_S[hosts] else 'missed'}; " if hosts in OWN_S else ""
        rows.append(
            (
                f"{hosts} simulated hosts, {len(measured)} phases: own time of the run, controller's CPU time a host",
                f"{own:.1f} s of {seconds:.1f} s, {cpu:.2f} s",
                f"{verdict}CPU time <= {CPU_S} s: {'met' if cpu <= CPU_S else 'missed'}; peak memory "
                f"{costs[-1]['rss_mb']:.0f} MB, files {size / hosts / len(measured) / 1000:.1f} KB for each host and "
                f"phase, variables of other hosts read {lookups / hosts:.0f} times for each host",
            )
        )
    return rows


def write_page(rows: t.Sequence[tuple[str, str, str]]) -> None:
    """Replace the lines of the page that have the same first column, between its markers, and add the others."""
    before, rest = PAGE.read_text(encoding="utf-8").split("<!-- table -->\n")
    table, after = rest.split("<!-- end of table -->\n")
    when = f"{time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.0f}"
    lines = {line.split(" | ")[0]: line for line in table.strip().splitlines()}
    lines.update({f"| {what}": f"| {what} | {figure} | {target} | {when} |" for what, figure, target in rows})
    PAGE.write_text(
        before + "<!-- table -->\n" + "\n".join(lines.values()) + "\n<!-- end of table -->\n" + after, encoding="utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="WHAT", help="skew, overhead, ssh, scale, playbooks; all by default")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="numbers of simulated hosts")
    parser.add_argument("--scales", default=",".join(map(str, SCALES)), help="numbers of hosts that are merged")
    parser.add_argument("--write", action="store_true", help="write docs/bench/fleet.md")
    parser.add_argument("--replay", nargs=3, metavar=("EXAMPLE", "HOSTS", "DIRECTORY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.replay:
        example, hosts, place = options.replay
        print(json.dumps(replay(pathlib.Path(example), int(hosts), pathlib.Path(place))))
        return
    sizes = [int(size) for size in options.sizes.split(",")]
    scales = [int(size) for size in options.scales.split(",")]
    measures = {
        "skew": skew,
        "overhead": overhead,
        "ssh": ssh,
        "scale": lambda place: scale(place, scales),
        "playbooks": lambda place: playbooks(place, sizes),
    }
    if set(options.what) - set(measures):
        parser.error(f"WHAT is one of {', '.join(measures)}")
    if "ssh" in (options.what or measures) and not sshd():
        parser.error("sshd is not installed, and ssh measures with it: install openssh-server")
    for name in options.what or measures:
        with tempfile.TemporaryDirectory() as directory:
            rows = measures[name](pathlib.Path(directory))
        for row in rows:
            print("  ".join(row), flush=True)
        if options.write:
            write_page(rows)


if __name__ == "__main__":
    main()
