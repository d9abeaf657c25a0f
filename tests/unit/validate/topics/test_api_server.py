"""API servers that are not ready, of another version, open to strangers or not reached by nodes are found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.validate.findings import Unjudged
from harness.validate.topics.api_server import silent_api, wrong_api_servers, wrong_backends
from tests.unit.validate import foreign, guests
from tests.unit.validate.surrounded import running, setups

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


@pytest.mark.parametrize(("said", "emulates", "good"), [
    ({"emulationMajor": "1", "emulationMinor": "35"}, True, True),
    ({"emulationMajor": "1", "emulationMinor": "36"}, True, False),
    ({"emulationMajor": "1", "emulationMinor": "35"}, False, False),
    ({"emulationMajor": "1", "emulationMinor": "36"}, False, True),
    ({}, False, True),
    ({}, True, False),
])  # fmt: skip
def test_the_minor_version_that_is_emulated_is_judged(said: dict[str, str], *, emulates: bool, good: bool) -> None:
    variables = {**guests.VARIABLES, "cluster_emulate_previous_minor": emulates}
    seen = setups(answers("/version", 200, json.dumps({"gitVersion": "v1.36.3", **said})), of="cp-0")
    found = [one for one in wrong_api_servers(seen, guests.expected(variables=variables)) if "cp-0" in one.where]
    assert (found == []) is good, found


def test_nothing_is_judged_where_nobody_says_how_it_runs() -> None:
    unseen = setups(lambda raw: raw.update(api={}), of="cp-0")
    (found,) = wrong_api_servers(unseen, guests.expected(leaves=foreign.UNSAID))
    assert isinstance(found, Unjudged)


def test_only_a_right_proxy_and_an_api_that_answers_pass() -> None:
    assert wrong_backends(running(), EXPECTED) == []
    assert wrong_backends({}, EXPECTED)
    assert silent_api(setups(), EXPECTED) == []
    assert silent_api({}, EXPECTED)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"server": "https://127.0.0.1:6445", "status": 0, "body": "timed out"}, "saw none: timed out"),
        ({"server": "https://127.0.0.1:6445", "status": 503, "body": "busy"}, "saw 503: busy"),
        (None, "a running kubelet"),
    ],
)
def test_an_api_that_does_not_answer_a_node_is_found(answer: object, words: str) -> None:
    (found,) = silent_api(setups(lambda raw: raw.update(kubelets_api=answer)), EXPECTED)
    assert words in str(found)


def test_a_wrong_control_plane_behind_the_proxy_is_found() -> None:
    extra = running(lambda raw: raw["proxy"]["servers"].append(["old", "192.0.2.7:6443"]))
    (found,) = wrong_backends(extra, EXPECTED)
    assert "saw 192.0.2.7:6443" in str(found)
    (found,) = wrong_backends(running(lambda raw: raw["proxy"].update(servers=[])), EXPECTED)
    assert "no cp-0 10.222.1.2:6443" in str(found)
    (found,) = wrong_backends(running(lambda raw: raw.update(proxy=None)), EXPECTED)
    assert "expected a proxy that runs" in str(found)


def test_the_proxy_is_not_judged_of_a_product_that_names_no_file() -> None:
    (only,) = wrong_backends(running(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(only, Unjudged)
