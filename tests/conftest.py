# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the checkout importable as the collection memstretch.density, wherever it is and whatever it is called."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import sys
import tempfile

import pytest
from ansible.plugins.loader import init_plugin_loader

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTIONS = ROOT / ".ansible" / "collections"

# A process started in the background by a shell without job control ignores Ctrl-C, and so do its children. Tests
# send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

sys.path.insert(0, str(COLLECTIONS))  # also for the processes that tests start
init_plugin_loader([str(COLLECTIONS)])


def pytest_configure(config: pytest.Config) -> None:
    """Keep byte code for the processes that the tests start, and remove it at the end.

    Sudo drops the variable with which make does so, and each playbook would compile Ansible and the collection again.
    """
    if not os.environ.get("PYTHONPYCACHEPREFIX"):
        directory = tempfile.mkdtemp(prefix="memstretch-bytecode-")
        config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))
        os.environ["PYTHONPYCACHEPREFIX"] = directory
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session")
def bytecode_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of playbooks that keep byte code and the zip files of modules.

    All workers of pytest-xdist share the cache.
    """
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "bytecode"
    (cache / "modules").mkdir(parents=True, exist_ok=True)
    loader = pathlib.Path(__file__).with_name("bytecode_cache")
    return {
        "PYTHONPATH": str(loader),
        "TEST_BYTECODE_CACHE": str(cache),
        # Also where nothing else of this process' environment arrives: root must leave nothing next to the sources.
        "PYTHONPYCACHEPREFIX": os.environ["PYTHONPYCACHEPREFIX"],
    }


@pytest.fixture(scope="session")
def needs_root() -> None:
    """Whatever uses this fixture gets the mark root, so that an ordinary user's lanes run it with sudo."""
    if os.geteuid() != 0:
        pytest.fail("this test needs root; its lane (make test-LANE) runs it with sudo", pytrace=False)


@pytest.hookimpl(tryfirst=True)  # before pytest looks which marks are asked for
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "needs_root" in getattr(item, "fixturenames", ()):
            item.add_marker("root")


@pytest.fixture
def needs_damon() -> None:
    """Skip a test that sets DAMON up where there is none, or where somebody else has set it up.

    The kernel removes all kdamonds when others are made, also those that are off. They may belong to whoever runs this
    machine, so no test writes over them.
    """
    # Only after the collection can be imported.
    from ansible_collections.memstretch.density.plugins.module_utils.headroom import damon

    if not os.path.isdir(damon.ADMIN):
        pytest.skip("this kernel has no DAMON")
    if pathlib.Path(damon.ADMIN, "nr_kdamonds").read_text(encoding="ascii") != "0\n":
        pytest.skip("somebody else has set up DAMON on this machine, and a test would delete that")
