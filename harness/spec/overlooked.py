"""Files that are meant and would not be read: another name or suffix, a link to nothing, a file in a folder's place."""

from __future__ import annotations

import os
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import Path

from harness.errors import BadInput

CLOSE = 0.75  # alike enough to be meant: tires.yml, scenario.yml, topology.yml


def refuse_settings(file: Path) -> None:
    """Refuse a settings file that does not exist and is meant: a link to nothing, or one of another name."""
    if file.is_symlink():
        raise BadInput(
            f"{file} is a link to {os.readlink(file)}, which does not exist", hint="correct or remove the link"
        )
    other = file.with_suffix(".yaml")
    if other.exists():
        raise BadInput(f"{other} is not read", hint=f"name it {file.name}")


def refuse_matrix(folder: Path, known: Collection[str]) -> None:
    """Refuse a matrix folder that is none, and files in it that are meant to be of a known name, and are not.

    A name that goes on after a known one, such as tiers.old.yml, is somebody's copy.
    """
    if not folder.is_dir():
        if folder.is_symlink():
            said = f"{folder} is a link to {os.readlink(folder)}, which is no folder"
            raise BadInput(said, hint="correct or remove the link")
        if folder.exists():
            raise BadInput(f"{folder} is no folder", hint="it is the folder of the matrix; move the file away")
        return
    stems = {Path(name).stem for name in known}
    for file in sorted(folder.iterdir()):
        if file.suffix not in (".yml", ".yaml") or file.name in known:
            continue
        if file.stem in stems:
            raise BadInput(f"{file} is not read", hint=f"name it {file.stem}.yml")
        meant = get_close_matches(file.stem, stems, 1, CLOSE)
        if meant and not file.stem.startswith(meant[0]):
            raise BadInput(f"{file} is not read", hint=f"did you mean {meant[0]}.yml? give any other file another name")
