"""An embedded infrastructure that runs pods of its own, and machines beside them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from harness.artifacts.store import Store
from harness.providers.embedded import EmbeddedProvider
from harness.providers.on_host import KUBERNETES
from tests.embedded.conftest import running
from tests.embedded.kubevirt.conftest import image, machines, namespace, part

__all__ = ["image", "machines", "namespace", "part"]
COMMAND_SECONDS = 120.0
Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def infra() -> Iterator[EmbeddedProvider]:
    """Return a running embedded infrastructure that runs pods."""
    with running("-pods", pods=True) as provider:
        yield provider


@pytest.fixture(scope="session")
def kubectl(infra: EmbeddedProvider) -> Kubectl:
    """Return kubectl of the infra cluster: it takes words and standard input, and returns what was printed."""
    program = Store().obtain("kubectl", KUBERNETES).file("kubectl")

    def call(*words: str, text: str | None = None) -> str:
        argv = [str(program), f"--kubeconfig={infra.kubeconfig()}", *words]
        done = subprocess.run(argv, input=text, text=True, capture_output=True, timeout=COMMAND_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call
