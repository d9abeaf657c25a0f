"""What the tests' own container runtime takes out of a bundle before runc sees it."""

from __future__ import annotations

from typing import Any

from tests.kind.runtime import mend_process


def test_what_this_host_cannot_give_is_taken_out(monkeypatch: Any) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1024, 4096))
    process = {
        "capabilities": {"bounding": ["CAP_CHOWN", "CAP_SYS_RESOURCE"], "effective": ["CAP_SYS_RESOURCE"]},
        "oomScoreAdj": -500,
        "rlimits": [
            {"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 1048576},
            {"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024},
        ],
    }

    mend_process(process)

    assert process["capabilities"] == {"bounding": ["CAP_CHOWN"], "effective": []}
    assert process["oomScoreAdj"] == 0
    assert process["rlimits"] == [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}]


def test_a_process_that_asks_for_nothing_stays_as_it_is() -> None:
    process: dict[str, Any] = {"args": ["sh"], "oomScoreAdj": 100}

    mend_process(process)

    assert (process["args"], process["oomScoreAdj"]) == (["sh"], 100)
