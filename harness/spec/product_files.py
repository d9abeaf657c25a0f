"""What `artifacts` of product.yml names of the project: a folder, and archives of images; `crossref` calls it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.spec import image_archive, product_sources
from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Finding

HINT = "add `name: REPOSITORY:TAG`"


def check(content: Any, project: Path) -> Iterator[Finding]:
    """Find what is missing or broken; paths are relative to the project, or in sources that are there already."""
    sources = product_sources.folder(next((found for _, found in find(content, "product", "sources")), None), project)
    content = product_sources.put(content, sources if sources is not None and _is_folder(sources) else None)
    for at, name in texts(content, "product", "artifacts", "folder"):
        if not product_sources.marked(name) and not _is_folder(project / name):
            yield at, f"the folder {project / name} does not exist"
    yield from _served_twice(content)
    yield from _images(content, project)


def _served_twice(content: Any) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for at, entry in find(content, "product", "artifacts", "serve", EACH):
        path, artifact = field(entry, "as"), field(entry, "artifact")
        if path is None or artifact is None:
            continue
        if path in seen:
            yield (*at, "as"), f"{path} is already the path of {seen[path]}; a path serves one file"
        seen.setdefault(path, artifact)


def _images(content: Any, project: Path) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for at, entry in find(content, "product", "artifacts", "images", EACH):
        archive, given = field(entry, "archive"), field(entry, "name")
        if archive is None or product_sources.marked(archive):
            continue
        try:
            name = given or image_archive.look(project / archive).name
            if given is not None:
                image_archive.look(project / archive)
        except (ValueError, OSError) as error:
            yield (*at, "archive"), str(error)
            continue
        if not name:
            yield (
                (*at, "archive"),
                f"the image archive {project / archive} does not say what its image is called; {HINT}",
            )
        elif name in seen:
            yield (*at, "archive"), f"{name} is already the image of {seen[name]}; give one of them another `name`"
        seen.setdefault(name, archive)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
