# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of an experiment that is not finished, kept on disk so that an interruption loses nothing."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.memstretch.density.plugins.plugin_utils.report import experiments
from ansible_collections.memstretch.density.plugins.plugin_utils.run import configuration
from ansible_collections.memstretch.density.plugins.plugin_utils.run.directory import SCHEMA, RunDirectory, RunError

Parts = dict[str, dict[str, t.Any]]


def begin(
    experiment: str, results_dir: str, run_id: str | None, definition: t.Mapping[str, t.Any], resume: bool
) -> tuple[RunDirectory, Parts]:
    """Return the directory of an experiment that is measured in parts, and the parts that it has already.

    Args:
        experiment: its name.
        results_dir: parent directory of the runs.
        run_id: name of the directory; if empty, the newest unfinished experiment with the same definition is continued.
        definition: everything that must be the same for all parts.
        resume: whether to continue an unfinished experiment.

    Raises:
        RunError: see experiments.directory_for(); or the directory has parts with another definition.
    """
    if not run_id:
        run_id = _newest(experiment, results_dir, definition) if resume else None
    directory = experiments.directory_for(experiment, results_dir, run_id)
    file = directory.file(experiments.parts_file(experiment))
    if not os.path.exists(file):
        return directory, {}
    document = directory.read_json(experiments.parts_file(experiment))
    changes = configuration.differences(document["definition"], dict(definition))
    if changes or not resume:
        raise RunError(
            f"run_id: {directory.path} has an unfinished {experiment} "
            f"{'with other settings (' + '; '.join(changes[:6]) + ')' if changes else 'that must not be resumed'}; "
            f"choose another run_id, or remove {file}"
        )
    return directory, document["parts"]


def _newest(experiment: str, results_dir: str, definition: t.Mapping[str, t.Any]) -> str | None:
    """Return the name of the newest directory with parts of this definition, if there is one."""
    root, file = os.path.abspath(os.path.expanduser(results_dir)), experiments.parts_file(experiment)
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    unfinished = [
        each
        for each in (RunDirectory(results_dir, name) for name in names)
        if os.path.isfile(each.file(file)) and not each.whose()
    ]
    same = [each for each in unfinished if each.read_json(file)["definition"] == definition]
    newest = max(same, key=lambda each: os.path.getmtime(each.file(file)), default=None)
    return newest.run_id if newest else None


def add(
    directory: RunDirectory, experiment: str, definition: t.Mapping[str, t.Any], parts: t.Mapping[str, t.Any]
) -> None:
    """Write parts of an experiment, next to those that it has already.

    Raises:
        RunError: what is there has another definition, or is damaged.
    """
    name = experiments.parts_file(experiment)
    document: dict[str, t.Any] = {"schema": SCHEMA, "definition": definition, "parts": {}}
    if os.path.exists(directory.file(name)):
        document = directory.read_json(name)
        changes = configuration.differences(document["definition"], dict(definition))
        if changes:
            raise RunError(f"{directory.file(name)} was begun with other settings ({'; '.join(changes[:6])})")
    directory.make()
    directory.write_json(name, {**document, "parts": {**document["parts"], **parts}})


def end(directory: RunDirectory, experiment: str) -> None:
    """Remove the parts of an experiment whose result is kept."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(directory.file(experiments.parts_file(experiment)))
