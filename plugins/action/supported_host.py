# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import shlex
import typing as t

from ansible import constants as C
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

OLDEST = (3, 8)
_VERSION = re.compile(r"^(\d+)\.(\d+)\s*$", re.MULTILINE)
# Prints the versions of these interpreters up to the first that is new enough, or _NONE_LEFT at the end.
_NONE_LEFT = "no other Python"
_SCRIPT = """for each in {interpreters}; do
$each -c 'import sys; print("%d.%d" % sys.version_info[:2]); sys.exit(sys.version_info < {oldest})' 2>/dev/null &&
exit 0; done; echo {none_left}"""


class ActionModule(ActionBase):
    """Refuse a host without a Python that Ansible's modules can use. Needs no Python on the host itself."""

    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Any = None) -> dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        self.validate_argument_spec({})
        variables = task_vars or {}
        chosen = str(self._templar.template(variables.get("ansible_python_interpreter") or "auto"))
        discovered = C.config.get_config_value("INTERPRETER_PYTHON_FALLBACK", variables=variables)
        interpreters = discovered if chosen.startswith("auto") else [shlex.quote(chosen)]
        script = _SCRIPT.format(interpreters=" ".join(interpreters), oldest=OLDEST, none_left=_NONE_LEFT)
        printed = self._low_level_execute_command(script, sudoable=False)["stdout"]
        if _NONE_LEFT not in printed:
            return {**result, "changed": False}
        versions = _VERSION.findall(printed)
        names = ", ".join(sorted({".".join(each) for each in versions}))
        has = f"has Python {names} only" if names else "has no Python that starts"
        where = "" if chosen.startswith("auto") else f" at {chosen} (ansible_python_interpreter)"
        raise AnsibleActionFail(
            f"{variables.get('inventory_hostname', 'the host')} {has}{where}, but this collection needs Python "
            f"{'.'.join(map(str, OLDEST))} or newer on every host. Install one, and set ansible_python_interpreter "
            "to its path. CentOS 7 and Red Hat Enterprise Linux 7 are not supported"
        )
