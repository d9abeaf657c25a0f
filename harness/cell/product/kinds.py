"""The kinds of products by name: the only place that tells one from another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.cell.product.commands import Commands
from harness.cell.product.playbooks import Playbooks
from harness.cell.product.protocol import ProductKind
from harness.spec.models import Product

KINDS: dict[str, Callable[[Product, Path], ProductKind]] = {"ansible": Playbooks, "command": Commands}


def kind_of(product: Product, project: Path) -> ProductKind:
    """Return how a product's phases are run.

    Args:
        project: the folder that the paths in product.yml are relative to.
    """
    return KINDS[product.kind](product, project)
