"""The kinds of products by name: the only place that tells one from another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.cell.product import sources
from harness.cell.product.commands import Commands
from harness.cell.product.playbooks import Playbooks
from harness.cell.product.protocol import ProductKind, Tell
from harness.paths import MATRIX
from harness.spec.loader import load_spec
from harness.spec.models import Product
from harness.spec.product_sources import located
from harness.spec.project import Project

KINDS: dict[str, Callable[[Product, Path], ProductKind]] = {"ansible": Playbooks, "command": Commands}


def kind_of(product: Product, project: Path) -> ProductKind:
    """Return how a product's phases are run.

    Args:
        project: the folder that the paths in product.yml are relative to.
    """
    return KINDS[product.kind](located(product, project), project)


def prepare(project: Project, tell: Tell) -> None:
    """Have a product's sources and everything that its phases run with, before any machine exists.

    Raises:
        BadInput: something of it cannot be had; or the sources, fetched just now, lack what product.yml names.
    """
    product = project.spec.product
    if sources.fetch(product, project.directory, tell, project.timeouts):
        load_spec(project.directory / MATRIX)
    kind_of(product, project.directory).prepare(tell, project.timeouts)
