"""The product's own words for variables that vmatrix knows by others: `variables` of product.yml.

A cell has such a variable under both names, whichever of them the matrix sets, so that the matrix may be written in the
product's words and vmatrix still knows what it deploys. `crossref` calls the checks, on plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from harness.paths import MATRIX, packaged_dir
from harness.spec import lines
from harness.spec.declared import EACH, find, texts
from harness.spec.lines import Finding
from harness.spec.models.facts import ENFORCES_POLICIES
from harness.spec.required import BY_THE_RUN, OURS
from harness.spec.shape import shown, unknown

DEFAULTS = "playbooks/group_vars/all"  # of the packaged playbooks
SOMETIMES = ("cluster_remove_nodes", "cluster_lost_nodes", "cluster_files_url", "cluster_checksums")  # given by a run
VERSION = "_version"  # how the names of versions end; vmatrix has them without a leading v


def in_both(words: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables with each under both its names; what is set under both stays as it is."""
    made = dict(given)
    for ours, theirs in words.items():
        if ours in given:
            made.setdefault(theirs, given[ours])
        elif theirs in given:
            made[ours] = _bare(given[theirs]) if ours.endswith(VERSION) else given[theirs]
    return made


def translated(words: Mapping[str, str], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables that a run has changed or added under vmatrix's names, with the product's names following.

    Args:
        before: as `in_both` returned them.  after: as the run has them.
    """
    made = dict(after)
    for ours, theirs in words.items():
        if ours in after and (theirs not in after or after[theirs] == before.get(ours)):
            made[theirs] = after[ours]
    return made


def check(content: Any) -> Iterator[Finding]:
    """Find words that vmatrix does not know, and those that stand for two things."""
    seen: dict[str, str] = {}
    for at, theirs in texts(content, "product", "variables", EACH):
        ours, known = str(at[-1]), known_variables()
        if ours not in known:
            yield at, unknown("variable of vmatrix", ours, known)
        elif theirs in known:
            yield at, f"{shown(theirs)} is vmatrix's own variable; give the product's name for {ours}"
        elif seen.setdefault(theirs, ours) != ours:
            yield at, f"{shown(theirs)} already stands for {seen[theirs]}; a name stands for one variable"


def _bare(version: Any) -> Any:
    return version.removeprefix("v") if isinstance(version, str) else version


def known_variables() -> tuple[str, ...]:
    """Return what the packaged playbooks are given by the matrix, defaults and a run, and what only checks read."""
    files = sorted((packaged_dir() / DEFAULTS).glob("*.yml"))
    names = [name for file in files for name in yaml.safe_load(file.read_text(encoding="utf-8")) or {}]
    axes = lines.read(packaged_dir() / MATRIX / "axes.yml")[0].content
    names += [str(at[-1]) for at, _ in find(axes, "axes", EACH, "values", EACH, "vars", EACH)]
    return tuple(dict.fromkeys((*names, *OURS, *sorted(BY_THE_RUN), *SOMETIMES, ENFORCES_POLICIES)))
