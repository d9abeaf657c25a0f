"""Where the programs that a product asks for lie on the mirror: as upstream publishes them, or as the product says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.artifacts.catalogue import Catalogue, ReleaseRecipe, fill
from harness.artifacts.product.wanted import program
from harness.artifacts.recipe import Ref
from harness.errors import BadInput
from harness.spec.models import ProductArtifacts
from harness.spec.models.product_artifacts import ARCHIVES, ServedProgram

CONTENT = tuple[Ref, str]  # a program, and which of its files


@dataclass(frozen=True)
class LaidOut:
    """A file on the mirror. `files`: path in the archive -> content; {"": content} where it is the program itself.

    checksums: the path of the file with the checksum.  bare: that file has the digest alone.
    """

    path: str
    files: Mapping[str, CONTENT]
    checksums: str
    bare: bool = False


def layout(catalogue: Catalogue, asked: ProductArtifacts | None, given: Mapping[str, Any]) -> tuple[LaidOut, ...]:
    """Return what the mirror has of vmatrix's programs for a phase, by its variables; each file once.

    Raises:
        BadInput: two programs would have one path, or a program cannot be laid out.
    """
    found: dict[str, LaidOut] = {}
    for each in of_phase(catalogue, asked, given):
        found[each.path] = _both(found.get(each.path, each), each)
    return tuple(found[path] for path in sorted(found))


def of_phase(catalogue: Catalogue, asked: ProductArtifacts | None, given: Mapping[str, Any]) -> Iterator[LaidOut]:
    """Yield what one phase asks for, in the product's order; archives of several programs come once for each."""
    for entry in asked.serve if asked is not None else ():
        ref = program(catalogue, entry if isinstance(entry, str) else entry.artifact, given)
        yield _chosen(catalogue, ref, entry) if isinstance(entry, ServedProgram) else upstream(catalogue, ref)


def upstream(catalogue: Catalogue, ref: Ref) -> LaidOut:
    """Return where upstream has a program: its address without the scheme, and what the archive there is like."""
    recipe = catalogue.program(ref.name).recipes(ref.version).release
    if recipe is None:
        raise BadInput(
            f"product.yml: artifacts: {ref.name} has no address upstream",
            hint=f"say where the mirror is to have it: {{artifact: {ref.name}, as: PATH}}",
        )
    files = {fill(inner, *_named(ref)): (ref, file) for file, inner in recipe.members.items()} or {"": (ref, ref.name)}
    return LaidOut(_address(recipe, recipe.url, ref), files, _address(recipe, recipe.checksum_url, ref), recipe.bare)


def _address(recipe: ReleaseRecipe, url: str, ref: Ref) -> str:
    return f"{recipe.base.partition('://')[2].rstrip('/')}/{fill(url, *_named(ref))}"


def _chosen(catalogue: Catalogue, ref: Ref, entry: ServedProgram) -> LaidOut:
    path, names = fill(entry.as_, *_named(ref)), catalogue.program(ref.name).recipes(ref.version).gomod.files
    if path.endswith(ARCHIVES):
        folder = fill(entry.inside, *_named(ref)).strip("/")
        files = {f"{folder}/{name}" if folder else name: (ref, name) for name in names}
    elif len(names) == 1:
        files = {"": (ref, names[0])}
    else:
        raise BadInput(
            f"product.yml: artifacts: {ref.name} has the files {', '.join(names)}, and {path} is no archive",
            hint=f"let the path end with {' or '.join(ARCHIVES)}",
        )
    checksums = fill(entry.checksums, *_named(ref)) if entry.checksums else f"{path}.sha256"
    return LaidOut(path, files, checksums)


def _both(one: LaidOut, other: LaidOut) -> LaidOut:
    """Return two files of one path as one: archives may hold several programs."""
    twice = [inner for inner, content in other.files.items() if one.files.get(inner, content) != content]
    if twice or {"" in one.files, "" in other.files} == {True, False}:
        first, second = (next(iter(each.files.values()))[0] for each in (one, other))
        raise BadInput(
            f"product.yml: artifacts: {first} and {second} would both be {one.path}",
            hint="put {version} or {name} into the path, or leave one of them out",
        )
    return replace(one, files={**one.files, **other.files})


def refs_of(laid_out: Iterable[LaidOut]) -> tuple[Ref, ...]:
    """Return the programs in several files."""
    return tuple(dict.fromkeys(ref for each in laid_out for ref, _ in each.files.values()))


def _named(ref: Ref) -> tuple[str, str]:
    return ref.name, ref.version
