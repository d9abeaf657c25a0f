"""Load matrix/*.yml into a Spec, or say everything that is wrong with it at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.errors import BadInput
from harness.paths import MATRIX, packaged_dir
from harness.spec import crossref, dates, feasibility, layers, lines
from harness.spec.models import FILES as FILES
from harness.spec.models import Product, Space, Spec, Timeouts
from harness.spec.models.axes import completed
from harness.spec.shape import validate as validate
from harness.streams import tell_once

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
            summary = f"{folder} is a link to {os.readlink(folder)}, which is not a folder"
            raise BadInput(summary, hint="correct or remove the link")
        if folder.exists():
            raise BadInput(f"{folder} is not a folder", hint="it is the folder of the matrix; move the file away")
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


M = TypeVar("M", bound=BaseModel)


def load_spec(directory: Path, *, today: date | None = None, expired_ok: bool = False) -> Spec:
    """Load a matrix directory, over the packaged files.

    What has expired (`dates`) is refused where cells are planned or started, for whoever does that can remove or extend
    it, and would else trust what nobody looks after any more. What reports, cleans up or goes on with what was started
    must work on every day, so it passes `expired_ok` and is told once. A project that changed nothing cannot repair the
    packaged files: what has expired there is told only where it would be refused in the project's own.

    Args:
        directory: of a project, which need not have one.
        today: the day by which ends of support and of quarantine are judged; the present one in UTC without it.
        expired_ok: whether to go on with what has expired.

    Raises:
        BadInput: one line `file:line: path: what is wrong; what would be right` per error, in all files.
    """
    problems: list[lines.Problem] = []
    parts: dict[str, Any] = {}
    documents: dict[str, lines.Document] = {}
    wrong_by_name: dict[str, list[lines.Problem]] = {}
    for name in FILES:
        documents[name], wrong_by_name[name] = layers.read(directory, name)
    documents = layers.without_removed(documents)
    for name, model in FILES.items():
        problems += wrong_by_name[name]
        if documents[name].content is not None or not wrong_by_name[name]:
            parsed, wrong = validate(documents[name], model)
            problems += wrong
            if parsed is not None:
                parts.update(dict(parsed))
    others, unreadable = layers.read_products(directory, documents)
    refuse_matrix(directory, {*FILES, *(document.file.name for document in others.values())})
    parts["products"], wrong = _products(others)
    problems += [*unreadable, *wrong, *crossref.check(documents, directory, others)]
    space = _space(parts, {problem.file.name for problem in problems})
    if space is not None:
        problems += feasibility.check(space, documents)
    expired = dates.check_dates(documents, today if today is not None else datetime.now(UTC).date())
    own, packaged = _by_owner(expired, directory)
    problems += own if not expired_ok else ()
    if problems:
        raise refuse(problems, own=directory)
    for problem in own if expired_ok else packaged:
        tell_once(f"warning: {problem}")
    parts["tiers"] = {
        name: tier.model_copy(update={"pinned": tuple(completed(parts["axes"], cell) for cell in tier.pinned)})
        for name, tier in parts["tiers"].items()
    }
    return Spec.model_construct(**{name: part for name, part in parts.items() if name in Spec.model_fields})


def _by_owner(problems: list[lines.Problem], directory: Path) -> tuple[list[lines.Problem], list[lines.Problem]]:
    """Return the problems in a project's own files, and those in packaged ones, which are vmatrix's own project's."""
    ours = not layers.same(directory, packaged_dir() / MATRIX)
    packaged = [problem for problem in problems if ours and layers.is_packaged(problem.file)]
    return [problem for problem in problems if problem not in packaged], packaged


def _products(documents: Mapping[str, lines.Document]) -> tuple[dict[str, Product], list[lines.Problem]]:
    """Return the products beside product.yml by the values of the axis, and what is wrong with their files."""
    made: dict[str, Product] = {}
    problems: list[lines.Problem] = []
    for value, document in documents.items():
        parsed, wrong = validate(document, FILES["product.yml"])
        problems += wrong
        if parsed is not None:
            made[value] = dict(parsed)["product"]
    return made, problems


def load_timeouts(directory: Path) -> Timeouts:
    """Load timeouts.yml of a matrix directory, whatever is wrong with other files; BadInput as `load_spec`."""
    timeouts: Timeouts = load_part(directory, "timeouts")
    return timeouts


def load_part(directory: Path, key: str) -> Any:
    """Load what KEY.yml of a matrix directory holds, whatever is wrong with other files; BadInput as `load_spec`."""
    document, problems = layers.read(directory, f"{key}.yml")
    parsed, wrong = validate(document, FILES[f"{key}.yml"])
    if parsed is None or problems:
        raise refuse(problems or wrong, own=directory)
    return dict(parsed)[key]


def load_layered(directory: Path, name: str, model: type[M]) -> M:
    """Load one file of a matrix directory as it counts, over the packaged one. Raises BadInput as `load_file`."""
    return _checked(*layers.read(directory, name), model)


def load_file(file: Path, model: type[M]) -> tuple[M, lines.Document]:
    """Load one file by its model. Raises BadInput with one line per error: file and line."""
    document, problems = lines.read(file)
    return _checked(document, problems, model), document


def _checked(document: lines.Document, problems: list[lines.Problem], model: type[M]) -> M:
    parsed: M | None = None
    if not problems:
        parsed, problems = validate(document, model)
    if parsed is None:
        raise refuse(problems)
    return parsed


def _space(parts: Mapping[str, Any], wrong: set[str]) -> Space | None:
    """Return what cells there may be; None when one of the files that say so has an error."""
    names = tuple(Space.model_fields)
    if wrong & {f"{name}.yml" for name in names}:
        return None
    return Space.model_construct(**{name: parts[name] for name in names})


def refuse(problems: list[lines.Problem], *, own: Path | None = None) -> BadInput:
    """Return the error that says all problems at once; `own` is the project's matrix directory, where it matters."""
    ordered = sorted(dict.fromkeys(problems), key=lambda p: (str(p.file), p.line))
    count = "1 error" if len(ordered) == 1 else f"{len(ordered)} errors"
    files = ", ".join(dict.fromkeys(str(p.file) for p in ordered))
    hint = "fix the lines above and try again"
    if own is not None and any(layers.is_packaged(p.file) and p.file.parent != own for p in ordered):
        hint += f"; what {packaged_dir()} has is vmatrix's own: replace or amend it with a file of the same name"
        hint += f" in {own} (docs/projects.md)"
    return BadInput(f"{count} in {files}:\n" + "\n".join(str(p) for p in ordered), hint=hint)
