# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the controller reads the stream of a ramp on a host: by one command of a shell for each look.

The bytes come as base64 between two marks. A login or sudo may print something of its own around them, and the terminal
that sudo may need changes the ends of lines, so that a count of bytes would be wrong.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import shlex

from ansible_collections.memstretch.density.plugins.plugin_utils.run.accepted import MeasurementError

STREAM, LEASE = "stream", "lease"
_MOST_BYTES = 2**22
_PIECE = re.compile(r"<ramp ([A-Za-z0-9+/=]*) ramp>", re.ASCII)


def look(directory: str, offset: int) -> str:
    """Return the command that renews the lease and prints the stream from an offset on, if there is one already.

    Args:
        directory: of the ramp, on its host.
        offset: so many bytes were read.
    """
    stream, lease = (shlex.quote(os.path.join(directory, name)) for name in (STREAM, LEASE))
    new = f"tail -c +{offset + 1} {stream} | head -c {_MOST_BYTES} | base64 | tr -d '\\n'"
    # The command does not hold the mark as it is printed, in case that it is shown, too.
    return f"touch -c {lease} && if [ -e {stream} ]; then printf '<%s ' ramp; {new}; printf ' %s>\\n' ramp; fi"


def piece(printed: str) -> bytes:
    """Return the bytes that a look has printed.

    Raises:
        MeasurementError: they are damaged.
    """
    found = _PIECE.search(printed)
    try:
        return base64.b64decode(found[1], validate=True) if found else b""
    except binascii.Error as error:
        raise MeasurementError(f"the stream of the ramp cannot be read: {error}") from None
