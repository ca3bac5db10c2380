#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Build the collection, import it as Galaxy would, and build the context of an execution environment with it. Warnings are failures.
# VENV: the virtual environment that has galaxy-importer and ansible-builder, .venv if unset.
set -euo pipefail
cd "$(dirname "$0")/../.."

bin="$(cd "${VENV:-.venv}/bin" && pwd)"
export PATH="$bin:$PATH"
build="$PWD/.build/galaxy"
rm -rf "$build"
mkdir -p "$build/environment"

ansible-galaxy collection build --output-path "$build" >/dev/null
archive="$(cd "$build" && echo memstretch-density-*.tar.gz)"

# As Galaxy does, it runs ansible-lint on what is shipped, and gives it three minutes. The lane sanity runs ansible-test.
printf '[galaxy-importer]\nRUN_ANSIBLE_LINT=True\nRUN_ANSIBLE_TEST=False\n' >"$build/importer.cfg"
export GALAXY_IMPORTER_CONFIG="$build/importer.cfg"
(cd "$build" && python -m galaxy_importer.main "$archive") >"$build/importer.log" 2>&1 || { cat "$build/importer.log"; exit 1; }
if grep -E "^(WARNING|ERROR)" "$build/importer.log" || ! grep -q "completed successfully" "$build/importer.log"; then
	echo "galaxy-importer does not accept the collection; $build/importer.log has all that it printed." >&2
	exit 1
fi

cp "$build/$archive" "$build/environment"
cat >"$build/environment/execution-environment.yml" <<YAML
---
version: 3
images:
  base_image:
    name: registry.fedoraproject.org/fedora:42
dependencies:
  ansible_core:
    package_pip: ansible-core>=2.19
  ansible_runner:
    package_pip: ansible-runner
  galaxy:
    collections:
      - name: $archive
        type: file
YAML
(cd "$build/environment" && ansible-builder create --verbosity 1 >"$build/builder.log" 2>&1) || { cat "$build/builder.log"; exit 1; }
ansible-galaxy collection install "$build/$archive" --collections-path "$build/installed" --no-deps --force >/dev/null 2>&1
ansible-builder introspect "$build/installed" >"$build/requirements.yml"
for word in "gcc" "libhiredis-dev" "hiredis-devel"; do
	grep -q "'$word.*from collection memstretch.density" "$build/requirements.yml" || { echo "ansible-builder does not find that the collection needs $word" >&2; exit 1; }
done
