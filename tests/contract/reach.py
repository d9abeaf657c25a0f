"""How the infra API under test is reached: one that exists, or an embedded one for the time of the tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness import providers
from harness.artifacts.store import Store
from harness.infra.host.layout import instances_dir
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import Mirror
from harness.providers.embedded import EmbeddedProvider, embedded_provider
from harness.spec.settings import Settings
from tests.contract.limits import artifacts, timeouts

PREFIX = "contract-"  # of the embedded instances, before the process id of the session that each is of
BUILT_IMAGE = "debian-13"
PUBLISHED_IMAGE = "debian-13-genericcloud"


@dataclass(frozen=True)
class Reached:
    """An infra API, how to get a disk image that its machines boot, and what its guests read from.

    pulls: the registry that guests pull deliveries from, HOST:PORT; "" without one.
    """

    kubeconfig: Path
    boot_image: Callable[[], GoldenImage]
    mirror: Mirror
    pulls: str = ""


def _image(name: str, mirror: Mirror) -> Callable[[], GoldenImage]:
    return lambda: providers.golden_image(Settings(), name, mirror, progress=lambda _line: None, limits=artifacts())


def _provider(name: str, *, pods: bool = False) -> EmbeddedProvider:
    store = Store(limits=artifacts())
    return embedded_provider(name, store, progress=lambda _event: None, timeouts=timeouts(), pods=pods)


def orphans() -> list[str]:
    """Return the instances of sessions that are no more."""
    names = sorted(folder.name for folder in instances_dir("embedded").glob(f"{PREFIX}*/"))
    pids = {name: name.removeprefix(PREFIX) for name in names}
    return [name for name, pid in pids.items() if pid.isdigit() and not Path(f"/proc/{pid}").exists()]


@contextmanager
def existing(kubeconfig: Path, image: str | None, mirror: Mirror, pulls: str) -> Iterator[Reached]:
    """Use a cluster that is there; its machines boot an image from a mirror, or else from its publisher."""
    default = BUILT_IMAGE if mirror.http else PUBLISHED_IMAGE
    yield Reached(kubeconfig, _image(image or default, mirror), mirror, pulls)


@contextmanager
def embedded(image: str | None, *, pods: bool = False) -> Iterator[Reached]:
    """Bring an embedded infrastructure up, and take it down at the end; first those of sessions that were killed.

    pods: whether it runs pods of its own, which no machine and no disk may notice.
    """
    for name in orphans():
        _provider(name).down()
    provider = _provider(f"{PREFIX}{os.getpid()}", pods=pods)
    try:
        provider.up()
        mirror = provider.mirror()
        yield Reached(provider.kubeconfig(), _image(image or BUILT_IMAGE, mirror), mirror, provider.pulls())
    finally:
        provider.down()
