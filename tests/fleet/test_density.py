# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A density on several machines that ssh reaches: each has its ramps, and all conduct them at the same time."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
import typing as t

import jsonschema
import pytest

from .ssh_machines import MEMORY, ROOT, SshMachines

SCHEMA = json.loads((ROOT / "docs" / "schemas" / "density.json").read_text(encoding="utf-8"))
# A Redis with 3,000 values of 1,000 bytes takes 7 MiB, so four fit. Every machine meets the objective: memory ends it.
SETTINGS = {
    "density_budget": "32M",
    "density_references": 2,
    "density_rounds": 1,
    "density_window": 1,
    "density_settle": 3,
    "density_wait": 0,
    # A noisy machine must not fail a test.
    "density_max_stolen": 1,
    "density_id": "two",
    "slo": "absolute",
    "latency_benchmark_slo_avg_us": 1e8,
    "latency_benchmark_slo_p99_us": 1e8,
    "site_check": False,
}
VALUES = {
    "latency_benchmark_key_count": 3000,
    "latency_benchmark_value_size": 1000,
    "latency_benchmark_compressibility": 0.72,
    "latency_benchmark_rate": 200,
    "latency_benchmark_influences": [25],
    "latency_benchmark_read_mixes": [100],
}
LOAD = {**VALUES, "redis_daemon_user": "redis"}


@pytest.fixture
def machines() -> t.Iterator[SshMachines]:
    if not MEMORY.is_dir():
        pytest.skip("this needs the memory controller of cgroup v1")
    path = pathlib.Path(tempfile.mkdtemp(prefix="ms-", dir="/var/tmp"))
    path.chmod(0o755)
    found = SshMachines(path, ("kvm1", "kvm2"))
    yield found
    found.close()
    shutil.rmtree(path)


def unchanged(path: pathlib.Path) -> str:
    """Write a profile that sets what is set already, since the kernel is that of this machine."""
    now = int(pathlib.Path("/proc/sys/vm/stat_interval").read_text(encoding="ascii"))
    setting = {"value": now, "reason": "It is so.", "since": "2.6"}
    texts = {"name": "unchanged", "description": "What is set.", "source": "This machine."}
    path.write_text(json.dumps({**texts, "sysctl": {"vm.stat_interval": setting}}), encoding="utf-8")
    return str(path)


@pytest.mark.long
def test_each_machine_has_a_density_and_all_have_one_together(machines: SshMachines) -> None:
    own = machines.variables()
    fleet = {
        f"redis-{name}-{number}": {"ansible_host": address, "latency_benchmark_port": 7000 + number}
        for name, address in machines.addresses.items()
        for number in range(1, 8)
    }
    groups = {
        "hypervisors": {
            "hosts": {name: {"ansible_host": address} for name, address in machines.addresses.items()},
            "vars": {**own, "ansible_become": True},
        },
        "fleet": {"hosts": fleet, "vars": {**own, **LOAD}},
    }
    results = machines.path / "results"
    given = {
        **SETTINGS,
        "profiles": unchanged(machines.path / "unchanged.yml"),
        "results_dir": str(results),
        "client_program_cache_directory": str(machines.path / "cache"),
    }
    status, output = machines.playbook("density", groups, "-e", json.dumps(given))
    assert status == 0, output[-4000:]
    whole = json.loads((results / "two" / "density.json").read_text(encoding="utf-8"))
    jsonschema.validate(whole, SCHEMA)
    assert whole["finished"] is True and whole["restored"] is True and list(whole["machines"]) == ["kvm1", "kvm2"]
    ramps = {}
    for name in machines.names:
        found = json.loads((results / "two" / name / "density.json").read_text(encoding="utf-8"))
        jsonschema.validate(found, SCHEMA)
        (arm,) = found["arms"]
        assert whole["machines"][name] == {"unchanged": arm["density"]} and 3 <= arm["density"] <= 5
        (ramps[name],) = [json.loads(path.read_text("utf-8")) for path in (results / "two" / name / "ramps").iterdir()]
        assert ramps[name]["end"]["machine"] == name and ramps[name]["end"]["kind"] in ("does_not_fit", "killed")
        assert ramps[name]["end"]["host"].startswith(f"redis-{name}-")
        assert (
            f"| {name}: " in output and f"On {name}, in 32 MiB of DRAM, unchanged carries {arm['density']} " in output
        )
    first, second = (ramps[name] for name in machines.names)
    assert max(first["started_at"], second["started_at"]) < min(first["finished_at"], second["finished_at"])
    total = sum(each["unchanged"] for each in whole["machines"].values())
    (together,) = whole["together"]
    assert together["density"] == total == sum(together["passes"]["values"]) and together["interval"] is None
    assert f"Together, the 2 machines carry: unchanged {total} (one ramp)." in output.splitlines()
    assert not any((group / "memstretch-ramp").exists() for group in machines.groups.values())
