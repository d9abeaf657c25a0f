"""Files of one product on the mirror, below MIRROR/files/KEY/, where the key says what they hold.

So runs of several products, or of one product that changes, share a mirror. An index in the cache names each file
and where it lies; nothing is copied. `SHA256SUMS` at the top has the checksums of all of them, by their paths.
Programs lie as upstream publishes them, or as the product says. Archives are the same bytes each time, on every
machine: fixed times and owners, sorted, stored. What is in a .tar.gz is not compressed: the same bytes would
otherwise need the same version of zlib, and guests pull it over a local wire. The format is that of RFC 1952 with
stored blocks of RFC 1951.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tarfile
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO, cast

from harness.artifacts.catalogue import Catalogue, ReleaseRecipe, fill
from harness.artifacts.recipe import Ref
from harness.artifacts.refs import program
from harness.artifacts.store import FILES, Artifact
from harness.errors import BadInput
from harness.files import hold, sha256_of, working, write_atomically
from harness.spec.models import ProductArtifacts
from harness.spec.models.product import ARCHIVES, ServedProgram

BLOCK = 65535  # bytes, the most that a stored block may have
HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # gzip, no name, no time, no system
GZIP = (".tar.gz", ".tgz")
FORMAT = 1  # of the archives: raise it when their bytes change
CONTENT = tuple[Ref, str]  # a program, and which of its files
FOLDER = "files"  # of the indexes in the cache
SUMS = "SHA256SUMS"
KEY_DIGITS = 16
PACKED = "packed"  # beside an artifact's files: archives with them
KEPT_SECONDS = 86400.0  # an index whose files are gone: longer than any run that may still use the others


@dataclass(frozen=True)
class LaidOut:
    """A file on the mirror. `files`: path in the archive -> content; {"": content} where it is the program itself.

    checksums: the path of the file with the checksum.  bare: that file has the digest alone.
    """

    path: str
    files: Mapping[str, CONTENT]
    checksums: str
    bare: bool = False


@dataclass(frozen=True)
class Tree:
    """What the mirror has of a product. `sums`: path -> SHA-256 of every file, those with checksums left out."""

    key: str
    sums: Mapping[str, str]


def publish_tree(cache: Path, made: Mapping[Ref, Artifact], laid_out: Iterable[LaidOut], folder: Path | None) -> Tree:
    """Write the index of a product's files; archives are made first, once each.

    Args:
        cache: the folder that the mirror serves.
        made: the programs in the files.
        folder: of the product's own files.

    Raises:
        BadInput: the folder has a file where a program is to be, or cannot be read.
    """
    files: dict[str, dict[str, Any]] = {}
    listed: dict[str, list[str]] = {}
    for each in laid_out:
        source, digest = _content(each, made)
        files[each.path] = _entry(source, digest)
        name = PurePosixPath(each.path).name
        listed.setdefault(each.checksums, []).append(digest if each.bare else f"{digest}  {name}")
    own = _folder(folder, _known(cache)) if folder is not None else {}
    if twice := sorted({*files, *listed} & set(own)):
        raise BadInput(
            f"product.yml: artifacts: {twice[0]} is a file of {folder}, and a program that is served",
            hint="take the file out of the folder, or give the program another path with `as`",
        )
    files |= own
    sums = {path: str(entry["sha256"]) for path, entry in sorted(files.items())}
    texts = {path: "\n".join(sorted(lines)) + "\n" for path, lines in listed.items()}
    everything = "".join(f"{digest}  {path}\n" for path, digest in sums.items())
    if SUMS not in files:
        texts.setdefault(SUMS, everything)
    index = json.dumps({"files": files, "texts": texts}, sort_keys=True)
    key = hashlib.sha256((everything + json.dumps(texts, sort_keys=True)).encode()).hexdigest()[:KEY_DIGITS]
    target = cache / FOLDER / f"{key}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, index)
    return Tree(key, sums)


def _content(laid: LaidOut, made: Mapping[Ref, Artifact]) -> tuple[Path, str]:
    """Return a file on the mirror and its SHA-256; an archive lies beside the files of its first program."""
    inside = {path: made[ref].directory / FILES / file for path, (ref, file) in laid.files.items()}
    digests = {path: str(made[ref].facts["files"][file]["sha256"]) for path, (ref, file) in laid.files.items()}
    if "" in inside:
        return inside[""], digests[""]
    folder = made[next(iter(laid.files.values()))[0]].directory / PACKED
    ending = next(end for end in (*GZIP, ".tar") if laid.path.endswith(end))
    recipe = hashlib.sha256(json.dumps([FORMAT, digests], sort_keys=True).encode()).hexdigest()[:KEY_DIGITS]
    for there in folder.glob(f"{recipe}-*{ending}"):
        return there, there.name.removeprefix(f"{recipe}-").removesuffix(ending)
    with hold(folder, recipe, lambda: None), working(folder, recipe) as work:
        work.mkdir()
        packed = work / f"archive{ending}"
        pack_archive(packed, inside)
        digest = sha256_of(packed)
        target = packed.rename(folder / f"{recipe}-{digest}{ending}")
    return target, digest


def _entry(source: Path, digest: str) -> dict[str, Any]:
    status = source.stat()
    return {"source": str(source.resolve()), "size": status.st_size, "changed": status.st_mtime_ns, "sha256": digest}


def _folder(folder: Path, known: Mapping[tuple[str, int, int], str]) -> dict[str, dict[str, Any]]:
    """Return the product's own files by path; of those that have not changed since, the checksum is known."""
    tree: dict[str, dict[str, Any]] = {}
    try:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = _entry(path, "")
                digest = known.get((entry["source"], entry["size"], entry["changed"])) or sha256_of(path)
                tree[path.relative_to(folder).as_posix()] = {**entry, "sha256": digest}
    except OSError as error:
        raise BadInput(f"product.yml: artifacts: {folder} cannot be read: {error}", hint="chmod, or mend it") from error
    return tree


def _known(cache: Path) -> dict[tuple[str, int, int], str]:
    """Return the checksums of files in earlier indexes, and remove old ones whose files are gone."""
    known: dict[tuple[str, int, int], str] = {}
    for index in sorted((cache / FOLDER).glob("*.json")):
        try:
            entries = json.loads(index.read_text(encoding="utf-8"))["files"].values()
            gone = not all(Path(entry["source"]).is_file() for entry in entries)
            if gone and time.time() - index.stat().st_mtime > KEPT_SECONDS:
                index.unlink(missing_ok=True)
                continue
            known |= {(e["source"], e["size"], e["changed"]): e["sha256"] for e in entries}
        except (OSError, ValueError, KeyError, TypeError):
            index.unlink(missing_ok=True)
    return known


def pack_archive(target: Path, members: Mapping[str, Path]) -> None:
    """Write an archive of executable files: path in it -> file. It is a gzip file where the target's name says so."""
    with target.open("wb") as sink:
        gzip = StoredGzip(sink) if target.name.endswith(GZIP) else None
        stream = cast(IO[bytes], gzip or sink)
        with tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as archive:
            folders = {str(folder) for path in members for folder in PurePosixPath(path).parents} - {"."}
            for path in sorted({*folders, *members}):
                entry = tarfile.TarInfo(path)
                entry.mode = 0o755
                if path in folders:
                    entry.type = tarfile.DIRTYPE
                    archive.addfile(entry)
                    continue
                entry.size = members[path].stat().st_size
                with members[path].open("rb") as content:
                    archive.addfile(entry, content)
        if gzip is not None:
            gzip.finish()


class StoredGzip:
    """A gzip file that is written without compressing anything; only what tarfile asks of a stream."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink, self._rest, self._check, self._size = sink, b"", 0, 0
        sink.write(HEADER)

    def write(self, data: bytes) -> int:
        """Add bytes."""
        self._check, self._size = zlib.crc32(data, self._check), self._size + len(data)
        pending = self._rest + data
        whole = len(pending) - len(pending) % BLOCK
        for start in range(0, whole, BLOCK):
            self._block(pending[start : start + BLOCK], last=False)
        self._rest = pending[whole:]
        return len(data)

    def finish(self) -> None:
        """Write the last block, the checksum and the length."""
        self._block(self._rest, last=True)
        self._sink.write(struct.pack("<II", self._check, self._size & 0xFFFFFFFF))

    def _block(self, data: bytes, *, last: bool) -> None:
        self._sink.write(struct.pack("<BHH", last, len(data), len(data) ^ 0xFFFF) + data)


def layout(catalogue: Catalogue, asked: ProductArtifacts | None, variables: Mapping[str, Any]) -> tuple[LaidOut, ...]:
    """Return what the mirror has of vmatrix's programs for a phase, by its variables; each file once.

    Raises:
        BadInput: two programs would have one path, or a program cannot be laid out.
    """
    places: dict[str, LaidOut] = {}
    for each in of_phase(catalogue, asked, variables):
        places[each.path] = _both(places.get(each.path, each), each)
    return tuple(places[path] for path in sorted(places))


def of_phase(catalogue: Catalogue, asked: ProductArtifacts | None, variables: Mapping[str, Any]) -> Iterator[LaidOut]:
    """Yield what one phase asks for, in the product's order; archives of several programs come once for each."""
    for entry in asked.serve if asked is not None else ():
        ref = program(catalogue, entry if isinstance(entry, str) else entry.artifact, variables)
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
            f"product.yml: artifacts: {ref.name} has the files {', '.join(names)}, and {path} is not an archive",
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
