# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache the byte code of Ansible's modules between their starts, because compiling takes a quarter of this lane's time.

Ansible sends a module and its imports as a zip file, and Python writes no byte code for imports from zip files: each of
the thousands of module starts would compile the same source again. The cache changes neither source nor compiler.
test_the_collection_runs_where_galaxy_installs_it runs without it.

Python imports a module of this name at its start; the fixture bytecode_environment puts this directory on PYTHONPATH.
"""

from __future__ import annotations

import hashlib
import importlib.util
import marshal
import os
import types
import zipimport

_compile_source = zipimport._compile_source  # type: ignore[attr-defined]


def _compile_once(pathname: str, source: bytes) -> types.CodeType | None:
    key = hashlib.sha256(importlib.util.MAGIC_NUMBER + os.path.basename(pathname).encode() + source).hexdigest()
    path = os.path.join(os.environ["TEST_BYTECODE_CACHE"], key)
    try:
        with open(path, "rb") as file:
            return marshal.load(file)
    except FileNotFoundError:
        code = _compile_source(pathname, source)
        part = f"{path}.{os.getpid()}"
        with open(part, "wb") as file:
            marshal.dump(code, file)
        os.replace(part, path)  # another process may be reading or writing the same one
        return code


if os.path.isdir(os.environ.get("TEST_BYTECODE_CACHE", "")):
    zipimport._compile_source = _compile_once  # type: ignore[attr-defined]
