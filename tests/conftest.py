# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the checkout importable as the collection memstretch.density, wherever it is and whatever it is called."""

from __future__ import annotations

import pathlib
import signal
import sys

from ansible.plugins.loader import init_plugin_loader

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTIONS = ROOT / ".ansible" / "collections"

# A process started in the background by a shell without job control ignores Ctrl-C, and so do its children. Tests
# send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

sys.path.insert(0, str(COLLECTIONS))  # also for the processes that tests start
init_plugin_loader([str(COLLECTIONS)])
