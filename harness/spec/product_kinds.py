"""What each kind of product asks of product.yml, on its plain data; `crossref` calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.spec import ansible_kind, command_kind, declared_kind, product_sources
from harness.spec.ansible_kind import is_there
from harness.spec.declared import EACH, find, texts
from harness.spec.lines import Finding, below

DEFAULT, DECLARED = "ansible", "declared"
OPTIONS = (DEFAULT, DECLARED)  # the kinds with options in a key of that name
GROUPS = ("control_plane", "etcd", "node")
RESERVED = ("all", "ungrouped")  # Ansible's own groups


def check(content: Any, project: Path, topologies: Any = None) -> Iterator[Finding]:
    """Find what is wrong with a product's groups, sources, files and phases.

    Args:
        content: of product.yml.  project: what its paths are relative to.  topologies: the content of topologies.yml.
    """
    for at, groups in find(content, "product", "groups"):
        yield from below(at, wrong_groups(groups))
    for at, product in find(content, "product"):
        yield from below(at, _product(product, project, topologies))


def _product(product: Any, project: Path, topologies: Any) -> Iterator[Finding]:
    given = next((found for _, found in find(product, "sources")), None)
    folder = product_sources.folder(given, project)
    if folder is None and given is None:
        yield from _marks_without_sources(product)
    there = folder is not None and is_there(folder.is_dir)
    if folder is not None and not there and not product_sources.fetched_later(given, folder):
        yield ("sources",), f"the folder {folder} does not exist; {product_sources.VARIABLE} or `path` names it"
    product = product_sources.put(product, folder if there else None)
    for at, name in texts(product, "directory"):
        if product_sources.marked(name):  # it is judged once it is there
            return
        directory = project / name
        if not is_there(directory.is_dir):
            yield at, f"the directory {directory} does not exist"
            return
        yield from _files(product, directory, topologies, folder if there else None)


def _files(product: Any, directory: Path, topologies: Any, sources: Path | None) -> Iterator[Finding]:
    kind = next((word for _, word in texts(product, "kind")), DEFAULT)
    found: list[Finding] = []
    for where, phase in find(product, "phases", EACH):
        if kind in KINDS and isinstance(phase, Mapping) and not product_sources.marked(phase):
            found += below(where, _ways(phase, directory, kind))
    marked = any(product_sources.marked(part) for _, part in find(product, "phases"))
    for other in (name for name in OPTIONS if name != kind):
        found += ((at, f"belongs to kind {other}; this product is of kind {kind}") for at, _ in find(product, other))
    if kind == DECLARED:
        found += declared_kind.options(product, directory)
    elif kind == DEFAULT and not any(product_sources.marked(part) for _, part in find(product, DEFAULT)):
        found += ansible_kind.options(product, directory)
    yield from found
    if kind == DEFAULT and not found and not marked:
        yield from ansible_kind.files(product, directory, sources)
        yield from ansible_kind.plays(product, directory, topologies, sources)
        yield from ansible_kind.kubeconfig(product, directory, sources)


def _marks_without_sources(product: Any) -> Iterator[Finding]:
    if isinstance(product, Mapping):
        for key, inner in product.items():
            if key not in product_sources.NOT_PATHS and product_sources.marked(inner):
                said = f"{product_sources.MARK} stands for the folder of `sources`, which this product does not have"
                yield (str(key),), f"{said}; add `sources`"


def wrong_groups(groups: Any) -> Iterator[Finding]:
    """Find what is wrong with a product's names of the groups of topologies."""
    if not isinstance(groups, Mapping) or not groups:
        return
    for missing in (group for group in GROUPS if group not in groups):
        yield (), f"lacks {missing}, a group of every topology; add `{missing}: NAME`, or `{missing}: []` without one"
    for ours in (group for group in GROUPS if group in groups):
        for at, name in (*texts(groups, ours), *texts(groups, ours, EACH)):
            if name in RESERVED:
                yield at, f"{name} is a group of Ansible's own, which has other machines; use another name"
            elif name in GROUPS and name != ours:
                yield at, f"{name} is the name of another group of topologies, which has other machines"


def _ways(phase: Mapping[str, Any], directory: Path, kind: str) -> Iterator[Finding]:
    """Check a phase by the product's kind, or say that it is written for another one."""
    own = KINDS[kind]
    for name, other in KINDS.items():
        if name != kind and phase.get(other.key) is not None:
            both = f"the phase has `{own.key}`, too, as the product's kind asks; remove `{other.key}`"
            wrong = f"is for products of kind `{name}`; write `{own.key}`, or set `kind: {name}` of the product"
            yield (other.key,), both if phase.get(own.key) is not None else wrong
            return
        if name != kind:
            for key in (key for key in other.others if key in phase):
                yield (key,), f"belongs to kind {name}; this product is of kind {kind}"
    yield from own.check(phase, directory)


@dataclass(frozen=True)
class Way:
    """What a kind of product asks of a phase.

    key: that which says what is run.  others: further keys that mean nothing to other kinds.
    check: finds what is wrong with a phase.
    """

    key: str
    others: tuple[str, ...]
    check: Callable[[Mapping[str, Any], Path], Iterator[Finding]]


KINDS: Mapping[str, Way] = {
    "ansible": Way("playbook", ("args",), ansible_kind.playbook),
    "command": Way("command", ("working_directory", "environment"), command_kind.program),
    "declared": Way("apply", ("delete",), declared_kind.edit),
}
