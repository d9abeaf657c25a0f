"""Two of three control planes of a real cluster are destroyed, and nobody has said what then: nothing is removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cell import provision
from harness.kube.objects import condition, dig
from harness.kube.resources import JOB
from harness.model import Cell
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.decide.duties import SETTLE_SECONDS
from harness.spec import Spec
from harness.until import Deadline, NotYet, until
from tests.embedded.operator_live.lived import INTERVAL, Lived, cell_of, changed_spec, deployed, says

PRODUCT, LOST = "operator-vm", ("cp-1", "cp-2")
WISH = "  name: guest\nspec:\n"
HEALTH = "  health: {remediation: Replace, afterSeconds: 1, maxUnhealthy: 9}\n"
WATCHED_SECONDS = 2 * SETTLE_SECONDS  # longer than the operator itself waits for the loss of more machines


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Spec:
    """Return the packaged matrix, whose operator replaces whatever is ill."""
    changes = {"cluster.yml.j2": [(WISH, WISH + HEALTH)]}
    return changed_spec(PRODUCT, tmp_path_factory.mktemp("objects") / PRODUCT, changes)


@pytest.fixture(scope="module")
def planned(spec: Spec) -> Cell:
    """Return a cell with three control planes."""
    return cell_of(spec, PRODUCT, topology="cp3-w2", scenario="fresh")


@pytest.fixture(scope="module")
def lived(spec: Spec, planned: Cell, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """Return the cluster once it is deployed."""
    with deployed(spec, planned, "majority", tmp_path_factory.mktemp("cell")) as found:
        yield found


def test_nothing_is_removed_beyond_the_majority(lived: Lived, tmp_path: Path) -> None:
    provision.destroy(lived.life.site, lived.namespace, LOST)
    for name in LOST:
        lived.wait(name, lambda one: dig(one, "status", "phase") == "Lost", "lost")
    found = lived.wait(
        "guest", lambda one: says(one, "Progressing")[1] == "RestoreNotNamed", "waiting", CLUSTER_DEPLOYMENT
    )
    said = (condition(found, "Progressing") or {})["message"]
    assert "there is no EtcdBackup that is Verified, so nothing can be restored" in said
    end = Deadline.after(WATCHED_SECONDS)

    def over() -> bool | NotYet:
        assert dig(lived.get("guest", CLUSTER), "status", "operation") is None
        return end.remaining() <= 0 or NotYet(f"{end.remaining():.0f} s are left")

    deadline = Deadline.after(lived.life.site.timeouts.phase_later)
    until(over, deadline=deadline, what="some time without an operation", interval=INTERVAL)
    cluster = lived.get("guest", CLUSTER)["status"]
    assert lived.history() == ["deploy succeeded"]
    assert len(lived.api.list(JOB, lived.namespace).items) == 1
    assert sorted(cluster["applied"]["machines"]) == ["cp-0", "cp-1", "cp-2", "w-0", "w-1"]
    for name in ("cp-0", "w-0", "w-1"):
        assert says(lived.get(name), "Remediating")[0] != "True"
        assert not {"Warning Restarting", "Warning Replacing"} & set(lived.events(name))
