"""How an operation ends that somebody stops."""

from __future__ import annotations

from harness.operator.controllers.execution_cancelled import cancelled, is_cancelled
from harness.operator.execute.termination import Termination

OPERATION = {"sequence": 5, "operation": "upgrade"}


def test_only_the_number_of_the_operation_stops_it() -> None:
    def asked(value: str) -> bool:
        return is_cancelled({"metadata": {"annotations": {"cluster.vmatrix.dev/cancel": value}}}, OPERATION)

    assert asked("5")
    assert not asked("4")
    assert not asked("")
    assert not is_cancelled({"metadata": {}}, OPERATION)
    assert not is_cancelled(None, OPERATION)


def test_what_was_stopped_is_the_users_and_keeps_where_it_was() -> None:
    end = cancelled(Termination("interrupted", blame="infra", play="p", task="t", summary="it was told to end"))
    assert (end.outcome, end.blame, end.play, end.task) == ("cancelled", "user", "p", "t")
    assert end.summary == "somebody stopped it by annotation; it was told to end"
    assert (cancelled().outcome, cancelled().summary) == ("cancelled", "somebody stopped it by annotation")


def test_what_had_succeeded_before_has_succeeded() -> None:
    assert cancelled(Termination("succeeded")) == Termination("succeeded")
