"""The sources of a product from a Git repository: one revision, fetched once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.cell.product.cached import ensure, refused
from harness.cell.product.protocol import Tell
from harness.errors import BadInput
from harness.proc import CommandFailed, run
from harness.spec import product_files
from harness.spec.models import Product, Timeouts

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
    commit = run(_git(folder, "rev-parse", "HEAD"), timeout=GIT_SECONDS, check=False).stdout.strip() if here else ""
    replaced = sources.git is None or folder != product_files.cached(sources.git, str(sources.revision))
    return Revision(product.name, sources.git or "", sources.revision or "", commit, str(folder) if replaced else "")


def _fetch(git: str, revision: str, folder: Path, seconds: float) -> None:
    """Check a tag or a commit out into a folder; not a branch, which moves: results tell what was tested."""
    wanted = revision if COMMIT.fullmatch(revision) else f"refs/tags/{revision}"
    hint = f"product.sources in product.yml; {product_files.VARIABLE}=FOLDER uses a folder instead"
    try:
        run(["git", "init", "--quiet", folder], timeout=seconds)
        run(_git(folder, "fetch", "--quiet", "--depth", "1", git, wanted), timeout=seconds, env=ALONE)
        run(_git(folder, "checkout", "--quiet", "--detach", "FETCH_HEAD"), timeout=seconds)
        if (folder / ".gitmodules").is_file():
            update = ("submodule", "update", "--quiet", "--init", "--recursive", "--depth", "1")
            run(_git(folder, *update), timeout=seconds, env=ALONE)
    except CommandFailed as failure:
        if "couldn't find remote ref" in failure.detail:
            raise BadInput(
                f"{git} has no tag {revision}, and it is no full commit id",
                hint=f"a branch moves, so name a tag or a commit of 40 digits; {hint}",
            ) from failure
        raise refused(f"{revision} of {git} cannot be fetched", failure, hint=hint) from failure


def _git(folder: Path | None, *words: str) -> list[str]:
    return ["git", "-C", str(folder), *words]
