"""A manager that is killed between any two requests: the next one goes on, and nothing is ever done twice.

Here it dies as by SIGKILL at a request: from then on it asks nothing any more. tests/embedded/operator/test_manager.py
kills a real process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from harness.kube.objects import dig
from harness.kube.resources import CONFIG_MAP
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.operator.context import OperatorContext
from harness.operator.registry import stop
from harness.providers.embedded import EmbeddedProvider
from harness.until import NotYet
from tests.embedded.operator.conftest import StartManager
from tests.embedded.operator.recorded import Asked, RecordedCluster
from tests.embedded.operator.world import MINE, NAME, OPTIONS, SUCCEEDED, World

# A thread that ends by Killed is what is played here.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
DEPLOY, RESET = f"{NAME}-1-deploy", f"{NAME}-2-reset"


class Killed(SystemExit):
    """Ends a thread without a word, as the end of its process does."""


@dataclass(frozen=True)
class Point:
    """A moment in a manager's life: just before or just after a request."""

    when: str
    method: str
    path: str  # how it ends
    what: Callable[[Asked], bool] = lambda _: True

    def is_at(self, asked: Asked) -> bool:
        """Tell whether a request is the point's."""
        return asked.method == self.method and asked.path.endswith(self.path) and self.what(asked)


def operation(name: str) -> Callable[[Asked], bool]:
    return lambda asked: dig(asked.body, "status", "operation", "operation") == name and not started(asked)


def ended(count: int) -> Callable[[Asked], bool]:
    return lambda asked: len(dig(asked.body, "status", "history") or []) == count


def started(asked: Asked) -> bool:
    return dig(asked.body, "status", "operation", "started") is not None


def named(name: str) -> Callable[[Asked], bool]:
    return lambda asked: dig(asked.body, "metadata", "name") == name


STATUS, DEPLOYMENT = f"/clusters/{NAME}/status", f"/clusterdeployments/{NAME}"
UNTIL_ITS_CHILDREN = (
    Point("before", "PATCH", DEPLOYMENT),
    Point("after", "PATCH", DEPLOYMENT),
    Point("after", "POST", "/clusters"),
    Point("after", "POST", "/machinesets"),
)
UNTIL_THE_JOB = (
    Point("before", "PUT", STATUS, operation("deploy")),
    Point("after", "PUT", STATUS, operation("deploy")),
    Point("after", "POST", "/configmaps", named(DEPLOY)),
    Point("before", "POST", "/jobs"),
    Point("after", "POST", "/jobs"),
    Point("after", "PUT", STATUS, started),
)
UNTIL_THE_END = (
    Point("after", "POST", "/secrets", named(f"{NAME}-kubeconfig")),
    Point("before", "PUT", STATUS, ended(1)),
    Point("after", "PUT", STATUS, ended(1)),
)
UNTIL_THE_RESET = (
    Point("after", "PUT", STATUS, operation("reset")),
    Point("after", "POST", "/jobs"),
)
UNTIL_THE_END_OF_THAT = (
    Point("before", "PUT", STATUS, ended(2)),
    Point("after", "PUT", STATUS, ended(2)),
)
UNTIL_IT_IS_GONE = (
    Point("after", "DELETE", f"/clusters/{NAME}"),
    Point("before", "PATCH", DEPLOYMENT),
)


@dataclass
class Mortal:
    """A client of a manager that is killed at a point."""

    client: RecordedCluster
    point: Point
    dead: bool = False

    def __post_init__(self) -> None:
        self.client.before, self.client.after = self.before, self.after

    def before(self, asked: Asked) -> None:
        """Die before a request; the dead ask nothing."""
        self._look("before", asked)

    def after(self, asked: Asked) -> None:
        """Die before its answer is read."""
        self._look("after", asked)

    def _look(self, when: str, asked: Asked) -> None:
        if self.point.when == when and self.point.is_at(asked):
            self.dead = True
        if self.dead:
            raise Killed


@pytest.fixture
def lives(infra: EmbeddedProvider, manager: StartManager, world: World) -> Callable[[tuple[Point, ...]], None]:
    """Return what starts one manager after the other, each of which is killed at its point."""

    def living(points: tuple[Point, ...]) -> None:
        for point in points:
            mortal = Mortal(RecordedCluster.open(infra.kubeconfig()), point)
            context = manager(*MINE, options=OPTIONS, client=mortal.client)

            def died(mortal: Mortal = mortal) -> bool | NotYet:
                return mortal.dead or NotYet(f"the status is {world.status()}")

            world.wait(died, f"the end of a manager {point.when} {point.method} {point.path}")
            stop(context)

    return living


@pytest.fixture
def survivor(manager: StartManager) -> Callable[[], OperatorContext]:
    """Return what starts a manager that nobody kills."""
    return lambda: manager(*MINE, options=OPTIONS)


def test_whatever_kills_it_where_everything_is_done_once(
    world: World, lives: Callable[[tuple[Point, ...]], None], survivor: Callable[[], OperatorContext]
) -> None:
    world.declare(paused=True)
    lives(UNTIL_ITS_CHILDREN)
    world.edit(paused=False)
    lives(UNTIL_THE_JOB)
    uid = world.kubelet.job(DEPLOY)["metadata"]["uid"]
    assert world.kubelet.jobs() == [DEPLOY]
    world.succeed(DEPLOY)
    lives(UNTIL_THE_END)
    (entry,) = world.history(1)
    assert (entry["sequence"], entry["attempt"], entry["outcome"]) == (1, 1, "succeeded")
    assert world.kubelet.job(DEPLOY)["metadata"]["uid"] == uid
    world.delete()
    lives(UNTIL_THE_RESET)
    assert world.kubelet.jobs() == [DEPLOY, RESET]
    world.kubelet.end(RESET, message=SUCCEEDED)
    lives(UNTIL_THE_END_OF_THAT)
    assert [entry["operation"] for entry in world.history(2)] == ["reset", "deploy"]
    lives(UNTIL_IT_IS_GONE)
    survivor()
    world.gone(CLUSTER_DEPLOYMENT)
    world.gone(CLUSTER)
    world.gone(CONFIG_MAP, f"{DEPLOY}-log")
