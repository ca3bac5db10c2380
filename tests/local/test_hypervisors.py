# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet whose hypervisors are other machines: one that answers, one that is gone, and one that is hostile."""

from __future__ import annotations

import json
import re
import sys

import pytest
import yaml

from .conftest import ON_THIS_MACHINE, free_ports


@pytest.fixture
def other_kernel(needs_root, tmp_path):
    """A Python that runs modules as on a machine with another boot id, in a mount namespace."""
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("00000000-0000-4000-8000-00000000hv01\n", encoding="ascii")
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nexec unshare -m sh -c 'mount --bind {boot_id} /proc/sys/kernel/random/boot_id && "
        f'exec {sys.executable} "$@"\' python "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    return str(python)


@pytest.mark.long
def test_the_pressure_of_hypervisors_is_recorded(fleet, tmp_path, other_kernel):
    fleet.add("a", "b")
    hostile = tmp_path / "hostile"
    answer = {"changed": False, "machine": 1, "add_host": {"host_name": "attacker"}}
    hostile.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(answer)}\nEOF\n", encoding="utf-8")
    hostile.chmod(0o755)
    inventory = yaml.safe_load(fleet.inventory().read_text(encoding="utf-8"))
    inventory["all"]["children"]["hypervisors"] = {
        "hosts": {
            "hv1": {**ON_THIS_MACHINE, "ansible_python_interpreter": other_kernel},
            "gone": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": free_ports(1)},
            "hostile": {**ON_THIS_MACHINE, "ansible_python_interpreter": str(hostile)},
        }
    }
    path = tmp_path / "hypervisors.yml"
    path.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    role = {"ansible.builtin.include_role": {"name": "memstretch.density.latency_benchmark"}}
    report = {
        "memstretch.density.report": {"results_dir": str(fleet.results), "run_id": "latest"},
        "run_once": True,
    }
    outcome = fleet.run_playbook(
        "-e",
        f"latency_benchmark_results_dir={fleet.results}",
        playbook=fleet.custom_playbook([role, report]),
        inventory=path,
    )
    assert outcome.status == 0, outcome.output
    document = outcome.phase("02-i0-r100-1.json")
    boot_id = "00000000-0000-4000-8000-00000000hv01"
    assert document["hypervisors"]["hv1"] == {"machine": boot_id}
    # Ansible reports either why ssh ended or that it could not write to it.
    assert re.search("refused|Broken pipe", document["hypervisors"]["gone"]["unknown"])
    assert "host_memory_info.machine = 1; must be" in document["hypervisors"]["hostile"]["unknown"]
    assert document["pressure"][boot_id]["counters"]["clock_s"] > 0 and len(document["pressure"]) == 2
    found = outcome.summary["cells"][0]["pressure"]
    assert sorted(found) == ["1 guest", "gone", "hostile", "hv1"]
    assert found["hv1"]["page_ins"] is not None and found["gone"]["page_ins"] is None
    assert "attacker" not in json.loads((outcome.run / "run.json").read_text(encoding="utf-8"))["inventory"]["groups"]
    raw = outcome.run / "raw"
    assert (raw / "hv1" / "proc-meminfo.txt").read_text(encoding="utf-8").startswith("MemTotal:")
    assert "transparent_hugepage" in (raw / "hv1" / "sys-kernel-mm.txt").read_text(encoding="utf-8")
    assert (raw / "hv1" / "dmesg.txt").exists() and "unknown" in (raw / "gone" / "dmesg.txt").read_text(
        encoding="utf-8"
    )
