# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of measurements, so that what one leaves behind does not always meet the same next one."""

from __future__ import annotations


def williams_design(size: int) -> list[list[int]]:
    """Return orders of this many arms in which each arm follows each other arm equally often.

    A run may leave something behind for the next one, so the arm before must not always be the same. Over all rows,
    each arm is also in each place equally often (E. J. Williams, Experimental designs balanced for the estimation of
    residual effects of treatments, Australian Journal of Scientific Research A 2, 1949). An odd number of arms needs
    each row backwards as well.
    """
    first = [(place + 1) // 2 if place % 2 else (size - place // 2) % size for place in range(size)]
    rows = [[(each + shift) % size for each in first] for shift in range(size)]
    return rows if size % 2 == 0 else [order for row in rows for order in (row, row[::-1])]
