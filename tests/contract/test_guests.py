"""What docs/guests.md says of machines holds in a machine of the infra API under test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

import pytest
import yaml

from harness.infra.guest_facts import VIRTUAL, guest_facts, look
from harness.kube.resources import VM
from harness.model import Machine
from tests.contract.guest_proofs import AT_LEAST, BY_CELL, PROOFS
from tests.contract.machines import Machines

pytestmark = pytest.mark.machines


@pytest.fixture
def guest(machines: Machines) -> Iterator[Machine]:
    """A machine that can be logged in to."""
    machines.disk("facts")
    machines.create("facts")
    machines.wait_ready("facts")
    yield machines.login("facts")
    machines.cluster.delete(VM, "facts", machines.namespace)


def seen(machines: Machines, guest: Machine) -> dict[str, object]:
    """Return what a machine shows of each fact."""
    found = {}
    for name, command in PROOFS.items():
        done = machines.run(guest, command)
        found[name] = yaml.safe_load(done.stdout)
        assert found[name] is not None, f"{name}: {done.stderr}"
    return found


def test_every_fact_of_the_page_is_true(machines: Machines, guest: Machine, request: pytest.FixtureRequest) -> None:
    found = seen(machines, guest)
    if request.config.getoption("kubeconfig") is None or not found["own_kernel"]:
        assert found == asdict(guest_facts(look())), "of a machine on this host"
        return
    wanted = asdict(VIRTUAL)
    assert [name for name in AT_LEAST if int(str(found[name])) < wanted[name]] == []
    exact = wanted.keys() - AT_LEAST - BY_CELL
    assert {name: found[name] for name in exact} == {name: wanted[name] for name in exact}, "of a virtual machine"
