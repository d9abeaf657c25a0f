"""The product file of playbooks that are not vmatrix's own: which playbook each operation is, and how it is called.

It has the form of matrix/product.yml. What an image has already, or what only a run of the matrix needs, cannot be in
it: executors install nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.kube.failures import Json
from harness.kube.kinds.page import SpecMistake
from harness.kube.objects import dig
from harness.spec import variables
from harness.spec.declared import find
from harness.spec.lines import Document, Finding, Problem, below, parse
from harness.spec.models import FILES, Product
from harness.spec.product_files import marked
from harness.spec.product_kinds import wrong_groups
from harness.spec.shape import validate

KEY = "product.yml"
FIELD = "spec.playbooks.product"
REMEDY = "correct the ConfigMap; docs/product.md explains each key"
KIND = "ansible"
INSTALLED = "executors install nothing: put it into the image, and remove this key"
# Keys that mean nothing to an executor, and why.
NOT_HERE = {
    ("product", "sources"): "the image has the playbooks: remove this key, and write paths without {sources}",
    ("product", "ansible", "install"): INSTALLED,
    ("product", "ansible", "requirements"): INSTALLED,
    ("product", "ansible", "offline"): INSTALLED,
}
# Operations that are phases of another name in product.yml.
PHASES = {"scale": "scale-out"}


@dataclass(frozen=True)
class KnownProduct:
    """A product file that can be used. text: as it was given.  digest: of the text."""

    product: Product
    text: str
    digest: str

    def playbook(self, operation: str) -> str | None:
        """Return the playbook of an operation, None where the product has no such phase."""
        phase = self.product.phases.get(phase_of(operation))
        return phase.playbook if phase is not None else None

    def groups(self, ours: str) -> tuple[str, ...]:
        """Return what a group of the inventory is called: our name, and the product's."""
        theirs = next((self.product.group_names(group) for group in self.product.groups if group == ours), ())
        return (ours, *theirs)

    def lacking(self, variables: Collection[str]) -> list[SpecMistake]:
        """Return what is wrong because a variable is not given that the product requires.

        Args:
            variables: that operations are given.
        """
        words, vars_ = self.product.variables, self.product.vars
        names = {*variables, *vars_, *(words[name] for name in (*variables, *vars_) if name in words)}
        return [
            SpecMistake(f"spec.variables.{name}", f"{self.product.name} requires this variable", "set it")
            for name in self.product.requires
            if name not in names
        ]


def phase_of(operation: str) -> str:
    """Return the phase of product.yml that an operation is."""
    return PHASES.get(operation, operation)


def in_config_map(config_map: Json | None, name: str) -> tuple[KnownProduct | None, Sequence[SpecMistake]]:
    """Return what the product file in a ConfigMap says, None where it cannot be used, and what is wrong with it."""
    field = f"{FIELD}.configMap"
    if config_map is None:
        return None, [SpecMistake(field, f"there is no ConfigMap {name}", f"create it, with the key {KEY}")]
    text = dig(config_map, "data", KEY)
    if not isinstance(text, str) or not text:
        keys = ", ".join(config_map.get("data") or {}) or "none"
        return None, [SpecMistake(field, f"ConfigMap {name} has no key {KEY}", f"add it; it has {keys}")]
    return read_product(text, name)


@lru_cache(maxsize=256)
def read_product(text: str, name: str) -> tuple[KnownProduct | None, tuple[SpecMistake, ...]]:
    """Return what a product file says, None where it cannot be used, and what is wrong with it.

    Args:
        name: of the ConfigMap.
    """
    document, problems = parse(Path(KEY), text)
    file, wrong = (None, problems) if problems else validate(document, FILES[KEY])
    findings = list(wrong)
    if file is not None:
        findings += [document.problem(at, message) for at, message in _judged(document)]
    mistakes = tuple(
        SpecMistake(FIELD, f"ConfigMap {name}, {KEY}, line {problem.line}: {_words(problem)}", REMEDY)
        for problem in findings
    )
    if file is None or mistakes:
        return None, mistakes
    return KnownProduct(dict(file)["product"], text, hashlib.sha256(text.encode()).hexdigest()[:16]), ()


def _words(problem: Problem) -> str:
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


def _judged(document: Document) -> Iterator[Finding]:
    """Find what executors cannot do, and what the project of a product would be told as well."""
    content = document.content
    kind = content["product"].get("kind", KIND)
    if kind != KIND:
        yield ("product", "kind"), f"executors run playbooks, and no products of kind {kind}; expected {KIND}"
        return
    for steps, message in NOT_HERE.items():
        yield from ((place, message) for place, _ in find(content, *steps))
    for at, groups in find(content, "product", "groups"):
        yield from below(at, wrong_groups(groups))
    yield from variables.check_names(content)
    for name, phase in content["product"]["phases"].items():
        if not (phase or {}).get("playbook"):
            yield ("product", "phases", name), "has no playbook; expected `playbook: FILE`"
        elif marked(phase["playbook"]):
            yield ("product", "phases", name, "playbook"), NOT_HERE["product", "sources"]
