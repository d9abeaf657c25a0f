"""A client outside gets an answer and its own address, or the reason why not."""

from __future__ import annotations

from harness.validate.remote.client import asked
from tests.unit.playbooks.mirror import serving


def test_an_answer_comes_with_the_clients_own_address() -> None:
    with serving(lambda path: path == "/hostname", b"probe\n") as place:
        host, _, port = place.rpartition(":")
        answer = asked(host, int(port), "hostname", 5.0)
        refused = asked(host, int(port), "other", 5.0)
    assert (answer.text, answer.own, answer.error) == ("probe", "127.0.0.1", "")
    assert refused.error.startswith("404")


def test_where_nobody_listens_the_reason_is_told() -> None:
    answer = asked("127.0.0.1", 1, "hostname", 1.0)
    assert answer.text == ""
    assert answer.error
