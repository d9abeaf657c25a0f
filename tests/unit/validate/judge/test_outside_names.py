"""DNS that does not pass on what it does not know is found where the machines themselves get an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from harness.validate.judge.outside_names import answering, not_passed_on
from tests.unit.validate import guests
from tests.unit.validate.surrounded import setups

NAME = "vmatrix-1.example.com"
SERVERS = {"10.95.0.10": "the DNS Service", "10.243.0.3": "a DNS pod"}
OWN = {"cp-0": "10.222.1.254", "w-0": "10.222.1.254"}
EXPECTED = guests.expected()


def codes(other: Mapping[tuple[str, str], int], *, without: int = 0) -> Any:
    """Return what lets machines ask: every server answers that there is no such name, but for some on some nodes."""

    def ask(given: Mapping[str, Any]) -> dict[str, list[list[Any]]]:
        return {
            node: [["code", server, name, other.get((node, server), 3)] for server, name in asked["code"]][without:]
            for node, asked in given.items()
        }

    return ask


def test_names_that_are_passed_on_are_right() -> None:
    assert answering(setups(), NAME, EXPECTED, codes({})) == OWN
    assert not_passed_on(OWN, SERVERS, NAME, EXPECTED, codes({})) == []


@pytest.mark.parametrize("code", [-1, 2, 5])
def test_machines_without_a_name_server_that_answers_are_left_out(code: int) -> None:
    dead = codes({("cp-0", "10.222.1.254"): code})
    assert answering(setups(), NAME, EXPECTED, dead) == {"w-0": "10.222.1.254"}


@pytest.mark.parametrize(("code", "said"), [(-1, "no answer"), (2, "SERVFAIL"), (5, "REFUSED"), (4, "code 4")])
def test_a_dns_pod_that_does_not_pass_on_is_found(code: int, said: str) -> None:
    (found,) = not_passed_on(OWN, SERVERS, NAME, EXPECTED, codes({("w-0", "10.243.0.3"): code}))
    assert str(found) == (
        f"w-0 -> a DNS pod (10.243.0.3:53): expected an answer for {NAME}, as 10.222.1.254 gives it to the machine; "
        f"saw {said}"
    )


def test_servers_and_answers_that_are_missing_are_found() -> None:
    assert len(not_passed_on(OWN, SERVERS, NAME, EXPECTED, codes({}, without=1))) == 2
    assert not_passed_on(OWN, {"": "the DNS Service"}, NAME, EXPECTED, codes({}))
