"""Serve the cache and a registry on this host, outside of any infra cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness import paths, proc
from harness.artifacts.listening import GRACE_SECONDS, READY_SECONDS, listens
from harness.artifacts.recipe import Ref
from harness.artifacts.supply import Supply
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until


@dataclass(frozen=True)
class Serving:
    """A mirror and a registry that run; `published`: how many images the registry has."""

    services: tuple[proc.Service, ...]
    published: int

    def wait(self) -> None:
        """Wait until one of the two has ended."""
        until(lambda: _ended(self.services), deadline=Deadline.after(float("inf")), what="a service to end")


@contextmanager
def serving(supply: Supply, images: Sequence[Ref], *, mirror: str, registry: str) -> Iterator[Serving]:
    """Run a mirror and a registry with images as long as the body runs.

    Args:
        mirror, registry: their addresses, host:port.

    Raises:
        InfraError: one of them ended at once, or the registry does not answer.
    """
    logs = paths.cache_dir() / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    services: list[proc.Service] = []
    try:
        for name, command in (("mirror", supply.mirror(mirror)), ("registry", supply.registry(registry))):
            services.append(proc.spawn(command.argv, env=command.env, log=logs / f"serve-{name}.log"))
        ready = Deadline.after(READY_SECONDS)
        until(lambda: _answering(services, registry, logs), deadline=ready, what="the registry to answer")
        yield Serving(tuple(services), len(replace(supply, images=images).publish(registry)))
    finally:
        for service in services:
            service.stop(grace=GRACE_SECONDS)


def _answering(services: Sequence[proc.Service], address: str, logs: Path) -> bool | NotYet:
    ended = _ended(services)
    if isinstance(ended, str):
        raise InfraError(f"`{ended}` ended at once", hint="is its address in use?", paths=[logs])
    return listens(address)


def _ended(services: Sequence[proc.Service]) -> str | NotYet:
    """Return the command of a service that has ended."""
    ended = [service for service in services if not service.alive()]
    return proc.pasteable(ended[0].argv) if ended else NotYet("all are running")
