"""How a manager finds its cluster and its Lease."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest

from harness.errors import BadInput
from harness.kube.leader import Leadership
from harness.operator import manager
from harness.operator.context import OperatorContext
from harness.operator.manager import ManagerSettings, identity, kubeconfig_of, lease_name, run
from harness.operator.registry import chosen
from tests.unit.fake_cluster import FakeCluster


def test_kubeconfig_that_was_given_counts_before_the_environments(tmp_path: Path) -> None:
    given, environment = Path("/given"), {"KUBECONFIG": "/of/environment"}
    assert kubeconfig_of(ManagerSettings(given), environment, tmp_path) == given
    assert kubeconfig_of(ManagerSettings(), environment, tmp_path) == Path("/of/environment")


def test_no_kubeconfig_and_no_pod_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no kubeconfig and no service account") as refused:
        kubeconfig_of(ManagerSettings(), {}, tmp_path)
    assert "--kubeconfig" in refused.value.hint


def test_unknown_controller_is_refused_before_anything_else() -> None:
    with pytest.raises(BadInput, match="no controller is named carpenter"):
        run(ManagerSettings(Path("/nowhere"), controllers=("carpenter",)))


def test_managers_with_different_controllers_have_different_leases() -> None:
    assert lease_name(chosen()) == "vmatrix-operator"
    assert lease_name(chosen(["machine", "nodehealth"])) == "vmatrix-operator-machine-nodehealth"


def test_every_process_has_an_identity_of_its_own() -> None:
    assert identity() != identity()


class Waiting:
    """A Lease that another manager has until this one is to end; `threads`: what runs meanwhile."""

    where, threads = "a Lease", frozenset[str]()

    def acquire(self, _: threading.Event) -> bool:
        self.threads = frozenset(thread.name for thread in threading.enumerate())
        return False

    def release(self) -> None:
        """Have nothing to give back."""


def test_a_manager_that_waits_for_the_lease_hears_git_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "_check_definitions", lambda _: None)
    context, lease = OperatorContext.of(FakeCluster({}), Path("none")), Waiting()
    manager._work(context, chosen(), cast(Leadership, lease), threading.Event())
    assert "gitwebhooks" in lease.threads
    assert context.controllers == [], "nothing else works"
    assert context.stoppers == [], "it is stopped with the manager"
