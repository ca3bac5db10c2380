# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory in which this collection is installed, and its version."""

from __future__ import annotations

import json
import os
import re

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def version() -> str:
    """Return the version of this collection, from MANIFEST.json if it is installed, from galaxy.yml in a checkout."""
    manifest = os.path.join(ROOT, "MANIFEST.json")
    if os.path.exists(manifest):
        with open(manifest, encoding="utf-8") as stream:
            return json.load(stream)["collection_info"]["version"]
    galaxy = os.path.join(ROOT, "galaxy.yml")
    if not os.path.exists(galaxy):
        return "unknown"
    with open(galaxy, encoding="utf-8") as stream:
        found = re.search(r"^version:\s*(\S+)", stream.read(), re.MULTILINE)
    return found[1] if found else "unknown"
