"""The files of one product as the mirror has them: below MIRROR/files/KEY/, where the key says what they hold.

So runs of several products, or of one product that changes, share a mirror. An index in the cache names each file and
where it lies; nothing is copied. `SHA256SUMS` at the top has the checksums of all of them, by their paths.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from harness.artifacts.product import packing
from harness.artifacts.product.layout import LaidOut
from harness.artifacts.recipe import Ref
from harness.artifacts.store import FILES, Artifact
from harness.artifacts.workdir import hold, working
from harness.errors import BadInput
from harness.files import sha256_of, write_atomically

FOLDER = "files"  # of the indexes in the cache
SUMS = "SHA256SUMS"
KEY_DIGITS = 16
PACKED = "packed"  # beside an artifact's files: archives with them
KEPT_SECONDS = 86400.0  # an index whose files are gone: longer than any run that may still use the others


@dataclass(frozen=True)
class Tree:
    """What the mirror has of a product. `sums`: path -> SHA-256 of every file, those with checksums left out."""

    key: str
    sums: Mapping[str, str]


def publish(cache: Path, made: Mapping[Ref, Artifact], laid_out: Iterable[LaidOut], folder: Path | None) -> Tree:
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


def _content(wanted: LaidOut, made: Mapping[Ref, Artifact]) -> tuple[Path, str]:
    """Return a file on the mirror and its SHA-256; an archive lies beside the files of its first program."""
    inside = {path: made[ref].directory / FILES / file for path, (ref, file) in wanted.files.items()}
    digests = {path: str(made[ref].facts["files"][file]["sha256"]) for path, (ref, file) in wanted.files.items()}
    if "" in inside:
        return inside[""], digests[""]
    folder = made[next(iter(wanted.files.values()))[0]].directory / PACKED
    ending = next(end for end in (*packing.GZIP, ".tar") if wanted.path.endswith(end))
    recipe = hashlib.sha256(json.dumps([packing.FORMAT, digests], sort_keys=True).encode()).hexdigest()[:KEY_DIGITS]
    for there in folder.glob(f"{recipe}-*{ending}"):
        return there, there.name.removeprefix(f"{recipe}-").removesuffix(ending)
    with hold(folder, recipe, lambda: None), working(folder, recipe) as work:
        work.mkdir()
        packed = work / f"archive{ending}"
        packing.pack(packed, inside)
        digest = sha256_of(packed)
        target = packed.rename(folder / f"{recipe}-{digest}{ending}")
    return target, digest


def _entry(source: Path, digest: str) -> dict[str, Any]:
    found = source.stat()
    return {"source": str(source.resolve()), "size": found.st_size, "changed": found.st_mtime_ns, "sha256": digest}


def _folder(folder: Path, known: Mapping[tuple[str, int, int], str]) -> dict[str, dict[str, Any]]:
    """Return the product's own files by path; of those that have not changed since, the checksum is known."""
    found: dict[str, dict[str, Any]] = {}
    try:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = _entry(path, "")
                digest = known.get((entry["source"], entry["size"], entry["changed"])) or sha256_of(path)
                found[path.relative_to(folder).as_posix()] = {**entry, "sha256": digest}
    except OSError as error:
        raise BadInput(f"product.yml: artifacts: {folder} cannot be read: {error}", hint="chmod, or mend it") from error
    return found


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
