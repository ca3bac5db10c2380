# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the checkout importable as the collection memstretch.density, wherever it is and whatever it is called."""

from __future__ import annotations

import pathlib
import sys

from ansible.plugins.loader import init_plugin_loader

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTIONS = ROOT / ".ansible" / "collections"

sys.path.insert(0, str(COLLECTIONS))  # also for the processes that tests start
init_plugin_loader([str(COLLECTIONS)])
