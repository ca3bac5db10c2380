# SPDX-License-Identifier: GPL-3.0-or-later
"""Every entry point of a role that a playbook, a role or a page uses is specified, and begins a file of tasks."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLLECTION = "memstretch.density."
SPECS = {
    path.parts[-3]: yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
    for path in ROOT.glob("roles/*/meta/argument_specs.yml")
}
FILES = [
    *ROOT.glob("playbooks/**/*.yml"),
    *ROOT.glob("roles/*/tasks/*.yml"),
    *ROOT.glob("extensions/molecule/**/*.yml"),
]
# A task that includes an entry point with the name of a step, such as verify.
NAMED_BY_STEP = "{{ __host_tuning_step }}"
STEPS = {"main", "preflight", "verify"}


def inclusions(document: t.Any) -> t.Iterator[tuple[str, str]]:
    """Return the role and the entry point of each inclusion in a document."""
    if isinstance(document, list):
        for each in document:
            yield from inclusions(each)
    elif isinstance(document, dict):
        for key, value in document.items():
            if re.search(r"\b(include|import)_role$", str(key)):
                yield value["name"], value.get("tasks_from", "main").removesuffix(".yml")
            else:
                yield from inclusions(value)


def used(paths: t.Iterable[pathlib.Path]) -> set[tuple[str, str]]:
    found = {each for path in paths for each in inclusions(yaml.safe_load(path.read_text(encoding="utf-8")))}
    found = {(role.removeprefix(COLLECTION), entry) for role, entry in found if role.startswith(COLLECTION)}
    steps = {(role, step) for role, entry in found if entry == NAMED_BY_STEP for step in STEPS}
    files = {(path.parts[-3], path.stem) for path in ROOT.glob("roles/*/tasks/*.yml")}
    return {each for each in found if each[1] != NAMED_BY_STEP} | (steps & files)


def of_pages() -> set[tuple[str, str]]:
    """Return the entry points that the text of the pages of roles names."""
    return {
        (path.parent.name, entry)
        for path in ROOT.glob("roles/*/README.md")
        for entry in re.findall(r"`tasks_from: (\w+)`", path.read_text(encoding="utf-8"))
    }


@pytest.mark.parametrize(("role", "entry"), sorted(used(FILES) | of_pages()))
def test_an_entry_point_that_is_used_is_specified(role, entry):
    assert entry in SPECS[role], f"roles/{role}/meta/argument_specs.yml has no {entry}"


@pytest.mark.parametrize("role", sorted(SPECS))
def test_a_specified_entry_point_is_a_file_and_has_options_of_the_role(role):
    main = SPECS[role]["main"]["options"]
    for entry, spec in SPECS[role].items():
        assert (ROOT / "roles" / role / "tasks" / f"{entry}.yml").is_file(), entry
        assert spec["short_description"] and spec["description"], entry
        assert all(main[name] == option for name, option in spec["options"].items()), entry


def test_the_entry_points_are_found(tmp_path):
    path = tmp_path / "play.yml"
    path.write_text(
        "- hosts: a\n  tasks:\n  - block:\n    - include_role: {name: memstretch.density.redis, tasks_from: nothing}\n",
        encoding="utf-8",
    )
    assert used([path]) == {("redis", "nothing")} and len(used(FILES)) > 20
