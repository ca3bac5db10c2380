#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Build the documentation site in .build/docs/html: the pages of the repository, and those that antsibull-docs makes of the specifications of
# modules, plugins and roles. A warning is an error; links between pages are checked by that.
# VENV: the virtual environment that has antsibull-docs and Sphinx, .venv if unset.
set -euo pipefail
cd "$(dirname "$0")/../.."
umask 022 # antsibull-docs refuses a directory in which the group may write

bin="$(cd "${VENV:-.venv}/bin" && pwd)"
export PATH="$bin:$PATH"
export ANSIBLE_COLLECTIONS_PATH="$PWD/.ansible/collections"
source=.build/docs/source
rm -rf .build/docs
mkdir -p "$source/collection"
git ls-files -z --cached --others --exclude-standard -- '*.md' 'docs/images/*' ':!tests' ':!files' | tar --create --null --files-from=- | tar --extract --directory="$source"
# Its links are those of its place in the repository; here it is above docs.
sed 's|](\.\./|](docs/|g' docs/docsite/index.md > "$source/index.md"
rm -r "$source/docs/docsite"
cp -r docs/docsite/conf.py docs/docsite/static "$source"
# References to ansible.builtin are among these. Checking those to all others would read the documentation of a hundred installed collections.
antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs dependent --skip-rstcheck .
antsibull-docs collection --use-current --fail-on-error --output-format simplified-rst --squash-hierarchy --no-indexes --dest-dir "$source/collection" memstretch.density
sphinx-build --quiet --fail-on-warning --keep-going -j auto "$source" .build/docs/html
echo "The site is .build/docs/html/index.html"
