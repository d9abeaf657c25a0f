"""How far a host's clock is ahead of GitLab's, which has one clock for all of its runners."""

from __future__ import annotations

import pytest

from harness.history import origin

API = "https://gitlab.invalid/api/v4"


@pytest.mark.parametrize(
    ("apart", "ahead"), [(0.0, 0.0), (59.0, 0.0), (-59.0, 0.0), (61.0, 61.0), (7200.25, 7200.2), (-3e8, -3e8)]
)
def test_a_host_is_ahead_by_what_is_beyond_a_minute(
    apart: float, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(origin, "time_of", lambda url, _: 1e9 if url == f"{API}/version" else 0.0)
    assert origin.clock_ahead({"CI_API_V4_URL": API}, now=1e9 + apart) == pytest.approx(ahead)


@pytest.mark.parametrize("error", [OSError("no answer"), ValueError("no date"), OverflowError("year")])
def test_where_gitlab_does_not_say_the_hosts_clock_counts(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def time_of(*_: object) -> float:
        raise error

    monkeypatch.setattr(origin, "time_of", time_of)
    assert origin.clock_ahead({"CI_API_V4_URL": API}) == 0.0


def test_without_gitlab_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "ask", pytest.fail)
    assert origin.clock_ahead({}) == 0.0
