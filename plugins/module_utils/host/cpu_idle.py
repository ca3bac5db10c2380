# Copyright (c) 2026, the memstretch.density contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the processors awake for a while; C(host_tuning_cpu_idle) does so until it is restored."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.memstretch.density.plugins.module_utils.host.memory import CPU_LATENCY_LIMIT, NO_LATENCY


class CpuIdleError(Exception):
    """The processors cannot be kept awake; the message says why, and what to do."""


@contextlib.contextmanager
def kept_awake() -> t.Iterator[None]:
    """Allow no resume latency while the context lasts. The kernel drops the limit with the file, also after a kill.

    Raises:
        CpuIdleError: this process may not set the limit, or the kernel has none.
    """
    try:
        limit = os.open(CPU_LATENCY_LIMIT, os.O_WRONLY | os.O_CLOEXEC)  # open() would make a file where there is none
    except PermissionError as error:
        raise CpuIdleError(f"{CPU_LATENCY_LIMIT}: {error.strerror}; it needs root (ansible_become)") from error
    except OSError as error:
        raise CpuIdleError(
            f"{CPU_LATENCY_LIMIT}: {error.strerror}; a kernel without CPU idle states lacks it, and so may a container"
        ) from error
    try:
        os.write(limit, NO_LATENCY)
        yield
    finally:
        os.close(limit)
