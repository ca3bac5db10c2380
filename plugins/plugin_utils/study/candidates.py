# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The candidates of a profile's settings, and profiles that differ from it by some of them."""

from __future__ import annotations

import re
import typing as t

import yaml

from ansible_collections.memstretch.density.plugins.module_utils.host.settings import canonical
from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import profile as host_profile
from ansible_collections.memstretch.density.plugins.plugin_utils.study.arms import arm_name

_MAX_NAME = 32
# Options of swap whose value is a list, of which the first that the host supports is used.
_LISTS = ("zram_algorithm",)


class Candidate(t.NamedTuple):
    """A value that a setting may have instead.

    Attributes:
        section: of the profile.
        setting: its name in that section.
        value: the value.
    """

    section: str
    setting: str
    value: t.Any

    @property
    def name(self) -> str:
        """The setting and its value, as a user reads them."""
        value = str(self.value).lower() if isinstance(self.value, bool) else self.value
        return f"{self.setting}={value}"


def candidates(profile: str, data: t.Mapping[str, t.Any], wanted: t.Sequence[str]) -> list[Candidate]:
    """Return the candidates of a profile's settings, without those that are their values.

    Args:
        profile: name or path, for messages.
        data: content of the profile.
        wanted: names of settings; all that have candidates if empty.

    Raises:
        SettingError: a wanted setting has no candidates, or there are none at all.
    """
    found = list({each.name: each for each in _all(data)}.values())
    known = list(dict.fromkeys(each.setting for each in found))
    if not found:
        raise SettingError(
            f"profile: {profile} has no candidates; give its settings some, such as "
            "{value: 100, candidates: [60, 150]}"
        )
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SettingError(
            f"study_settings: {', '.join(unknown)} has no candidates in profile {profile}; those that have some are "
            f"{', '.join(known)}"
        )
    return [each for each in found if not wanted or each.setting in wanted]


def _all(data: t.Mapping[str, t.Any]) -> t.Iterator[Candidate]:
    for section in host_profile.SETTING_SECTIONS:
        for setting, entry in _entries(section, data[section]).items():
            if isinstance(entry, dict):
                yield from _others(section, setting, entry.get("candidates", []), entry.get("value"))
    for setting, values in data["swap_candidates"].items():
        yield from _others("swap", setting, values, data["swap"].get(setting))


def _entries(section: str, content: t.Any) -> t.Mapping[str, t.Any]:
    return {section: content} if section == "cpu_governor" else content


def _others(section: str, setting: str, values: t.Sequence[t.Any], value: t.Any) -> t.Iterator[Candidate]:
    """Return the candidates of a setting that are not its value, or the first of its values."""
    first = value[0] if isinstance(value, list) else value
    for each in values:
        if canonical(str(each)) != canonical(str(first)):
            yield Candidate(section, setting, each)


def profile_name(profile: str, suffix: str) -> str:
    """Return a name for a profile that was made from another one."""
    stem = re.sub(r"[^a-z0-9_]+", "_", arm_name(profile).lower()).strip("_")
    stem = stem if re.match("[a-z]", stem) else f"p_{stem}"
    return f"{stem[: _MAX_NAME - len(suffix) - 1]}_{suffix}"


def changed_profile(
    profile: str,
    data: t.Mapping[str, t.Any],
    name: str,
    description: str,
    changes: t.Sequence[tuple[Candidate, str]],
) -> str:
    """Return the file of a profile that has candidates instead of the values of another one.

    Args:
        profile: name or path of that one. A profile of this collection is extended; any other one is copied, since
            it cannot be extended.
        data: its content.
        name: of the new profile.
        description: of the new profile.
        changes: candidates, each with the reason for it.
    """
    if host_profile.is_path(profile):
        content = {key: value for key, value in data.items() if value not in ("", [], {}, None)}
    else:
        content = {"extends": profile}
    content = {"name": name, "description": description, **_without(content, "name", "description")}
    for candidate, reason in changes:
        section, setting, value = candidate
        if section == "swap":
            value = [value] if setting in _LISTS else value
            content["swap"] = {**content.get("swap", {}), setting: value}
            continue
        old = _entries(section, data[section])[setting]
        # The old value becomes a candidate, for the next search.
        before = old["value"] if isinstance(old["value"], list) else [old["value"]]
        others = [each for each in [*before, *old["candidates"]] if each != value]
        entry = {**old, "value": value, "reason": reason, "candidates": list(dict.fromkeys(others))}
        content[section] = entry if section == "cpu_governor" else {**content.get(section, {}), setting: entry}
    reasons = [f"# {candidate.name}: {reason}\n" for candidate, reason in changes if candidate.section == "swap"]
    return "".join(["---\n", *reasons, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)])


def _without(content: t.Mapping[str, t.Any], *names: str) -> dict[str, t.Any]:
    return {name: value for name, value in content.items() if name not in names}
