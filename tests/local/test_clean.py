# SPDX-License-Identifier: GPL-3.0-or-later
"""make clean, in a copy of the checkout and with a home of its own."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

from .conftest import PATIENCE, ROOT

MADE = (
    ".ansible/facts",
    ".build/docs/html",
    ".cache/bytecode/home",
    ".cache/golden",
    ".mypy_cache/3.11",
    ".pytest_cache/v",
    ".ruff_cache/0.14",
    "tests/output",
    "tests/programs/membw/build",
    "tools/__pycache__",
)
LEFT = (
    "home/.local/lib/memstretch",
    "home/.local/share/memstretch",
    "home/.local/state/memstretch",
    "home/.cache/memstretch",
    "home/.cache/molecule",
    "home/.cache/chromium-headless",
    "home/.ansible",
)
COPIED = ("tools/lab.py", "tests/vm/vm.py", "tests/vm/vm_image.py")


def test_everything_that_was_made_is_removed_and_the_rest_is_listed(tmp_path, steady_machine):
    checkout = tmp_path / "checkout"
    for name in (*(f"checkout/{made}" for made in MADE), "checkout/results", *LEFT):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").touch()
    for name in ("Makefile", "ansible.cfg", "inventories", "meta", "playbooks", "plugins", "roles", ".venv"):
        (checkout / name).symlink_to(ROOT / name)
    for name in COPIED:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    (checkout / "memstretch-density-1.0.0.tar.gz").touch()
    (checkout / "tests" / "programs" / "membw" / "membw.py").touch()

    # Anybody can make a file there, with any name.
    trap = pathlib.Path(f"/var/tmp/memstretch-{os.getpid()}$(touch pwned)`touch pwned`;touch pwned\x1b[2J")
    trap.touch()
    try:
        done = subprocess.run(
            ["make", "clean"],
            cwd=checkout,
            env={**os.environ, "HOME": str(tmp_path / "home"), "ANSIBLE_CONFIG": str(checkout / "ansible.cfg")},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        trap.unlink()

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Teardown: done" in done.stdout, done.stdout
    kept = {
        "Makefile",
        "ansible.cfg",
        "inventories",
        "meta",
        "playbooks",
        "plugins",
        "roles",
        "results",
        "tests",
        "tools",
    }
    assert {path.name for path in checkout.iterdir()} == kept
    kept = {"programs", "programs/membw", "programs/membw/membw.py", "vm", "vm/vm.py", "vm/vm_image.py"}
    assert {str(path.relative_to(checkout / "tests")) for path in (checkout / "tests").rglob("*")} == kept
    assert [path.name for path in (checkout / "tools").iterdir()] == ["lab.py"]
    assert (ROOT / ".venv" / "bin" / "ansible-playbook").exists()
    assert "\x1b" not in done.stdout and "touch pwned" in done.stdout
    listed = {line.strip() for line in done.stdout.splitlines()}
    assert listed >= {"results", *(str(tmp_path / path) for path in LEFT)}, done.stdout
    assert all((tmp_path / path / "file").exists() for path in ("checkout/results", *LEFT))
    (packages,) = (line for line in listed if line.startswith("packages that were installed"))
    assert {"redis-server", "libvirt-daemon-system", "mmdebstrap"} <= set(packages.split()), "also those of the lab"
