"""Wrong names and name servers are found."""

from __future__ import annotations

import pytest

from harness.validate.findings import Unjudged
from harness.validate.judge.machine_names import wrong_names
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Change
from tests.unit.validate.surrounded import running, setups

EXPECTED = guests.expected()


def hosts(*lines: list[str]) -> Change:
    return lambda raw: raw.update(hosts=[["127.0.0.1", "localhost"], *lines])


def test_only_right_names_pass() -> None:
    assert wrong_names(running(), setups(), EXPECTED) == []
    assert wrong_names({}, {}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (hosts(["192.0.2.9", "cp-0"], ["10.222.1.3", "w-0"]), "cp-0 at ['10.222.1.2']; saw ['192.0.2.9']"),
        (hosts(["10.222.1.3", "w-0"]), "cp-0 at ['10.222.1.2']; saw []"),
        (hosts(["10.222.1.2", "cp-0"], ["10.222.1.3", "w-0"], ["192.0.2.8", "w-9"]), "saw w-9"),
    ],
)
def test_a_wrong_name_is_found(change: Change, words: str) -> None:
    (found,) = wrong_names(running(change), setups(), EXPECTED)
    assert words in str(found)


def test_another_name_server_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw.update(resolvers=["192.0.2.53"])), EXPECTED)
    assert "w-0 /etc/resolv.conf" in str(found)
    assert "192.0.2.53" in str(found)


def test_another_domain_to_look_for_names_in_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw.update(search=["search example.com"])), EXPECTED)
    assert "domains and options as on cp-0, ['search example.net']; saw ['search example.com']" in str(found)


def test_a_name_of_another_machine_at_the_machine_itself_is_found() -> None:
    lines = hosts(["127.0.0.1", "cp-0"], ["127.0.1.1", "w-0"], ["10.222.1.2", "cp-0"], ["10.222.1.3", "w-0"])
    (found,) = wrong_names(running(lines), setups(), EXPECTED)
    assert "w-0 /etc/hosts: expected cp-0 at ['10.222.1.2']; saw ['10.222.1.2', '127.0.0.1']" in str(found)


def test_a_name_that_programs_do_not_find_is_found() -> None:
    (found,) = wrong_names(running(), setups(lambda raw: raw["resolved"].update({"cp-0": []})), EXPECTED)
    assert str(found) == "w-0 getent: expected cp-0 at 10.222.1.2; saw no address"


def test_names_are_not_judged_of_a_product_that_names_no_file() -> None:
    (only,) = wrong_names(running(), setups(), guests.expected(leaves=foreign.UNSAID))
    assert isinstance(only, Unjudged)
