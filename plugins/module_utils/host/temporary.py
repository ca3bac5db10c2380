# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings that an experiment changes for its own time, and the record that they are restored from.

An experiment that was killed leaves its settings and its record. Host tuning may record or restore the same knobs. So
the next program that changes them, the experiment or host tuning, first restores what the killed experiment left. Then
the order of the two restores does not matter: no value of an experiment is ever taken for an original.
"""

from __future__ import annotations

import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.files import remove_file
from ansible_collections.memstretch.density.plugins.module_utils.host.record import HostRecord
from ansible_collections.memstretch.density.plugins.module_utils.host.settings import read_knob, restore_knob

RECORD = "writeback_benchmark"


class TemporarySettings:
    """The knobs that an experiment changes. The caller must hold the lock of the host's records."""

    def __init__(self, directory: str) -> None:
        """Find the record in the directory of the host's records."""
        self.record = HostRecord(RECORD, directory)

    def begin(self, originals: t.Mapping[str, str], directory: str = "") -> None:
        """Record the original value of each knob that will change, and the directory of the experiment's files."""
        self.record.write({"originals": dict(originals), "directory": directory})

    def originals(self) -> dict[str, str]:
        """Return the original value of each knob of an experiment that runs or was killed; none if there is none."""
        return (self.record.read() or {}).get("originals", {})

    def put_back(self) -> None:
        """Write the originals back. A knob whose disk is gone has nothing to restore."""
        originals = self.originals()
        for knob, value in originals.items():
            if read_knob(knob) not in (None, value):
                restore_knob(knob, originals)

    def end(self) -> bool:
        """Write the originals back and remove the record. Return whether there was one."""
        if self.record.read() is None:
            return False
        self.put_back()
        remove_file(self.record.path)  # the directory goes with the lock
        return True
