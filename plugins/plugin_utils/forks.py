# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes that ansible-playbook forks, one for each host and task.

Each inherits all objects of its parent, the facts of the whole fleet among them. A full garbage collection in such a
process looks at all of them, finds nothing, and copies the memory that it shared with its parent, because it writes
into each object. Whether one is due is inherited as well, so at some times every process does it.
"""

from __future__ import annotations

import functools
import gc
import os


@functools.cache
def spare_collections() -> None:
    """From now on, let the garbage collector of a forked process ignore what the process inherits.

    It still collects what the process makes itself. The parent collects everything, as before.
    """
    os.register_at_fork(after_in_child=gc.freeze)
