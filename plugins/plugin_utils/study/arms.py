# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arms of a study, and the order of their runs."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.options import SettingError
from ansible_collections.memstretch.density.plugins.module_utils.orders import williams_design
from ansible_collections.memstretch.density.plugins.plugin_utils import profile as host_profile

ORDERS = ("interleaved", "blocks")


class Arm(t.NamedTuple):
    """A profile as it takes part in a study.

    Attributes:
        name: unique in the study; used in names of directories.
        variables: extra variables of site.yml.
        setting: the setting of the profile that this arm leaves out or adds; None for the whole profile.
    """

    name: str
    variables: dict[str, t.Any]
    setting: str | None = None


def split_names(option: str, value: t.Any, again: bool = False) -> list[str]:
    """Return a list of names that was given as a list or as one text with commas.

    Args:
        option: for messages.
        value: the list or the text.
        again: whether a name may be there more than once.

    Raises:
        SettingError: the list is empty, or has a name twice that must not be there again.
    """
    words = (
        [word.strip() for word in value.split(",")] if isinstance(value, str) else [str(word) for word in value or []]
    )
    words = [word for word in words if word]
    if not words:
        raise SettingError(f"{option}: no name is given; it must be names, separated by commas")
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice and not again:
        raise SettingError(f"{option}: {', '.join(twice)} is named twice; name each only once")
    return words


def profile_arms(option: str, profiles: t.Any, at_least: int = 2) -> list[Arm]:
    """Return an arm for each profile. The others are compared with the first.

    A profile may be there again: its arms make an A/A test, and all but the first have a number after their names.

    Raises:
        SettingError: there are too few profiles, or two have the same name.
    """
    names = split_names(option, profiles, again=True)
    if len(names) < at_least:
        raise SettingError(f"{option}: {', '.join(names)} is one profile; a comparison needs at least {at_least}")
    arms = [
        Arm(_name_again(arm_name(name), names[: number + 1].count(name)), {"profile": name})
        for number, name in enumerate(names)
    ]
    twice = sorted({arm.name for arm in arms if [each.name for each in arms].count(arm.name) > 1})
    if twice:
        raise SettingError(f"{option}: two profiles are called {', '.join(twice)}; give their files different names")
    return arms


def _name_again(name: str, number: int) -> str:
    """Return the name of the first, second, ... arm of the same profile."""
    return name if number == 1 else f"{name}#{number}"


def repeated(arms: t.Sequence[tuple[str, t.Mapping[str, t.Any]]]) -> dict[str, str]:
    """Return for each arm that repeats an earlier one the name of the first of that kind: an A/A test.

    Args:
        arms: the name and the variables of each.
    """
    found = {}
    for name, variables in arms:
        first = next(other for other, its_variables in arms if its_variables == variables)
        if first != name:
            found[name] = first
    return found


def arm_name(profile: str) -> str:
    """Return the name of a profile's arm: the name of the profile, or of its file."""
    return os.path.splitext(os.path.basename(profile))[0] if host_profile.is_path(profile) else profile


def setting_names(profile: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of a profile's settings, section by section."""
    names = [
        name for section in host_profile.SETTING_SECTIONS if section != "cpu_governor" for name in profile[section]
    ]
    return (["cpu_governor"] if profile["cpu_governor"] else []) + names


def ablation_arms(profile: str, data: t.Mapping[str, t.Any], wanted: t.Sequence[str], put_back: bool) -> list[Arm]:
    """Return an arm for the profile, one for each of its settings, and the first one again.

    The first and the last arm are an A/A test, which shows how large an effect of a setting must be to be believed.

    Args:
        profile: name or path.
        data: content of the profile.
        wanted: names of settings; all if empty.
        put_back: False: the first arm has all settings, each other arm leaves one out. True: the first arm has none of
            the wanted settings, each other arm adds one.

    Raises:
        SettingError: the profile does not have a wanted setting.
    """
    known = setting_names(data)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SettingError(
            f"study_settings: {', '.join(unknown)} is not a setting of profile {profile}; "
            f"its settings are {', '.join(known)}"
        )
    names = list(wanted) or known
    if not names:
        raise SettingError(f"profile: {profile} has no settings to leave out")
    first = Arm(
        f"{arm_name(profile)} bare" if put_back else arm_name(profile),
        {
            "profile": profile,
            "host_tuning_without": names if put_back else [],
        },
    )
    changes = [
        Arm(
            f"{'with' if put_back else 'without'} {name}",
            {
                "profile": profile,
                "host_tuning_without": [each for each in names if each != name] if put_back else [name],
            },
            name,
        )
        for name in names
    ]
    return [first, *changes, first._replace(name=_name_again(first.name, 2))]


def schedule(arms: t.Sequence[Arm], order: str, rounds: int) -> list[tuple[Arm, int]]:
    """Return the runs of a study in their order, each as its arm and its round.

    Interleaved: one run of each arm, then the next round. Slow changes of a machine, such as its temperature or the
    fragmentation of its memory, then affect all arms alike. In blocks: all runs of one arm, then the next arm, with
    fewer changes of profile.
    """
    if order == "blocks":
        return [(arm, number) for arm in arms for number in range(1, rounds + 1)]
    rows = williams_design(len(arms))
    return [(arms[place], number) for number in range(1, rounds + 1) for place in rows[(number - 1) % len(rows)]]


def run_names(study_id: str, runs: t.Sequence[tuple[Arm, int]]) -> list[str]:
    """Return the name of each run's directory."""
    several = any(number > 1 for _arm, number in runs)
    names: list[str] = []
    for arm, number in runs:
        name = re.sub(r"[^A-Za-z0-9_.]+", "-", arm.name.replace("#", ".")).strip("-.")
        name = f"{study_id}-{name}" + (f"-{number}" if several else "")
        while name in names:
            name += "-b"
        names.append(name)
    return names
