"""Cells of the operator that live as long as a test wants, on an infra cluster of the test's own that runs pods."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness import providers
from harness.cell.life import Life
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.events import Recorder
from harness.kube.client import Json
from harness.kube.objects import condition, dig
from harness.kube.resources import VMI
from harness.machines.reach.ssh import run_on
from harness.model import Cell, PlannedMachine
from harness.operator.api.resources import CLUSTER, CLUSTER_DEPLOYMENT
from harness.paths import packaged_dir, project_dir
from harness.plan.cells import make_cell
from harness.spec import Spec, load_spec
from harness.spec.project import Project
from harness.spec.settings import load_settings
from tests.embedded.conftest import PREFIX, provider_of
from tests.embedded.operator.waiting import AwaitedObjects

INTERVAL = 0.5  # pacing: what is waited for takes minutes


def changed_spec(product: str, folder: Path, changes: Mapping[str, Sequence[tuple[str, str]]]) -> Spec:
    """Return the packaged matrix, with other templates of a product.

    Args:
        folder: where they are put.  changes: by template, texts that are there once, and what takes their place.
    """
    shipped = load_spec(packaged_dir() / "matrix")
    packaged = shipped.products[product]
    shutil.copytree(packaged_dir() / packaged.directory, folder)
    for template, pairs in changes.items():
        text = (folder / template).read_text(encoding="utf-8")
        for old, new in pairs:
            assert text.count(old) == 1, f"{template} has {old!r} {text.count(old)} times"
            text = text.replace(old, new)
        (folder / template).write_text(text, encoding="utf-8")
    changed = packaged.model_copy(update={"directory": str(folder)})
    return shipped.model_copy(update={"products": {product: changed}})


@contextmanager
def site_of(spec: Spec, cells: Sequence[Cell], suffix: str) -> Iterator[Site]:
    """Give an infra cluster of its own, which is gone afterwards."""
    name = f"{PREFIX}{os.getpid()}-{suffix}"
    settings = load_settings(project_dir(), options={"provider": "embedded", "infra_name": name}).settings
    try:
        made = providers.open_site(Project(project_dir(), spec, settings), cells, progress=print)
        yield made
        made.held.close()
    finally:
        provider_of(name).down()


def cell_of(spec: Spec, product: str, **others: str) -> Cell:
    """Return the cell of a product that its tier names first, with other values on some axes."""
    pinned = next(one for one in spec.tiers["operator-lifecycle"].pinned if one["product"] == product)
    return make_cell(spec, {**pinned, **others})


@contextmanager
def living(site: Site, cell: Cell, directory: Path) -> Iterator[Life]:
    """Give a cell, from its machines to its end; a test that fails leaves what explains it."""
    attempt = Attempt("lived1", cell, 1, directory / cell.id)
    life = Life(site, attempt, Steps(Recorder(directory), cell.id, 1), on_task=print)
    try:
        yield life
    except BaseException:
        life.collect()
        raise
    finally:
        life.teardown()


@dataclass(frozen=True)
class Lived(AwaitedObjects):
    """A cell that the operator has deployed, and its objects as they become."""

    life: Life = field(kw_only=True)

    @classmethod
    def of(cls, life: Life) -> Lived:
        """Return the objects of a cell, which take as long as its phases."""
        return cls(life.site.cluster, life.attempt.namespace, life.site.timeouts.phase_later, INTERVAL, life=life)

    def machines_like(self, machine: PlannedMachine, **more: Any) -> Json:
        """Return `machines.kubevirt` of a set whose machines are as one of the cell's."""
        image = self.life.site.image(machine.image)
        size = {"cpus": machine.cpus, "memory": f"{machine.memory_mib}Mi", "disk": f"{machine.disk_gib}Gi"}
        return {"image": {"url": image.url, "checksum": image.checksum}, "user": image.user, **size, **more}

    def edit(self, spec: Json) -> None:
        """Change the wish."""
        self.api.merge(CLUSTER_DEPLOYMENT, "guest", {"spec": spec}, self.namespace)

    def events(self, name: str) -> list[str]:
        """Return the events about an object, each as its type and its reason."""
        return [event.partition(":")[0] for event in self.api.events_of(self.namespace, name)]

    def history(self, after: int = 0) -> list[str]:
        """Return the operations that have ended, the earliest first; `after`: only those with a higher number."""
        past = [one for one in self._past() if one["sequence"] > after]
        return [f"{one['operation']} {one['outcome']}" for one in reversed(past)]

    def last_sequence(self) -> int:
        """Return the number of the last operation that has ended: the history itself keeps no more than some."""
        return max((one["sequence"] for one in self._past()), default=0)

    def _past(self) -> list[Json]:
        past: list[Json] = dig(self.get("guest", CLUSTER), "status", "history") or []
        return past

    def sh(self, machine: str, command: str) -> str:
        """Run a command on a machine as root, at the address that it has now: a restart may give it another."""
        environment = self.life.provision()
        made = next(one for one in environment.machines if one.name == machine)
        now = dig(self.get(machine, VMI), "status", "interfaces")[0]["ipAddress"]
        there = replace(made, address=now)
        seconds = self.life.site.timeouts.collect
        as_root = f"sudo --preserve-env=SSH_CONNECTION sh -ec '{command}'"
        done = run_on(there, as_root, private_key=environment.private_key, timeout=seconds)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@contextmanager
def deployed(spec: Spec, cell: Cell, suffix: str, directory: Path) -> Iterator[Lived]:
    """Give a cell once its first phase has deployed it, on an infra cluster of its own; both are gone afterwards."""
    with site_of(spec, [cell], suffix) as site, living(site, cell, directory) as life:
        life.apply(0)
        yield Lived.of(life)


def says(machine: Json, kind: str) -> tuple[str, str]:
    """Return the status and the reason of a condition."""
    found = condition(machine, kind) or {}
    return found.get("status", ""), found.get("reason", "")
