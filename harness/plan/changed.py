"""Which cells a change of files can affect, by the globs that the matrix gives for values, phases and harmless files.

A path that no glob knows may affect anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from harness import proc
from harness.errors import BadInput
from harness.model import Cell
from harness.spec import Spec

GIT_SECONDS = 60  # names of files in a local checkout
TOKEN = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|[^*?]+")
MEANING = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True)
class Changes:
    """Files that differ from a revision, relative to the project, sorted."""

    since: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Effects:
    """What changed paths can affect.

    values, phases: by what (axis and value id; phase of the product), the first changed path that says so.
    anything: the first path that may affect every cell, "" without one.
    """

    values: dict[tuple[str, str], str]
    phases: dict[str, str]
    anything: str = ""

    def on(self, cell: Cell) -> str:
        """Say why a cell is affected; nothing when it is not."""
        if self.anything:
            return f"{self.anything} may affect every cell"
        for phase in cell.phases:
            if phase.name in self.phases:
                return f"{self.phases[phase.name]} affects phase {phase.name}"
            for axis, value in phase.values.items():
                if (axis, value) in self.values:
                    return f"{self.values[axis, value]} affects {axis} {value}"
        return ""


def changed_since(project: Path, revision: str) -> Changes:
    """Ask git what differs since a revision and HEAD parted, uncommitted files too; BadInput without either."""
    known = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if known.returncode != 0:
        reason = known.stderr.strip().partition("\n")[0]
        raise BadInput(
            f"git does not know the revision {revision!r}" + (f": {reason}" if reason else ""),
            hint="name a branch, tag or commit; a shallow clone lacks older ones: `git fetch --unshallow`",
        )
    base = _git(project, "merge-base", known.stdout.strip(), "HEAD")
    if base.returncode != 0:
        raise BadInput(
            f"{revision!r} and HEAD have no common ancestor",
            hint="a shallow clone lacks it: `git fetch --unshallow`",
        )
    tracked = _listed(project, "diff", "--name-only", "--no-renames", "-z", "--relative", base.stdout.strip())
    new = _listed(project, "ls-files", "--others", "--exclude-standard", "-z")
    paths = {*tracked, *new}
    return Changes(revision, tuple(sorted(paths)))


def _listed(project: Path, *words: str) -> list[str]:
    """Return the paths that git lists; BadInput when it does not, which must not look like nothing."""
    listed = _git(project, *words)
    if listed.returncode != 0:
        raise BadInput(
            f"`git {' '.join(words)}` ended with status {listed.returncode}",
            hint="a partial clone may lack objects: clone anew",
            detail=listed.stderr.strip(),
        )
    return [path for path in listed.stdout.split("\0") if path]


def _git(project: Path, *words: str) -> proc.Completed:
    try:
        return proc.git(project, *words, timeout=GIT_SECONDS)
    except proc.CommandFailed as failure:
        raise BadInput(failure.summary, hint="--changed-since asks git; is it installed?") from failure


def effects(spec: Spec, paths: Iterable[str]) -> Effects:
    """Return what changed paths can affect.

    A path under `without_effect` affects nothing, whatever else names it; one that nothing names may affect anything.
    """
    values: dict[tuple[str, str], str] = {}
    phases: dict[str, str] = {}
    anything = ""
    for path in paths:
        if any(matches(glob, path) for glob in spec.product.without_effect):
            continue
        on_values = [(a.name, v.id) for a in spec.axes for v in a.values if any(matches(g, path) for g in v.paths)]
        on_phases = [name for name in spec.product.phases if any(matches(g, path) for g in _globs(spec, name))]
        for value in on_values:
            values.setdefault(value, path)
        for phase in on_phases:
            phases.setdefault(phase, path)
        if not on_values and not on_phases:
            anything = anything or path
    return Effects(values, phases, anything)


def _globs(spec: Spec, phase: str) -> tuple[str, ...]:
    known = spec.product.phases[phase]
    program = (str(Path(spec.product.directory) / known.program),) if known.program is not None else ()
    return (*program, *known.paths)


def matches(glob: str, path: str) -> bool:
    """Tell whether a path fits a glob: `*` and `?` stay within a folder, `**` crosses folders (`**/x` is also `x`)."""
    return _pattern(glob).fullmatch(path) is not None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile("".join(MEANING.get(token) or re.escape(token) for token in TOKEN.findall(glob)), re.DOTALL)


OWNERS = ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS")
SECTION = re.compile(r"\^?\[(?P<name>[^]]+)\](\[\d+\])?(?P<owners>.*)")


def owners_of(root: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """Return who owns some files by a repository's CODEOWNERS: in each section, the last line that fits a file.

    https://docs.gitlab.com/user/project/codeowners/reference/
    """
    file = next((root / name for name in OWNERS if (root / name).is_file()), None)
    if file is None:
        return ()
    sections: dict[str, list[tuple[str, list[str]]]] = {"": []}
    section, usual = "", list[str]()
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        text = line.strip()
        if head := SECTION.fullmatch(text):
            section, usual = head["name"].casefold(), head["owners"].split()
            sections.setdefault(section, [])
        elif text and not text.startswith("#"):
            glob, *owners = re.split(r"(?<!\\)\s+", text)
            sections[section].append((glob.replace("\\ ", " "), owners or usual))
    found: dict[str, None] = {}
    for path in paths:
        for rows in sections.values():
            owners = next((owners for glob, owners in reversed(rows) if _owned(glob, path)), [])
            found.update(dict.fromkeys(owner for owner in owners if not owner.startswith("#")))
    return tuple(found)


def _owned(glob: str, path: str) -> bool:
    """Tell whether a line of CODEOWNERS means a path: without a slash at its beginning it does in any folder."""
    anchored = glob.removeprefix("/") if glob.startswith("/") else f"**/{glob}"
    return matches(f"{anchored}**" if anchored.endswith("/") else anchored, path) or matches(f"{anchored}/**", path)
