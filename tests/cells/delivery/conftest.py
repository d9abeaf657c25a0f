"""What the checks of deliveries share: what was pushed, and a look at what runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.cell.life import Life
from harness.kube.client import Cluster
from harness.model import Cell, GuestCluster
from harness.validate.phases.delivery import DIGITS, DeliverySight, Revisions, look
from harness.validate.phases.delivery import revisions as revisions_of


@pytest.fixture(scope="session")
def revisions(guest: GuestCluster, cell: Cell, phase: int, life: Life) -> Revisions:
    """The revision that is to answer, and the bad one of the phase; of a cell whose phase has succeeded."""
    assert guest.environment.cell is cell
    return revisions_of(cell, phase, life.attempt.files)


@pytest.fixture(scope="session")
def target(guest: GuestCluster, cell: Cell, phase: int, life: Life) -> Cluster:
    """The cluster that the application runs in: the guest, or the one that the machines run in."""
    return Cluster.from_kubeconfig(guest.kubeconfig) if cell.phases[phase].delivery_into else life.site.cluster


@pytest.fixture(scope="session")
def sight(life: Life, revisions: Revisions, target: Cluster) -> Callable[[], DeliverySight]:
    """Return what looks at the Delivery as it is now."""
    tags = [one.revision[:DIGITS] for one in (revisions.good, revisions.bad) if one is not None]
    site = life.site
    guest = target if target is not site.cluster else None
    return lambda: look(site.cluster, life.attempt.namespace, site.deliveries, tags, guest)
