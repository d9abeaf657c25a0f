"""An API server that is not ready, of another version or open to strangers is found, whichever it is."""

from __future__ import annotations

from typing import Any

import pytest

from harness.validate.findings import Unjudged
from harness.validate.judge.api_servers import wrong_api_servers
from tests.unit.validate import foreign, guests
from tests.unit.validate.surrounded import setups

EXPECTED = guests.expected()


def answers(path: str, status: int, body: str = "") -> Any:
    return lambda raw: raw["api"].update({path: {"status": status, "body": body}})


def test_only_a_well_guest_passes() -> None:
    assert wrong_api_servers(setups(), EXPECTED) == []
    assert wrong_api_servers({}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (answers("/version", 200, '{"gitVersion": "v1.35.0"}'), "gitVersion 'v1.36.3'; saw 'v1.35.0'"),
        (answers("/version", 0, "refused"), "saw '0: refused'"),
        (answers("/readyz?verbose", 500, "[+]ping ok\n[-]etcd failed\n"), "saw 500: [-]etcd failed"),
        (answers("/api/v1/secrets", 200), "GET /api/v1/secrets without credentials: expected 401 or 403; saw 200"),
        (lambda raw: raw.update(api={}), "expected a running API server; saw none"),
    ],
)
def test_what_is_wrong_with_one_is_found(change: Any, words: str) -> None:
    (found,) = wrong_api_servers(setups(change, of="cp-0"), EXPECTED)
    assert words in str(found)
    assert "cp-0" in str(found)


def test_nothing_is_judged_where_nobody_says_how_it_runs() -> None:
    unseen = setups(lambda raw: raw.update(api={}), of="cp-0")
    (found,) = wrong_api_servers(unseen, guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)
