# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far a run has come: which phases are finished, whether the run is, and whether it can be continued.

A phase that was measured is finished, whatever came of it. Measuring it again would mean to choose between two
results, and later phases have changed the data since. So a run is repeated as a whole or not at all.
"""

from __future__ import annotations

import os
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.cell import of_interest
from ansible_collections.memstretch.density.plugins.plugin_utils.run.configuration import cell_of
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import RunDirectory
from ansible_collections.memstretch.density.plugins.plugin_utils.run.verdict import Futility

_Phase = t.Mapping[str, t.Any]


def mark_finished(directory: RunDirectory, phases: t.Sequence[_Phase]) -> list[dict[str, t.Any]]:
    """Return phases, each with C(finished): whether a resumed run keeps it.

    A cell with iterations left is warmed up again, because memory has cooled since.
    """
    measured = {phase["index"] for phase in phases if _is_measured(directory, phase)}
    open_cells = {cell_of(phase) for phase in phases if phase["kind"] == "iteration" and phase["index"] not in measured}
    return [
        {
            **phase,
            "finished": phase["index"] in measured and not (phase["kind"] == "warmup" and cell_of(phase) in open_cells),
        }
        for phase in phases
    ]


def finished_because(directory: RunDirectory, run: t.Mapping[str, t.Any]) -> str | None:
    """Explain why nothing more is measured in a run, although it may be invalid; None if phases are left to measure.

    Args:
        directory: of the run.
        run: its run.json; config and phases are used.

    Raises:
        RunError: the file of a phase is damaged.
    """
    measured = [phase for phase in run["phases"] if _is_measured(directory, phase)]
    if len(measured) == len(run["phases"]):
        return "all its phases were measured"
    if not measured:
        return None
    # The phase that was measured last is not that with the highest index if a cell was warmed up again.
    last = max(measured, key=lambda phase: os.path.getmtime(_file(directory, phase)))
    failed = (directory.read_phase(last, keep=None) or {})["failed"]
    if failed:
        where = f"phase {last['index']} of {last['of']} ({configuration.describe(last)})"
        return f"it ended when hosts failed in {where}: {', '.join(sorted(failed))}"
    return futile(directory, run)


def futile(directory: RunDirectory, run: t.Mapping[str, t.Any]) -> str | None:
    """Explain why a run that stops early can no longer meet its SLO; None if it can, or does not stop early."""
    futility = Futility(run["config"], run["config"]["slo"])
    for phase in run["phases"] if run["config"]["stop_when_failed"] else []:
        document = directory.read_phase(phase, of_interest)
        if document is not None:
            futility.add(document)
    return futility.reason


def data_is_gone(
    directory: RunDirectory, phases: t.Sequence[_Phase], fleet: t.Mapping[str, t.Mapping[str, t.Any]], key_count: int
) -> str | None:
    """Explain why an unfinished run cannot be continued: hosts no longer hold what it filled them with.

    Another fill would lie elsewhere in memory and swap, so its figures would be those of another run.

    Args:
        directory: of the run.
        phases: of the run.
        fleet: keys of each host, as of now.
        key_count: what the fill wrote to each host.
    """
    if not any(phase["kind"] == "fill" and _is_measured(directory, phase) for phase in phases):
        return None
    without = [
        f"{host} has {each['keys']:,} of {key_count:,} keys"
        for host, each in sorted(fleet.items())
        if each["keys"] != key_count
    ]
    more = f" and {len(without) - 5} more hosts" if len(without) > 5 else ""
    return f"the data of its fill is gone: {', '.join(without[:5])}{more}" if without else None


def _is_measured(directory: RunDirectory, phase: _Phase) -> bool:
    return os.path.exists(_file(directory, phase))


def _file(directory: RunDirectory, phase: _Phase) -> str:
    return directory.file("phases", configuration.file_name(phase))
