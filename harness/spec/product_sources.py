"""Where the sources of a product lie, and `{sources}` in product.yml, which stands for that folder.

The folder of a Git repository is known before anything is fetched: its place in the cache follows from the address and
the revision.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.paths import cache_dir
from harness.spec.models import Product

MARK = "{sources}"
VARIABLE = "VMATRIX_PRODUCT_SOURCES"  # names a folder that is used in place of the sources of product.yml
NOT_PATHS = frozenset({"vars", "requires", "cluster", "checks"})  # keys in which the mark means nothing


def folder(sources: Any, project: Path) -> Path | None:
    """Return the folder of the sources, whether it is there or not; None where product.yml names none.

    Args:
        sources: the value of that key, of any shape.
    """
    if not isinstance(sources, Mapping):
        return None
    if given := os.environ.get(VARIABLE):
        return Path(given).absolute()
    path, git, revision = (sources.get(key) for key in ("path", "git", "revision"))
    if isinstance(path, str):
        return (project / path).absolute()
    if isinstance(git, str) and isinstance(revision, str):
        return cached(git, revision)
    return None


def cached(git: str, revision: str) -> Path:
    """Return where a revision of a repository lies once it was fetched."""
    digest = hashlib.sha256(f"{git}\n{revision}".encode()).hexdigest()[:16]
    return cache_dir() / "product" / "sources" / digest


def fetched_later(sources: Any, where: Path) -> bool:
    """Tell whether a folder of sources that is not there yet comes from a Git repository."""
    return isinstance(sources, Mapping) and where == cached(str(sources.get("git")), str(sources.get("revision")))


def located(product: Product, project: Path) -> Product:
    """Return a product with its folder of sources in place of the mark."""
    if product.sources is None:
        return product
    given = product.model_dump(by_alias=True)
    return Product.model_validate(put(given, folder(given["sources"], project)))


def put(content: Any, where: Path | None) -> Any:
    """Return plain data with a folder in place of the mark; as it is without a folder."""
    if where is None:
        return content
    if isinstance(content, str):
        return content.replace(MARK, str(where))
    if isinstance(content, Mapping):
        return {key: inner if key in NOT_PATHS else put(inner, where) for key, inner in content.items()}
    return [put(inner, where) for inner in content] if isinstance(content, list | tuple) else content


def marked(content: Any) -> bool:
    """Tell whether the mark stands anywhere in plain data."""
    if isinstance(content, str):
        return MARK in content
    if isinstance(content, Mapping):
        return any(marked(inner) for key, inner in content.items() if key not in NOT_PATHS)
    return isinstance(content, list | tuple) and any(marked(inner) for inner in content)
