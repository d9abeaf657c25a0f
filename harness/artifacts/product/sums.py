"""The checksums of programs as the mirror serves them below bin/: of the file, or of the archive with all its files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from harness.artifacts.mirror import archive_of
from harness.artifacts.store import FILES, Artifact


def checksums(made: Iterable[Artifact]) -> dict[str, str]:
    """Return NAME/VERSION -> SHA-256, as `cluster_checksums` has it."""
    found = {}
    for artifact in made:
        files = artifact.facts["files"]
        alone = files.get(artifact.ref.name) if len(files) == 1 else None
        digest = str(alone["sha256"]) if alone is not None else _of_archive(artifact.directory / FILES)
        found[f"{artifact.ref.name}/{artifact.ref.version}"] = digest
    return found


@cache
def _of_archive(folder: Path) -> str:
    body, digest = archive_of(folder, folder), hashlib.sha256()
    for piece in body.pieces if body is not None else ():
        if isinstance(piece, bytes):
            digest.update(piece)
            continue
        with piece.open("rb") as content:
            while chunk := content.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()
