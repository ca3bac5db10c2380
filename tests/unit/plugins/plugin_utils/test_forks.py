# SPDX-License-Identifier: GPL-3.0-or-later
"""What forked processes inherit, and what their garbage collector looks at."""

from __future__ import annotations

import gc
import multiprocessing
import weakref

from ansible_collections.memstretch.density.plugins.plugin_utils import forks


class Node:
    """An object that refers to itself, so that only the collector can remove it."""

    def __init__(self) -> None:
        self.itself = self


def _look(queue, inherited):
    own = Node()
    gone = weakref.ref(own)
    del own
    removed = gc.collect()
    queue.put((gc.get_freeze_count(), gone() is None, removed, inherited() is None))


def test_a_forked_process_collects_only_what_it_makes_itself():
    forks.spare_collections()
    forks.spare_collections()
    gc.collect()
    garbage = Node()
    reference = weakref.ref(garbage)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    enabled = gc.isenabled()
    gc.disable()  # so that the garbage is still there when the process is forked
    try:
        del garbage
        process = context.Process(target=_look, args=(queue, reference))
        process.start()
    finally:
        if enabled:
            gc.enable()
    frozen, own_is_gone, removed, inherited_is_gone = queue.get()
    process.join()
    assert process.exitcode == 0
    assert frozen > 10_000 and own_is_gone and 0 < removed < 1000 and not inherited_is_gone
    assert gc.get_freeze_count() == 0 and gc.collect() > 0 and reference() is None
