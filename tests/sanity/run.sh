#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# ansible-test sanity over what git would commit, without ignore files.
# VENV: the virtual environment that has ansible-test, .venv if unset. Arguments go to ansible-test, as in:
#   tests/sanity/run.sh --test validate-modules plugins/modules/solotest.py
# WITHOUT: a directory that it does not look at, as tests, which is not shipped and takes pylint most of its time.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin="$(cd "${VENV:-.venv}/bin" && pwd)"
build="$PWD/.build/sanity"
copy="$build/ansible_collections/memstretch/density"

# ansible-test refuses symbolic links on the way to the collection, and wants the collection's own folder names.
rm -rf "$build/ansible_collections"
mkdir -p "$copy" "$build/home"
# The corpus of the fuzzers is bytes that no tool for sources should read.
git ls-files -z --cached --others --exclude-standard -- . ':!tests/programs/solotest/fuzz/corpus' ${WITHOUT:+":!$WITHOUT"} |
	while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
	tar --create --null --files-from=- | tar --extract --no-same-owner --directory="$copy"

# It keeps its virtual environments and caches below HOME; the user's own stays as it is.
export HOME="$build/home"
# A repository of its own: in ours the copy is ignored, and ansible-test would find nothing to test.
git -C "$copy" init --quiet

# It runs some tests with every Python that PATH has, and gives up if one of them does not start, as some of pyenv's do not.
path=""
IFS=: read -ra directories <<<"$bin:$PATH"
for directory in "${directories[@]}"; do
	for python in "$directory"/python3.*[0-9]; do
		[ ! -x "$python" ] || "$python" -c "" 2>/dev/null || continue 2
	done
	path="$path${path:+:}$directory"
done
export PATH="$path"

# It would download the script that installs pip from a site of its own, if it did not find it in its cache. What the
# cache calls that script depends on the version of ansible-test, so that ansible-test is asked. Each of its seven virtual
# environments gets a copy of our pip, since ensurepip takes three seconds.
"$bin/python" - <<'PYTHON'
import importlib.util
import pathlib
import re
import sys
import types

import ansible_test
from ansible_test._internal.python_requirements import get_venv_packages

source = pathlib.Path(ansible_test.__file__).parent / "_util/target/setup/requirements.py"
name = re.search(r"expanduser\('([^']*get_pip_%s\.py)' % pip_version\.replace\(\"\.\", \"_\"\)\)", source.read_text())
if name is None:
    sys.exit(f"{source} no longer says how ansible-test caches the script that installs pip; adapt tests/sanity/run.sh to it")
(pip,) = importlib.util.find_spec("pip").submodule_search_locations
for minor in range(6, 20):  # the version of pip may depend on that of Python
    version = get_venv_packages(types.SimpleNamespace(version=f"3.{minor}"))["pip"]
    script = pathlib.Path(name[1] % version.replace(".", "_")).expanduser()
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"import shutil, sysconfig\nshutil.copytree({pip!r}, sysconfig.get_path('purelib') + '/pip')\n")
PYTHON

cd "$copy"
"$bin/ansible-test" sanity --local --requirements "$@" 2>&1 | tee "$build/log"
if grep -q "All targets skipped" "$build/log"; then
	echo "ansible-test found nothing to test, which it does not count as a failure; we do." >&2
	exit 1
fi
