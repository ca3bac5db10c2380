# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the demo of root in this checkout has ended with an answer, and that the machine is restored."""

from __future__ import annotations

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main() -> int:
    """Print what is wrong, and return 1 if there is anything."""
    (path,) = ROOT.glob("results/density-*/density.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    base, tier = document["arms"]
    wrong = [
        f"{name}: {what}"
        for name, what, is_wrong in (
            ("density.json", "the hosts are not restored", not document["restored"]),
            ("density.json", f"the base is {base['name']}, not dram", base["name"] != "dram"),
            ("density.json", "a profile without a density", not all(each["density"] for each in (base, tier))),
            ("density.html", "missing", not path.with_suffix(".html").is_file()),
            ("index.html", "missing", not (ROOT / "results/index.html").is_file()),
            ("/var/lib/memstretch", "the record of a tuned host", pathlib.Path("/var/lib/memstretch").exists()),
            ("/proc/swaps", "there is swap", len(pathlib.Path("/proc/swaps").read_text("utf-8").splitlines()) > 1),
            ("results/demo-unfinished", "the mark of the demo", (ROOT / "results/demo-unfinished").exists()),
        )
        if is_wrong
    ]
    print("\n".join(wrong) or f"The demo has an answer for dram and {tier['name']}, and the machine is restored.")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
