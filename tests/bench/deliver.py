"""How long a commit takes to become an application that answers, on an embedded infrastructure that runs pods."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.kube.objects import parse_time
from harness.operator.api.delivery import DeliveredRevision
from tests.bench.figures import Ledger
from tests.bench.ground import Ground
from tests.bench.infra import command
from tests.embedded.conftest import provider_of
from tests.embedded.deliveries.git_servers import Repository
from tests.embedded.deliveries_live import applications
from tests.embedded.deliveries_live.world import World

TARGET = 40.0  # for a small application on two cores
NAME = "small"
MOMENTS = ("committed", "seen", "started", "pushed", "deployed", "ended")
PARTS = ("until it is seen", "until its build begins", "fetched, built, pushed", "until its rollout begins", "rollout")


def measure(ground: Ground, ledger: Ledger, runs: int) -> None:
    """Deliver a static binary, then further commits of it, and take the infrastructure down."""
    first, later = list[float](), list[float]()
    parts: list[dict[str, float]] = []
    command(ground, "up", "--pods")
    try:
        with TemporaryDirectory(prefix="bench-deliver-") as folder:
            world = World(provider_of(ground.layout.name, pods=True), Path(folder))
            world.open()
            try:
                repository = Repository.create(world.servers, NAME)
                world.secret("git", world.servers.ssh_secret())
                first.append(_deliver(world, repository, "0", new=True))
                for number in range(1, runs + 1):
                    later.append(_deliver(world, repository, str(number)))
                    parts.append(parts_of(world.seen(NAME).status.history[0]))
            finally:
                world.close()
    finally:
        command(ground, "down")
        note = "committed until it answers; the images of the build's pod are pulled"
        ledger.add("delivery, first", "s", first, note=note)
        ledger.add("delivery, commit to answer", "s", later, target=TARGET, note="a static binary, polled each second")
        ledger.share("delivery", parts)


def _deliver(world: World, repository: Repository, text: str, *, new: bool = False) -> float:
    """Commit, and return the seconds until the application answers with it."""
    began = time.monotonic()
    repository.commit(applications.static(text))
    if new:
        source = {"git": world.servers.ssh(NAME), "secretRef": {"name": "git"}}
        world.deliver(NAME, source, {})
    world.wait(f"an answer of {text}", lambda: world.answers(NAME, text))
    taken = time.monotonic() - began
    revision = repository.head()
    world.wait("the Delivery to be ready", lambda: world.ready(NAME, revision))
    return taken


def parts_of(entry: DeliveredRevision) -> dict[str, float]:
    """Return the seconds of each part of a delivery, as its history has them."""
    moments = [getattr(entry, name) for name in MOMENTS]
    known = [parse_time(moment) if moment is not None else None for moment in moments]
    return {
        part: (after - before).total_seconds()
        for part, (before, after) in zip(PARTS, pairwise(known), strict=True)
        if before is not None and after is not None
    }
