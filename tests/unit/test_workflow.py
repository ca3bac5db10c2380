# SPDX-License-Identifier: GPL-3.0-or-later
"""The public workflow runs lanes that there are, on what they need. What runs it is not here, so it is only read."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import yaml

from ansible_collections.memstretch.density.tests.unit.fixtures.pages import ROOT

sys.path.insert(0, str(ROOT / "tests" / "bare"))

import bare

JOB = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]["lane"]
MATRIX = JOB["strategy"]["matrix"]
LANES = {(suite, lane) for suite in MATRIX["suite"] for lane in MATRIX["lane"]}
LANES |= {(each["suite"], each["lane"]) for each in MATRIX["include"]}


def test_the_lanes_are_those_of_make():
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    for lane in sorted({lane for _suite, lane in LANES}):
        command = JOB["steps"][-1]["run"].replace("${{ matrix.lane }}", lane).split()
        assert command[0] == "make" and f"`{lane}`" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
        done = subprocess.run(
            [*command, "--dry-run"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_the_lanes_that_contributors_are_asked_for_run_on_every_supported_debian():
    suites = {"bookworm", "trixie"}
    assert {(suite, lane) for suite in suites for lane in ("lint", "sanity", "unit", "client")} <= LANES
    assert ("bookworm", "molecule") in LANES and {suite for suite, _lane in LANES} == suites


def test_it_installs_what_a_bare_system_needs():
    (install,) = (step["run"] for step in JOB["steps"] if "apt-get install" in step.get("run", ""))
    assert re.findall(r"(?<= )[a-z][\w-]+(?= |$)", install.partition("--no-install-recommends")[2]) == (
        bare.PACKAGES_THERE
    )


def test_it_may_only_read_the_repository():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
