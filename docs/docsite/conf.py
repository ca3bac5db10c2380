# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx configuration of the documentation site. `make docs` copies the pages and this file into one directory."""

from __future__ import annotations

import os
import pathlib
import re

REPOSITORY = "https://github.com/memstretch/density/blob/main"

project = "memstretch.density"
copyright = "the memstretch.density contributors"
author = "the memstretch.density contributors"

extensions = ["myst_parser", "sphinx_antsibull_ext"]
myst_heading_anchors = 4
html_theme = "sphinx_rtd_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = project
html_show_sourcelink = False
root_doc = "index"

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")


def link_to_repository(app, docname, content):
    """Let a link to a file that is not a page of the site lead to the repository."""
    directory = pathlib.PurePosixPath(docname).parent

    def target(match):
        path = os.path.normpath(directory / match[1])
        return match[1] if (pathlib.Path(app.srcdir) / path).is_file() else f"{REPOSITORY}/{path}"

    content[0] = LINK.sub(target, content[0])


def setup(app):
    app.connect("source-read", link_to_repository)
