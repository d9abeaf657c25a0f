"""Archives of collections and roles in a folder, as `ansible-galaxy collection download` and Git sites write them."""

from __future__ import annotations

import tarfile
from pathlib import Path

from harness.errors import BadInput

ARCHIVE = ".tar.gz"
MANIFEST = "MANIFEST.json"  # at the top of a collection's archive, and of no role's


def archives(folder: Path | None) -> list[Path]:
    """Return the archives of a folder; none without a folder."""
    return sorted(folder.glob(f"*{ARCHIVE}")) if folder is not None else []


def is_collection(archive: Path) -> bool:
    """Tell whether an archive is of a collection. Raises BadInput when it cannot be read."""
    try:
        with tarfile.open(archive) as content:
            return any(name.removeprefix("./") == MANIFEST for name in content.getnames())
    except (OSError, tarfile.TarError) as error:
        raise BadInput(f"{archive} cannot be read: {error}", hint="`ansible.offline` in product.yml") from error
