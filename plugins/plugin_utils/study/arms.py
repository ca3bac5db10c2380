# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a study is made of: its arms, and the order in which they are run."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.plugin_utils import profile as host_profile

ORDERS = ("interleaved", "blocks")


class StudyArm(t.NamedTuple):
    """One of the things that a study compares.

    Attributes:
        name: what it is called, fit for the name of a directory.
        variables: what site.yml is played with.
        setting: the setting of a profile that is left out, or put back; None if the arm is about the profile as a whole.
    """

    name: str
    variables: dict[str, t.Any]
    setting: str | None = None


def listed(option: str, value: t.Any) -> list[str]:
    """Return a list of names, which may have been given as one text with commas.

    Raises:
        SettingError: it is empty, or names something twice.
    """
    words = (
        [word.strip() for word in value.split(",")] if isinstance(value, str) else [str(word) for word in value or []]
    )
    words = [word for word in words if word]
    if not words:
        raise SettingError(f"{option}: nothing is named; it takes names with commas between them")
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice:
        raise SettingError(f"{option}: {', '.join(twice)} is named twice")
    return words


def profile_arms(option: str, profiles: t.Any, at_least: int = 2) -> list[StudyArm]:
    """Return an arm for each profile, the first of which the others are compared with.

    Raises:
        SettingError: they are too few, or two have the same name.
    """
    names = listed(option, profiles)
    if len(names) < at_least:
        raise SettingError(f"{option}: {', '.join(names)} is one profile; a comparison takes at least {at_least}")
    arms = [StudyArm(arm_name(name), {"profile": name}) for name in names]
    twice = sorted({arm.name for arm in arms if [each.name for each in arms].count(arm.name) > 1})
    if twice:
        raise SettingError(f"{option}: two profiles are called {', '.join(twice)}; give their files different names")
    return arms


def arm_name(profile: str) -> str:
    """Return what an arm of a profile is called: its name, or that of its file."""
    return os.path.splitext(os.path.basename(profile))[0] if host_profile.is_path(profile) else profile


def setting_names(profile: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of a profile's settings, section by section."""
    names = [
        name for section in host_profile.SETTING_SECTIONS if section != "cpu_governor" for name in profile[section]
    ]
    return (["cpu_governor"] if profile["cpu_governor"] else []) + names


def ablation_arms(profile: str, data: t.Mapping[str, t.Any], wanted: t.Sequence[str], put_back: bool) -> list[StudyArm]:
    """Return an arm for the profile, and one for each of its settings.

    Args:
        profile: name or path.
        data: the profile.
        wanted: names of settings; all if empty.
        put_back: whether the first arm has none of the settings wanted and each other arm has one, rather than the first one all and each
            other arm all but one.

    Raises:
        SettingError: the profile does not have a setting that is wanted.
    """
    known = setting_names(data)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SettingError(
            f"ablation_settings: {', '.join(unknown)} is no setting of profile {profile}; it sets {', '.join(known)}"
        )
    names = list(wanted) or known
    if not names:
        raise SettingError(f"profile: {profile} has no settings that could be left out")
    first = StudyArm(
        f"{arm_name(profile)} bare" if put_back else arm_name(profile),
        {
            "profile": profile,
            "host_tuning_without": names if put_back else [],
        },
    )
    return [first] + [
        StudyArm(
            f"{'with' if put_back else 'without'} {name}",
            {
                "profile": profile,
                "host_tuning_without": [each for each in names if each != name] if put_back else [name],
            },
            name,
        )
        for name in names
    ]


def schedule(arms: t.Sequence[StudyArm], order: str, rounds: int) -> list[tuple[StudyArm, int]]:
    """Return the arms in the order in which they are run, each so many times, with the number of the time.

    Interleaved, one of each after another: what changes slowly on a machine, such as its temperature or the fragmentation of its memory,
    then falls on all arms alike. Each round begins one arm later, so that none always follows the same one first. In blocks, all runs
    of an arm after another: fewer changes of profile.
    """
    if order == "blocks":
        return [(arm, number) for arm in arms for number in range(1, rounds + 1)]
    return [
        (arms[(position + number - 1) % len(arms)], number)
        for number in range(1, rounds + 1)
        for position in range(len(arms))
    ]


def run_names(study_id: str, runs: t.Sequence[tuple[StudyArm, int]]) -> list[str]:
    """Return a name for the directory of each run."""
    several = any(number > 1 for dummy, number in runs)
    names: list[str] = []
    for arm, number in runs:
        name = re.sub(r"[^A-Za-z0-9_.]+", "-", arm.name).strip("-.")
        name = f"{study_id}-{name}" + (f"-{number}" if several else "")
        while name in names:
            name += "-b"
        names.append(name)
    return names
