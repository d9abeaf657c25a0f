"""The kinds of products by name: the only place that tells one from another."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from harness.cell.product import cached
from harness.cell.product.command import Commands
from harness.cell.product.declared import DeclaredProduct
from harness.cell.product.playbooks import Playbooks
from harness.cell.product.protocol import ProductKind, Tell
from harness.errors import BadInput
from harness.files import LOCK, if_unlocked
from harness.model import Cell
from harness.paths import MATRIX
from harness.spec.loader import load_spec
from harness.spec.models import Product, Spec
from harness.spec.product_files import located
from harness.spec.project import Project
from harness.spec.settings import refuse_unreachable

KINDS: dict[str, Callable[[Product, Path], ProductKind]] = {
    "ansible": Playbooks,
    "command": Commands,
    "declared": DeclaredProduct,
}


def kind_of(product: Product, project: Path) -> ProductKind:
    """Return how a product's phases are run.

    Args:
        project: the folder that the paths in product.yml are relative to.
    """
    return KINDS[product.kind](located(product, project), project)


def prepare(project: Project, cells: Sequence[Cell], tell: Tell) -> ExitStack:
    """Have the products' sources and everything that the cells' phases run with, before any machine exists.

    Returns:
        What keeps that from being pruned, until it is closed or this process ends.

    Raises:
        BadInput: something of it cannot be had; or the sources, fetched just now, lack what product.yml names.
    """
    while True:
        _prepare(project, cells, tell)
        products = products_of(project.spec, cells)
        with ExitStack() as held:
            if held.enter_context(cached.used(entries_of(project, products), project.directory)):
                return held.pop_all()


def entries_of(project: Project, products: Sequence[Product]) -> tuple[Path, ...]:
    """Return the entries of the cache that products use. Raises BadInput when that cannot be told."""
    fetched = cached.entry_of(project.spec.product, project.directory)
    made = (entry for product in products for entry in kind_of(product, project.directory).entries())
    return tuple(dict.fromkeys((*((fetched,) if fetched is not None else ()), *made)))


def _prepare(project: Project, cells: Sequence[Cell], tell: Tell) -> None:
    if cached.fetch(project.spec.product, project.directory, tell, project.timeouts):
        load_spec(project.directory / MATRIX, expired_ok=True)
    for product in products_of(project.spec, cells):
        kind_of(product, project.directory).prepare(tell, project.timeouts)


def products_of(spec: Spec, cells: Sequence[Cell]) -> list[Product]:
    """Return what is tested in some cells, each product once."""
    products = [spec.product_of(cell.values) for cell in cells]
    return [product for number, product in enumerate(products) if product not in products[:number]]


def refuse_shared(spec: Spec, cells: Sequence[Cell], namespace: str | None) -> None:
    """Refuse declared products in a namespace that cells share: controllers there would see each other's objects.

    Raises:
        BadInput: a cell's product is one.
    """
    for product in products_of(spec, cells) if namespace is not None else ():
        if product.kind == "declared":
            raise BadInput(
                f"{product.name} has controllers in each cell's namespace, and --namespace makes cells share one",
                hint="leave the setting `namespace` out, or choose cells of another product",
            )


def refuse_chaos(spec: Spec, cells: Sequence[Cell], chaos: str | None, *, on_host: bool) -> None:
    """Refuse to end programs that no cell has.

    Raises:
        BadInput: see `refuse_unreachable`.
    """
    with_executors = [cell for cell in cells if _has_executors(spec.product_of(cell.values))]
    stages = [cell.stage(index) for cell in with_executors for index in range(len(cell.phases))]
    refuse_unreachable(chaos, stages, on_host=on_host)


def _has_executors(product: Product) -> bool:
    return product.declared is not None and product.declared.logs is not None


@dataclass(frozen=True)
class StaleEntry:
    """An entry that no project uses, and its size in bytes."""

    directory: Path
    size: int

    @property
    def name(self) -> str:
        """Return its kind and its key."""
        return str(self.directory.relative_to(cached.root().parent))


def stale(project: Project | None) -> tuple[StaleEntry, ...]:
    """Return what no project uses and nobody works on, in the order of the paths; removes nothing.

    Args:
        project: this one; None outside of any.
    """
    declared = frozenset(_declared(project)) if project is not None else frozenset()
    entries = []
    for lock in sorted(cached.root().glob(f"*/{LOCK}*")):
        folder = lock.with_name(lock.name.removeprefix(LOCK))
        if not folder.is_dir() or (cached.finished(folder) and _wanted(folder, declared, project)):
            continue
        with if_unlocked(lock) as free:
            if free:
                entries.append(StaleEntry(folder, sum(path.lstat().st_size for path in folder.rglob("*"))))
    return tuple(entries)


def remove(entry: StaleEntry) -> bool:
    """Remove a stale entry; tell whether it was done, or another process has it."""
    with if_unlocked(cached.lock_of(entry.directory)) as free:
        if free:
            (entry.directory / cached.FINISHED).unlink(missing_ok=True)  # first: nobody takes half of it for whole
            shutil.rmtree(entry.directory)
        return free


def _declared(project: Project) -> Iterator[Path]:
    """Yield what the project's products use; of one whose sources are not there, nobody can tell more."""
    for product in (project.spec.product, *project.spec.products.values()):
        with suppress(BadInput):
            yield from entries_of(project, [product])


def _wanted(folder: Path, declared: frozenset[Path], project: Project | None) -> bool:
    here = {project.directory.absolute()} if project is not None else set()
    return folder in declared or any(other.is_dir() for other in cached.projects_of(folder) - here)
