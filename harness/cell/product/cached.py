"""What products need and vmatrix makes once, in its cache: sources, environments, collections and roles.

An entry is a folder that is finished when its mark lies in it. It is made at its place, because a virtual environment
cannot be moved, by the one process that holds its lock. What a killed process left has no mark and is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness import proc
from harness.cell.product.protocol import Tell
from harness.errors import BadInput
from harness.files import LOCK, hold, write_atomically
from harness.model import Cell, Phase
from harness.paths import cache_dir
from harness.proc import CommandFailed
from harness.spec import product_files
from harness.spec.models import Product, Timeouts

FINISHED = ".finished"
# How a program's line begins that says what is wrong: pip's, git's, uv's (with a multiplication sign), Ansible's.
GUILTY = ("error:", "fatal:", "\u00d7", "[error]")
DRAWN = re.compile("[\u00d7\u2500-\u257f\u25b6]+")  # lines and arrows that uv draws
MOST_WORDS = 400  # characters of it in a summary


def root() -> Path:
    """Return the folder of all entries, which lie in a folder for each kind."""
    return cache_dir() / "product"


def entry(kind: str, *parts: str | bytes) -> Path:
    """Return the folder in the cache of what follows from some content and from this interpreter."""
    digest = hashlib.sha256()
    for part in (*parts, sys.version, sys.base_prefix):
        content = part if isinstance(part, bytes) else part.encode()
        digest.update(hashlib.sha256(content).digest())
    return root() / kind / digest.hexdigest()[:16]


def finished(folder: Path) -> bool:
    """Tell whether an entry is there as a whole."""
    return (folder / FINISHED).is_file()


@contextmanager
def used(folders: Sequence[Path], project: Path) -> Iterator[bool]:
    """Keep entries from being pruned, for as long as this process lives; yield whether all of them are there.

    Args:
        project: who uses them, which is written down in each.
    """
    with ExitStack() as held:
        for folder in folders:
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock = held.enter_context(lock_of(folder).open("a"))
            fcntl.flock(lock, fcntl.LOCK_SH)
        there = all(finished(folder) for folder in folders)
        for folder in folders if there else ():
            if project.absolute() not in projects_of(folder):
                with (folder / FINISHED).open("a", encoding="utf-8") as mark:
                    mark.write(f"{project.absolute()}\n")
        yield there


def projects_of(folder: Path) -> frozenset[Path]:
    """Return the projects that have used a finished entry, as far as that was written down."""
    return frozenset(map(Path, (folder / FINISHED).read_text(encoding="utf-8").splitlines()))


def lock_of(folder: Path) -> Path:
    """Return the lock of an entry: whoever makes or removes it holds it alone, whoever uses it shares it."""
    return folder.with_name(f"{LOCK}{folder.name}")


def ensure(folder: Path, make: Callable[[], None], *, what: str, tell: Tell) -> bool:
    """Make an entry if it is not there; tell whether it was this call that made it.

    Args:
        make: makes the content of the folder, which does not exist then.  what: the entry, in messages.

    Raises:
        BadInput: it cannot be made; nothing of it is left.
    """
    if finished(folder):
        return False
    with hold(folder.parent, folder.name, lambda: tell(f"{what}: another process is at it")):
        if finished(folder):
            return False
        shutil.rmtree(folder, ignore_errors=True)
        tell(what)
        try:
            make()
            write_atomically(folder / FINISHED, "")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return True


def refused(what: str, failure: CommandFailed, *, hint: str) -> BadInput:
    """Return the error of a program that could not do what product.yml asks for, in that program's own words."""
    return BadInput(f"{what}: {_guilty(failure)}", detail=failure.detail, hint=hint)


def _guilty(failure: CommandFailed) -> str:
    lines = [line.strip() for line in failure.detail.splitlines() if line.strip()]
    begins = next((number for number, line in enumerate(lines) if line.lower().startswith(GUILTY)), len(lines) - 1)
    message = " ".join(" ".join(DRAWN.sub(" ", line) for line in lines[begins:]).split()) if lines else failure.summary
    return message if len(message) <= MOST_WORDS else f"{message[:MOST_WORDS]}..."


def contents(files: Iterable[Path]) -> list[bytes]:
    """Return what files hold, for a key; BadInput when one cannot be read."""
    try:
        return [file.read_bytes() for file in files]
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}", hint="product.yml names it") from error


COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
GIT_SECONDS = 10.0  # against hanging: one local command
ALONE = {"GIT_TERMINAL_PROMPT": "0"}  # nobody is there to type a password


@dataclass(frozen=True)
class Revision:
    """What was tested: the product's name, its repository ("" without one), what product.yml asks for, the commit.

    folder: what was used in place of the repository; "" otherwise.  commit: "" where nobody knows it.
    """

    name: str
    git: str = ""
    revision: str = ""
    commit: str = ""
    folder: str = ""

    def __str__(self) -> str:
        """Return it as a person says it."""
        of = f"{self.git} {self.revision}".strip()
        if self.folder:
            of = f"{self.folder}, in place of {of}" if of else self.folder
        commit = f" (commit {self.commit[:12]})" if self.commit and self.commit != self.revision else ""
        return f"{self.name}, {of}{commit}"


def entry_of(product: Product, project: Path) -> Path | None:
    """Return the folder in the cache of a product's sources; None where they come from elsewhere."""
    sources = product.sources
    if sources is None or sources.git is None or sources.revision is None:
        return None
    folder = product_files.folder(sources.model_dump(), project)
    return folder if folder == product_files.cached(sources.git, sources.revision) else None


def fetch(product: Product, project: Path, tell: Tell, timeouts: Timeouts) -> bool:
    """Have a product's sources; tell whether they were fetched now.

    Raises:
        BadInput: there is no such revision, or the repository cannot be reached.
    """
    sources, folder = product.sources, entry_of(product, project)
    if sources is None or folder is None or sources.git is None or sources.revision is None:
        return False
    git, revision = sources.git, sources.revision
    what = f"fetching {git} at {revision}"
    return ensure(folder, lambda: _fetch(git, revision, folder, timeouts.product_sources), what=what, tell=tell)


def revision_of(product: Product, project: Path) -> Revision | None:
    """Return what is tested of a product whose sources lie outside of the project, for the run's results."""
    sources = product.sources
    if sources is None:
        return None
    folder = product_files.folder(sources.model_dump(), project)
    here = folder is not None and (folder / ".git").exists()
    commit = proc.git(folder, "rev-parse", "HEAD", timeout=GIT_SECONDS).stdout.strip() if folder and here else ""
    replaced = sources.git is None or folder != product_files.cached(sources.git, str(sources.revision))
    return Revision(product.name, sources.git or "", sources.revision or "", commit, str(folder) if replaced else "")


def refuse_release(product: Product, project: Path, cells: Sequence[Cell]) -> None:
    """Refuse sources of a release, and versions of it, that product.yml does not name, where it names some.

    Raises:
        BadInput: with the releases or the versions that there are.
    """
    if product.sources is None or not product.sources.releases:
        return
    release = _release(product, project)
    for name, known in product.sources.releases[release].items():
        versions = {
            str(variables.get(name, "")) for cell in cells for phase in cell.phases for variables in _given(phase)
        } - {""}
        if other := sorted(versions - set(known)):
            raise BadInput(
                f"{product.name} {release} does not know {name} {', '.join(other)} (known: {', '.join(known)})",
                hint="choose other cells or values of matrix/axes.yml; `sources.releases` in product.yml names them",
            )


def _given(phase: Phase) -> tuple[Mapping[str, Any], ...]:
    return (*phase.between, phase.vars)


def _release(product: Product, project: Path) -> str:
    """Return the release of a product's sources: the revision that is fetched, or the tag of a checkout."""
    assert product.sources is not None  # noqa: S101 - the caller's condition
    releases, folder = product.sources.releases, product_files.folder(product.sources.model_dump(), project)
    if product.sources.revision is not None and entry_of(product, project) is not None:
        return product.sources.revision
    done = proc.git(folder or project, "tag", "--points-at", "HEAD", timeout=GIT_SECONDS)
    tags = done.stdout.split()
    release_tag = next((tag for tag in tags if tag in releases), None)
    if release_tag is None:
        what = (
            f"is {', '.join(tags)}" if tags else "is a commit without a tag" if done.returncode == 0 else "has no tag"
        )
        raise BadInput(
            f"{folder} {what}: no release of {product.name} that this project knows ({', '.join(releases)})",
            hint=f"git -C {folder} checkout {next(iter(releases))}; or name the tag in `sources.releases` of "
            "product.yml, or remove `releases` to test any commit",
            detail=done.stderr,
        )
    return release_tag


def _fetch(git: str, revision: str, folder: Path, seconds: float) -> None:
    """Check a tag or a commit out into a folder; not a branch, which moves: results tell what was tested."""
    ref = revision if COMMIT.fullmatch(revision) else f"refs/tags/{revision}"
    hint = f"product.sources in product.yml; {product_files.VARIABLE}=FOLDER uses a folder instead"
    try:
        run = partial(proc.git, timeout=seconds, check=True, env=ALONE)
        run(folder.parent, "init", "--quiet", folder.name)
        run(folder, "fetch", "--quiet", "--depth", "1", git, ref)
        run(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD")
        if (folder / ".gitmodules").is_file():
            update = ("submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1")
            run(folder, *update)
    except CommandFailed as failure:
        if "couldn't find remote ref" in failure.detail:
            raise BadInput(
                f"{git} has no tag {revision}, and it is not a full commit id",
                hint=f"a branch moves, so name a tag or a commit of 40 digits; {hint}",
            ) from failure
        raise refused(f"{revision} of {git} cannot be fetched", failure, hint=hint) from failure
