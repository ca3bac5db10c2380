# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: host_profile
author:
  - The memstretch.density contributors (@memstretch)
short_description: Read a profile of host settings
version_added: 1.0.0
description:
  - Public. Its options and results stay compatible within a major version.
  - Finds a profile by name or path, reads and checks it, and merges it with the profile that it extends.
  - A profile is data; templates in it are not evaluated.
options:
  _terms:
    description:
      - One profile, a name or the path of a YAML file on the controller. A term with a slash, or one that ends in
        C(.yml) or C(.yaml), is a path.
    type: list
    elements: str
    required: true
  directory:
    description: Directory of the profiles with names.
    type: path
    required: true
  places:
    description: Directories to search for a relative path.
    type: list
    elements: path
    default: []
  settings:
    description: Settings to add to the profile or to replace in it, in sections as in a file.
    type: dict
    default: {}
  without:
    description: Names of settings to leave out.
    type: list
    elements: str
    default: []
  swap:
    description: Options to replace in the profile's section C(swap).
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Read a profile
  ansible.builtin.set_fact:
    profile_data: "{{ lookup('memstretch.density.host_profile', 'swap', directory=role_path ~ '/profiles') }}"
"""

RETURN = r"""
_raw:
  description: The profile, with every key that a profile may have.
  type: list
  elements: dict
"""

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.memstretch.density.plugins.plugin_utils.profile import ProfileError, changed, load


class LookupModule(LookupBase):
    """Reads profiles by name or path."""

    def run(self, terms, variables=None, **kwargs):
        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [
                changed(
                    load(str(term), self.get_option("directory"), self.get_option("places")),
                    self.get_option("settings"),
                    self.get_option("without"),
                    self.get_option("swap"),
                )
                for term in terms
            ]
        except ProfileError as error:
            raise AnsibleLookupError(str(error)) from error
