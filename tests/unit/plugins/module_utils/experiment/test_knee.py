# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A planted knee is found with its interval, none where none is, and the source's figures lead to its remedy."""

from __future__ import annotations

import math
import random

import pytest

from ansible_collections.memstretch.density.plugins.module_utils.experiment import knee

MIB = 2**20
LIMITS = [4700 * MIB, 1024 * MIB, 256 * MIB, 64 * MIB, 16 * MIB, 4 * MIB, MIB]
PLANTED = 16 * MIB
SEEDS = range(40)


def synthetic(seed, recovered, sequential=lambda limit: 1.0, noise=0.3, repetitions=5):
    """Return trials whose repetitions share a disturbance, as on a busy machine, and have one each of their own."""
    generator = random.Random(seed)
    shared = [generator.gauss(0, noise) for _repetition in range(repetitions)]
    return [
        knee.Trial(
            limit,
            (),
            tuple(sequential(limit) * 1e9 * math.exp(generator.gauss(0, noise / 4)) for _each in shared),
            tuple(recovered(limit) * math.exp(each + generator.gauss(0, noise)) for each in shared),
        )
        for limit in LIMITS
    ]


def planted(limit):
    """Synchronous writes improve down to 16 MiB, and not further."""
    return 0.5 / max(1, limit / PLANTED) ** 0.8


def costly_below_4_mib(limit):
    return 0.6 if limit < 4 * MIB else 1.0


def test_a_planted_knee_is_found_with_its_interval():
    found = [knee.find(synthetic(seed, planted, costly_below_4_mib)) for seed in SEEDS]

    assert all(each.place is not None and each.gain[0] > 1 for each in found)
    covered = sum(each.limits[0] <= PLANTED <= each.limits[1] for each in found)
    exact = sum(LIMITS[each.place] == PLANTED for each in found)
    assert covered >= 0.9 * len(found) and exact >= 0.7 * len(found)
    true_gain = planted(PLANTED) / planted(LIMITS[0])
    assert sum(each.gain[1] <= true_gain * 1.05 and each.gain[2] >= true_gain * 0.8 for each in found) >= 0.9 * len(
        found
    )


@pytest.mark.parametrize("repetitions", [3, pytest.param(5, marks=pytest.mark.long)])
def test_the_interval_of_the_gain_covers_it_with_few_repetitions(repetitions):
    true_gain = planted(PLANTED) / planted(LIMITS[0])
    found = [knee.find(synthetic(seed, planted, costly_below_4_mib, repetitions=repetitions)) for seed in range(200)]

    assert sum(each.gain[1] <= true_gain <= each.gain[2] for each in found) >= 0.9 * len(found)


@pytest.mark.parametrize("repetitions", [3, 4])
def test_the_knee_has_no_interval_with_few_repetitions(repetitions):
    """Three repetitions have ten different resamples only, so 95 % of these mean nothing."""
    answer = knee.find(synthetic(1, planted, costly_below_4_mib, noise=0.01, repetitions=repetitions))

    assert LIMITS[answer.place] == PLANTED and answer.limits is None and answer.gain is not None


def test_there_is_no_knee_where_none_is():
    found = [knee.find(synthetic(seed, lambda limit: 0.2)) for seed in SEEDS]

    assert sum(each.place is not None for each in found) <= 0.1 * len(found)
    assert all(each.reason for each in found if each.place is None)


def test_a_large_gain_in_noise_is_not_a_knee():
    flat = [knee.Trial(limit, (), (1.0, 1.0, 1.0), (0.2, 0.2, 0.2)) for limit in LIMITS[:2]]
    lucky = knee.Trial(PLANTED, (), (1.0, 1.0, 1.0), (0.21, 4.0, 0.21))
    answer = knee.find([*flat, lucky])

    assert answer.place is None and answer.limits is None
    assert answer.reason and answer.gain[1] <= 1


def test_few_repetitions_have_no_interval():
    answer = knee.find(synthetic(1, planted, costly_below_4_mib, noise=0.01, repetitions=2))

    assert LIMITS[answer.place] == PLANTED and answer.limits is None and answer.gain is None


# 1,500 IOPS idle; 33 and 8 under the flood by default, 700 and 400 with 15 MB; sequential 251 and 216 MB/s.
@pytest.mark.parametrize("sequential, place", [(216, 1), (213, None)])
def test_the_figures_of_the_source_lead_to_its_remedy(sequential, place):
    answer = knee.find(
        [
            knee.Trial(1000 * MIB, (), (251.0,), (8 / 1500,)),
            knee.Trial(15 * MIB, (), (sequential,), (400 / 1500,)),
        ]
    )

    assert answer.place == place
    assert place or "keeps less than 85%" in answer.reason


def test_of_equal_settings_the_larger_limit_and_the_shorter_list_of_knobs_win():
    def trial(limit, recovered, queue=()):
        return knee.Trial(limit, queue, (1.0,), (recovered,))

    deadline = (("scheduler", "mq-deadline"),)
    answer = knee.find([trial(1024, 0.1), trial(64, 0.49, deadline), trial(64, 0.49), trial(16, 0.5), trial(256, 0.3)])
    assert answer.place == 2
    assert knee.find([trial(1024, 0.1), trial(1024, 0.9, deadline), trial(16, 0.5)]).place == 1
