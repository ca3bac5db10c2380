# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what Ansible makes of its modules between their starts, because making it takes a third of a lane's time.

Ansible sends a module and its imports as a zip file, and Python writes no byte code for imports from zip files: each of
the thousands of module starts would compile the same source again. Each playbook would make the same zip files again,
for which Ansible parses all of their sources. The cache changes neither source nor compiler. Python also looks less
often for cycles of references: each time, it writes to all objects of a playbook, which its workers must then copy.
test_the_collection_runs_where_galaxy_installs_it runs without it.

Python imports a module of this name at its start; the fixture bytecode_environment puts this directory on PYTHONPATH.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import marshal
import os
import tempfile
import types
import zipimport

_CACHE = os.environ.get("TEST_BYTECODE_CACHE", "")
_ZIP_FILES = os.path.join(_CACHE, "modules")

_compile_source = zipimport._compile_source
_make_directory = tempfile.mkdtemp


def _compile_once(pathname: str, source: bytes) -> types.CodeType | None:
    key = hashlib.sha256(importlib.util.MAGIC_NUMBER + os.path.basename(pathname).encode() + source).hexdigest()
    path = os.path.join(_CACHE, key)
    try:
        with open(path, "rb") as file:
            return marshal.loads(file.read())  # several times faster than marshal.load(file)
    except FileNotFoundError:
        code = _compile_source(pathname, source)
        part = f"{path}.{os.getpid()}"
        with open(part, "wb") as file:
            marshal.dump(code, file)
        os.replace(part, path)  # another process may be reading or writing the same one
        return code


def _share_zip_files(suffix: str | None = None, prefix: str | None = None, dir: str | None = None) -> str:
    """Make a temporary directory; in that of a playbook, Ansible keeps the zip files."""
    path = _make_directory(suffix, prefix, dir)
    if prefix and prefix.startswith("ansible-local-"):
        os.symlink(_ZIP_FILES, os.path.join(path, "ansiballz_cache"))
    return path


if os.path.isdir(_ZIP_FILES):
    zipimport._compile_source = _compile_once
    tempfile.mkdtemp = _share_zip_files
    gc.set_threshold(100_000, 50, 100)
