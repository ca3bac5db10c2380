# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import math
import time
import typing as t

from ansible.utils.display import Display

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError, number, numbers
from ansible_collections.memstretch.density.plugins.plugin_utils.controller_action import (
    CHECKED_RUN,
    COST_EXAMPLE,
    PRICES,
    RESULTS_DIR,
    RESUME,
    SITE,
    ControllerAction,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.cost import figures as cost
from ansible_collections.memstretch.density.plugins.plugin_utils.report.words import counted
from ansible_collections.memstretch.density.plugins.plugin_utils.run import site_check
from ansible_collections.memstretch.density.plugins.plugin_utils.run.bounds import FAIL
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory, RunError
from ansible_collections.memstretch.density.plugins.plugin_utils.run.options import SLO_FACTOR
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import evaluate
from ansible_collections.memstretch.density.plugins.plugin_utils.study import calibration, density_result
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import Arm, profile_arms, run_names
from ansible_collections.memstretch.density.plugins.plugin_utils.study.attempts import (
    FAILED,
    FINISHED,
    INVALID,
    Ledger,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.density_search import (
    DensitySearch,
    next_probe,
)
from ansible_collections.memstretch.density.plugins.plugin_utils.study.options import RANGES
from ansible_collections.memstretch.density.plugins.plugin_utils.study.probed_fleet import StaticFleet, VmFleet
from ansible_collections.memstretch.density.plugins.plugin_utils.study.sequence import (
    Sequence,
    choose,
    common_settings,
)

FILE = "density.json"
_NOTHING: tuple[t.Any, ...] = ("", None, [])
# A probe is a short run; these variables make it shorter than a run of a study.
PROBE = {"latency_benchmark_iterations": 1, "latency_benchmark_stop_when_failed": True}


class ActionModule(ControllerAction):
    """Search for the largest fleet whose hosts all meet the SLO, under each profile in turn, and restore the hosts."""

    ARGUMENTS = {
        "results_dir": RESULTS_DIR,
        "density_id": {"type": "str"},
        "resume": RESUME,
        "profiles": {"type": "raw", "required": True},
        "maximum": {"type": "raw"},
        "start": {"type": "raw"},
        "probes": {"type": "raw", "default": 40},
        "factor": {"type": "raw", "default": 1.25},
        "target": {"type": "raw", "default": ""},
        "overcommit": {"type": "raw", "default": ""},
        "probe": {"type": "dict", "default": {}},
        "slo": {"type": "str", "default": ""},
        "slo_factor": {"type": "raw", "default": 1.5},
        "minutes": {"type": "raw"},
        "run": CHECKED_RUN,
        "site": SITE,
        "prices": PRICES,
        "cost_example": COST_EXAMPLE,
    }

    def work(self, options: dict[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        paid = cost.prices("prices", options["prices"], options["cost_example"])
        arms = profile_arms("profiles", options["profiles"], at_least=1)
        definition = {
            "arms": [arm._asdict() for arm in arms],
            **_bounds(options, task_vars),
            "probe": {**PROBE, **options["probe"]},
            **common_settings(options["run"]),
            **_calibrated(options),
            **_target(options),
            **_overcommit(options),
        }
        minutes = math.inf
        if options["minutes"] not in (None, ""):
            minutes = number("density_minutes", options["minutes"], RANGES["density_minutes"])
        directory, document = choose(
            options["results_dir"], FILE, "density", options["density_id"], definition, options["resume"]
        )
        for line in _opening(directory, document) + site_check.added(document, options["site"]):
            Display().display(line)
        if self._task.check_mode:
            return {"changed": False, "density": {"id": document["id"], "directory": directory.path}}
        with Sequence(directory, FILE, document, bool(task_vars["groups"].get("hypervisors")), quiet=True) as sequence:
            for arm in arms:
                sequence.check(arm.name, _variables(arm, definition["start"] or 1, definition))
            search = _Search(sequence, {arm.name: arm for arm in arms}, task_vars["groups"]["fleet"])
            search.calibrate()
            search.run(60 * minutes)
        # Set after the hosts are restored: a search that was killed earlier counts as unfinished, so the next run
        # restores them.
        document["finished"] = True
        density_result.publish(directory, document, Display().display, paid)
        found = {each["name"]: each["density"] for each in document["density"]}
        return {"changed": True, "density": {"id": document["id"], "directory": directory.path, "found": found}}


def _bounds(options: t.Mapping[str, t.Any], task_vars: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return maximum, start, probes and factor, and whether the fleet's hosts are VMs of this inventory's
    hypervisors."""
    groups = task_vars["groups"]
    fleet = len(groups.get("fleet", []))
    grows = any("vm_fleet_count" in task_vars["hostvars"][name] for name in groups.get("hypervisors", []))
    others = sorted(set(groups.get("fleet", [])) - set(groups.get("fleet_vms", []))) if grows else []
    if others:
        raise SettingError(
            f"vm_fleet_count: is set, so the search is over VMs, but the group fleet also holds {', '.join(others[:5])}"
            f"{' and others' if others[5:] else ''}. Its hosts must be either VMs or static hosts; leave the others out"
        )
    if options["maximum"] in (None, "") and (grows or not fleet):
        raise SettingError("density_max: is missing; it must be the largest fleet to probe, from 1 to 100,000")
    is_given = options["maximum"] not in (None, "")
    maximum = number("density_max", options["maximum"], RANGES["density_max"]) if is_given else fleet
    if maximum > fleet and not grows:
        raise SettingError(
            f"density_max: {maximum} is out of range; it must be from 1 to {fleet}, the hosts of the group fleet"
        )
    start = None
    if options["start"] not in (None, ""):
        start = number("density_start", options["start"], RANGES["density_start"])
        if start > maximum:
            raise SettingError(f"density_start: {start} is more than density_max, {maximum}")
    return {
        "maximum": maximum,
        "start": start,
        "probes": number("density_probes", options["probes"], RANGES["density_probes"]),
        "factor": number("density_factor", options["factor"], RANGES["density_factor"]),
        "vms": grows,
    }


def _calibrated(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the setting C(slo) of a search whose SLO comes from the machine itself; nothing for another one."""
    if not options["slo"]:
        return {}
    if options["slo"] != calibration.CALIBRATED:
        raise SettingError(
            f"slo: {options['slo']!r} is not allowed; it must be {calibration.CALIBRATED}, or empty for "
            f"latency_benchmark_slo_avg_us and latency_benchmark_slo_p99_us"
        )
    return {"slo": {"factor": number("density_slo_factor", options["slo_factor"], SLO_FACTOR)}}


def _target(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the setting C(target) of a search that decides whether a multiple is reached; nothing for another one."""
    if options["target"] in ("", None):
        return {}
    if options["overcommit"] not in _NOTHING:
        raise SettingError("density_target and density_overcommit exclude each other; leave one of them out")
    return {"target": number("density_target", options["target"], RANGES["density_target"])}


def _overcommit(options: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the settings C(overcommit) and C(probe) of a series of given sizes; nothing for a search."""
    if options["overcommit"] in _NOTHING:
        return {}
    if not options["slo"]:
        raise SettingError(
            f"density_overcommit: {options['overcommit']!r} is a multiple of the hosts that fit into DRAM, which only "
            f"slo={calibration.CALIBRATED} measures"
        )
    multiples = numbers("density_overcommit", options["overcommit"], RANGES["density_overcommit"])
    # The latency is needed even if the fleet misses the SLO.
    return {
        "overcommit": multiples,
        "probe": {**PROBE, "latency_benchmark_stop_when_failed": False, **options["probe"]},
    }


def _variables(arm: Arm, size: int, definition: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the variables of a probe of a fleet of this size: its first hosts, or this many VMs."""
    of_vms = {"vm_fleet_count": size} if definition["vms"] else {}
    return {**arm.variables, **definition["probe"], "fleet_size": size, **of_vms}


def _opening(directory: RunDirectory, document: t.Mapping[str, t.Any]) -> list[str]:
    definition = document["definition"]
    return [
        f"{'Resuming density search' if document['runs'] else 'Density search'} {document['id']}: "
        + ", ".join(arm["name"] for arm in definition["arms"]),
        f"  {_aim(definition)}; at most {definition['probes']} probes under each profile",
        f"{counted(len(document['runs']), 'probe')} done; results in {directory.path}, all output in log.txt there",
    ]


def _aim(definition: t.Mapping[str, t.Any]) -> str:
    """Say what a search is for."""
    if "overcommit" in definition:
        return f"fleets of {', '.join(f'{each:g}' for each in definition['overcommit'])} times the hosts that fit"
    if "target" in definition:
        first = definition["arms"][0]["name"]
        return f"whether {definition['target']:g} times as many hosts as under {first} all meet the SLO"
    return (
        f"the largest fleet of 1 to {counted(definition['maximum'], 'host')} that all meet the SLO, known within a "
        f"factor of {definition['factor']:g}"
    )


class _Search:
    """The probes of a search.

    Args:
        sequence: that of the search.
        arms: by name.
        hosts: of the fleet, in the inventory's order.
    """

    def __init__(self, sequence: Sequence, arms: t.Mapping[str, Arm], hosts: t.Sequence[str]) -> None:
        self._sequence, self._arms = sequence, arms
        self._document, self._definition = sequence.document, sequence.document["definition"]
        self._began = time.monotonic()
        self._deadline = math.inf
        self._longest = 0.0
        self._fleet: VmFleet | StaticFleet = (
            VmFleet(sequence)
            if self._definition["vms"]
            else StaticFleet(sequence, hosts[: self._definition["maximum"]])
        )

    def calibrate(self) -> None:
        """Measure the SLO in DRAM, if it is to come from the machine and no earlier session did so."""
        factor = self._definition["slo"].get("factor")
        if not factor:
            return
        if "calibration" not in self._document:
            self._document["calibration"] = calibration.calibrate(
                self._measure_dram, factor, self._definition["maximum"], self._definition["start"]
            )
            self._sequence.save()
        self._sequence.say(f"   {calibration.sentence(self._document['calibration'])}")

    def _measure_dram(self, size: int) -> RunDirectory:
        """Measure a fleet in DRAM for the calibration."""
        arm = Arm(calibration.PROFILE, {"profile": calibration.PROFILE}, None)
        variables = {**_variables(arm, size, self._definition), **calibration.VARIABLES}
        run_id = f"{self._document['id']}-calibration-n{size:04d}"
        self._fleet.prepare(size, variables)
        self._sequence.announce(f"Measuring the SLO: a fleet of {size} in DRAM alone")
        # The ledger must not count it as a probe of the profile.
        measured = self._fleet.measure(run_id, "calibration", size, variables)
        if measured["state"] == FAILED:
            raise RunError(f"the SLO cannot be calibrated: {measured['note']}. Run the same command again to continue")
        if "seconds" in measured:
            self._fleet.probed(arm.name, size, [])
        return RunDirectory(self._sequence.directory.results_dir, measured["run_id"])

    def run(self, seconds: float) -> None:
        """Probe one size after another, the arms in turn, until the density of each arm is known or its probes are
        used.

        No probe is started that would probably end more than C(seconds) after the beginning, but each arm has one.
        """
        self._deadline = self._began + seconds
        of_arms = density_result.searches(self._document)
        while (probe := next_probe(of_arms)) is not None:
            late = time.monotonic() + self._longest > self._deadline
            if late and all(search.probed for search in of_arms.values()):
                self._document["out_of_time"] = True
                return
            self._probe(*probe, of_arms[probe[0]])

    def _probe(self, name: str, size: int, search: DensitySearch) -> None:
        """Measure a fleet of a size under an arm, and add its attempts to the document and the search."""
        arm, document, sequence = self._arms[name], self._document, self._sequence
        run_id = run_names(document["id"], [(arm, 1)])[0] + f"-n{size:04d}-{search.probed + 1}"
        variables = _variables(arm, size, self._definition)
        if "calibration" in document:
            variables.update(calibration.variables(document["calibration"]))
        self._fleet.prepare(size, variables)
        left, seconds = density_result.probes_left(document), self._deadline - time.monotonic()
        sequence.announce(
            f"{name}: probe {search.probed + 1} of at most {search.budget}, a fleet of {size}",
            left,
            density_result.left_text(left, seconds, self._longest),
            seconds,
        )
        measured = self._fleet.measure(run_id, name, size, variables)
        if measured["state"] == FAILED:
            raise RunError(
                f"the probe of {size} hosts under {name} failed: {measured['note']}. "
                "Run the same command again to continue"
            )
        judged = [each for each in Ledger(document).of(run_id) if each["state"] in (FINISHED, INVALID)]
        for attempt in judged:
            directory = RunDirectory(sequence.directory.results_dir, attempt["run_id"])
            document["runs"].append({**attempt, **_figures(directory, size)})
            search.add(size, document["runs"][-1]["outcome"])
        if "seconds" in measured:  # not the outcome of an earlier session
            self._longest = max(self._longest, measured["seconds"])
            self._fleet.probed(name, size, document["runs"][-1]["lost"])
        sequence.save()
        for line in density_result.probed(document["runs"][-1], search):
            sequence.say(line)


def _figures(directory: RunDirectory, size: int) -> dict[str, t.Any]:
    """Return the outcome of a probe, its hosts, and its figures: those of its worst cell."""
    summary = directory.read_json("summary.json")
    details = evaluate(directory, summary["slo"])[1]
    if summary["fleet"]["expected"] != size:
        raise RunError(
            f"{directory.path} is a run of {summary['fleet']['expected']} hosts, not of {size}; "
            "choose another density_id"
        )
    cells = [cell for cell in summary["cells"] if cell["worst_host"]]
    slowest: dict[str, t.Any] = max(cells, key=lambda cell: cell["intended"]["p99_us"], default={"pressure": {}})
    lost = summary["fleet"]["failed"]
    hosts = [host for cell in details.values() for host in cell.hosts]
    missed = {host["name"] for host in hosts if host["answer"] == FAIL}
    return {
        "outcome": summary["verdict"],
        "hosts": directory.read_json("run.json")["expected"],
        "missed": sorted(missed.union(lost)),
        "lost": lost,
        "slo": summary["slo"],
        "labels": summary["labels"],
        "dram": summary["dram"],
        "cpu": summary["cpu"],
        "pressure": slowest["pressure"],
        "hosts_within_slo": min((cell["hosts_within_slo"] for cell in cells), default=0),
        "avg_us": max((cell["intended"]["avg_us"] for cell in cells), default=None),
        "p99_us": max((cell["intended"]["p99_us"] for cell in cells), default=None),
        # The host with the highest average need not have the highest p99.
        "worst_host_avg_us": max((host["upper"]["avg_us"] for host in hosts), default=None),
        "worst_host_p99_us": max((host["upper"]["p99_us"] for host in hosts), default=None),
    }
