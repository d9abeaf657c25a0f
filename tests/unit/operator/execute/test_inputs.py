"""Names of an operation's objects: the same for the same attempt, another for every other."""

from __future__ import annotations

import pytest

from harness.operator.api.machine import KeyRef
from harness.operator.execute.inputs import key_file, log_name
from tests.unit.operator.execute.operations import execution


@pytest.mark.parametrize(("attempt", "name"), [(1, "prod-3-deploy"), (2, "prod-3-deploy-2")])
def test_an_attempt_has_one_name(attempt: int, name: str) -> None:
    made = execution(attempt=attempt)
    assert made.job == name
    assert log_name(made.job) == f"{name}-log"
    assert made.labels["cluster.vmatrix.dev/attempt"] == str(attempt)


def test_keys_of_two_secrets_do_not_share_a_file() -> None:
    assert key_file(KeyRef(name="a", key="id")) == "keys/a/id"
    assert key_file(KeyRef(name="a", key="id")) != key_file(KeyRef(name="b", key="id"))
