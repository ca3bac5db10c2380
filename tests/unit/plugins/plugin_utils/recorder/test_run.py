# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.memstretch.density.plugins.plugin_utils.recorder.run import RunRecorder


def test_a_resumed_run_lists_all_sessions(record, begun):
    directory = record()[0]
    recorder = RunRecorder({**begun, "session": "2", "resumed": True}, lambda line: None)
    recorder.close()
    assert [session["id"] for session in directory.read_json("run.json")["sessions"]] == ["1", "2"]
