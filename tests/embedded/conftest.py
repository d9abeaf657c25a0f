"""An embedded infrastructure for the tests: brought up once per session, of its own name, always taken down.

These tests need root and the built artifacts. They fail, with what is missing, where they do not have them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.artifacts.recipe import silent
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.infra.host.layout import instances_dir
from harness.kube import Cluster
from harness.paths import PROJECT, packaged_dir
from harness.providers.embedded import EmbeddedProvider, embedded_provider

PREFIX = "pytest-"
Instances = Callable[[str], EmbeddedProvider]


def provider_of(name: str, *, pods: bool = False, workers: int = 0) -> EmbeddedProvider:
    """Return an instance by name; guests' images are not published in it.

    Args:
        pods: whether it runs pods of its own.
        workers: Nodes that stand for this host beside the first.
    """
    return embedded_provider(name, Store(), progress=silent, pods=pods).altered(workers=workers)


@contextmanager
def running(suffix: str = "", *, pods: bool = False, workers: int = 0) -> Iterator[EmbeddedProvider]:
    """Run an instance of this session, and take it down."""
    provider = provider_of(f"{PREFIX}{os.getpid()}{suffix}", pods=pods, workers=workers)
    try:
        provider.up()
        yield provider
    finally:
        provider.down()


def pytest_configure(config: pytest.Config) -> None:
    """Name this checkout as the project of the commands that tests start in folders of their own."""
    os.environ.setdefault(PROJECT, str(packaged_dir()))


@pytest.fixture(scope="session", autouse=True)
def _sweep_orphans() -> None:
    """Take away the instances of test sessions that were killed; their names hold their session's pid."""
    for folder in instances_dir("embedded").glob(f"{PREFIX}*/"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            provider_of(folder.name).down()


@pytest.fixture(scope="session")
def infra() -> Iterator[EmbeddedProvider]:
    """Return a running embedded infrastructure."""
    with running() as provider:
        yield provider


@pytest.fixture(scope="session")
def cluster(infra: EmbeddedProvider) -> Cluster:
    """Return an administrator's client of the embedded infrastructure."""
    return Cluster.from_kubeconfig(infra.kubeconfig())


@pytest.fixture
def instances() -> Iterator[Instances]:
    """Return a maker of further instances by suffix; all of them are taken down after the test."""
    made: list[EmbeddedProvider] = []

    def make(suffix: str) -> EmbeddedProvider:
        made.append(provider_of(f"{PREFIX}{os.getpid()}-{suffix}"))
        return made[-1]

    yield make
    failures = [failure for failure in map(_down, made) if failure is not None]
    if failures:
        raise failures[0]


def _down(provider: EmbeddedProvider) -> InfraError | None:
    try:
        provider.down()
    except InfraError as error:
        return error
    return None
