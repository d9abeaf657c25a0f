"""An `infra up --pods` that is killed leaves nothing that `infra down` does not find, and another one repairs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.errors import VmatrixError
from harness.infra import pods
from harness.infra.host import status
from harness.infra.host.layout import load_record
from harness.infra.pods import NAME, NAMESPACE_NAME
from harness.kube.client import Cluster
from harness.kube.objects import phase
from harness.kube.resources import DATA_VOLUME, NODE, VMI
from harness.providers.embedded import EmbeddedProvider
from harness.until import Deadline, NotYet, until
from tests.embedded.conftest import PREFIX, provider_of

UP_SECONDS = 300.0
Seen = Callable[[Cluster, EmbeddedProvider], bool]
MOMENTS: dict[str, Seen] = {
    "its disk is made": lambda api, _: api.get(DATA_VOLUME, NAME, NAMESPACE_NAME) is not None,
    "it boots": lambda api, _: phase(api.get(VMI, NAME, NAMESPACE_NAME)) == "Running",
    "its node is there": lambda api, infra: api.get(NODE, infra.layout.pods_node) is not None,
}


@pytest.fixture
def infra() -> Iterator[EmbeddedProvider]:
    """Return an instance that is not up yet."""
    found = provider_of(f"{PREFIX}{os.getpid()}-killed", pods=True)
    try:
        yield found
    finally:
        found.down()


def killed_when(infra: EmbeddedProvider, seen: Seen) -> None:
    """Start the command, and kill it as soon as something of the machine is seen."""
    vmatrix = Path(sys.executable).with_name("vmatrix")
    words = [str(vmatrix), "infra", "up", "--pods", "--name", infra.layout.name]
    with subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL) as command:

        def there() -> bool | NotYet:
            try:
                return seen(Cluster.from_kubeconfig(infra.layout.kubeconfig), infra) or NotYet("not seen")
            except VmatrixError as error:  # the API does not answer yet
                return NotYet(str(error))

        try:
            until(there, deadline=Deadline.after(UP_SECONDS), what="the moment to kill it", interval=0.05)
        finally:
            os.killpg(command.pid, signal.SIGKILL)


@pytest.mark.parametrize("moment", MOMENTS)
def test_down_leaves_nothing_of_one_that_was_killed_when(infra: EmbeddedProvider, moment: str) -> None:
    killed_when(infra, MOMENTS[moment])
    made = load_record(infra.layout)
    assert made is not None
    infra.down()
    assert status.leftovers(infra.layout, made.index) == []
    assert not infra.layout.root.exists()


def test_another_up_ends_what_a_killed_one_began_though_it_is_not_told_of_pods(infra: EmbeddedProvider) -> None:
    killed_when(infra, MOMENTS["it boots"])
    vmatrix = Path(sys.executable).with_name("vmatrix")
    words = [str(vmatrix), "infra", "up", "--name", infra.layout.name]
    subprocess.run(words, check=True, timeout=UP_SECONDS, stdout=subprocess.DEVNULL)
    api = Cluster.from_kubeconfig(infra.layout.kubeconfig)
    assert pods.nodes_are_ready(api.get(NODE, infra.layout.pods_node))
    assert infra.status().pods == infra.layout.pods_node
