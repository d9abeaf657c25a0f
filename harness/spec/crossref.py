"""What no single value can know: names that are to be unique, and references to other values, files and playbooks.

Works on the files' plain data, so that an error elsewhere in a file hides none here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

from harness.paths import MATRIX, packaged_dir
from harness.spec import feasibility, networks, phases, playbook_variables, product_files, product_kinds, variables
from harness.spec.controls import controls
from harness.spec.declared import EACH, Declared, DeclaredAxis, condition, declared, field, find, slug_of, texts
from harness.spec.layers import removals
from harness.spec.lines import Document, Finding, Location, Problem, below
from harness.spec.phases import broken
from harness.spec.shape import unknown
from harness.spec.suites import KIND, fits_any, misnamed, suites_of
from harness.spec.suites import check as check_left_out

RECIPES = Path("vm-templates", "images")
RECIPE = "recipe.yml"


def check_recipes(content: Any, project: Path) -> Iterator[Finding]:
    """Find recipes that neither the project nor the package has."""
    known = [file.parent.name for root in (project, packaged_dir()) for file in (root / RECIPES).glob(f"*/{RECIPE}")]
    for at, source in find(content, "images", EACH, "source"):
        for inner, name in texts(source, "recipe"):
            if name not in known:
                yield (*at, *inner), unknown(f"recipe (a folder of {RECIPES} with {RECIPE})", name, sorted(set(known)))


NEEDED = ("topology", "scenario", "os")
LASTING = ("topology", "os", "scenario")  # what a cell's machines are made of stays as it is during its life
GROUPS = ("control_plane", "etcd", "node")


def check(
    documents: Mapping[str, Document], directory: Path, products: Mapping[str, Document] | None = None
) -> list[Problem]:
    """Return every broken reference and duplicate of a matrix.

    Args:
        documents: by file name, all of them; one that could not be read has no content.
        directory: of the matrix; the product's playbooks and the suites are looked for beside it.
        products: those beside product.yml.
    """
    known = replace(declared(documents), removed=removals(documents["axes.yml"].file))
    suites = tuple(suites_of(directory.parent))
    findings: dict[str, Iterator[Finding]] = {
        "axes.yml": _axes(documents["axes.yml"].content, known),
        "topologies.yml": _topologies(documents["topologies.yml"].content),
        "scenarios.yml": _scenarios(documents["scenarios.yml"].content, known, (products or {}).values()),
        "product.yml": _product(documents["product.yml"].content, directory, documents),
        "constraints.yml": _constraints(documents["constraints.yml"], known),
        "tiers.yml": _tiers(documents["tiers.yml"].content, known, suites),
        "quarantine.yml": _quarantine(documents["quarantine.yml"].content, known, directory.parent, suites),
        "waivers.yml": _waivers(documents["waivers.yml"].content),
        "symptoms.yml": _twice(texts(documents["symptoms.yml"].content, "symptoms", EACH, "name"), "symptom"),
        "images.yml": check_recipes(documents["images.yml"].content, directory.parent),
    }
    problems = [documents[name].problem(at, message) for name, all_ in findings.items() for at, message in all_]
    problems += [documents["tiers.yml"].problem((), message) for message in misnamed(directory.parent)]
    for document in (products or {}).values():
        whole = {**documents, "product.yml": document}
        problems += [document.problem(*finding) for finding in _product(document.content, directory, whole)]
        problems += [*variables.check_required(whole), *variables.check_reserved(whole)]
    packaged = playbook_variables.is_packaged(documents["product.yml"].content, directory.parent)
    problems += [
        *variables.check_required(documents),
        *variables.check_reserved(documents),
        *networks.check(documents, ipv4=packaged),
    ]
    return [*problems, *playbook_variables.check(documents, directory.parent)]


def _product(content: Any, directory: Path, documents: Mapping[str, Document]) -> Iterator[Finding]:
    return chain(
        product_kinds.check(content, directory.parent, documents["topologies.yml"].content),
        check_left_out(content, directory.parent),
        variables.check_names(content),
        phases.of_product(content, documents["scenarios.yml"].content),
        product_files.check(content, directory.parent),
    )


def _axes(content: Any, known: Declared) -> Iterator[Finding]:
    yield from _twice(texts(content, "axes", EACH, "name"), "axis")
    if known.axes is None:
        return
    for needed in NEEDED:
        if needed not in known.axes:
            yield ("axes",), f"the axis {needed!r} is missing; every cell needs it"
    yield from _variables(content)
    for at, axis in find(content, "axes", EACH):
        name = field(axis, "name") or ""
        values = [((*at, *inner), value) for inner, value in find(axis, "values", EACH)]
        yield from _slugs(values)
        yield from _cycles(values)
        yield from variables.check_downgrades(values)
        default = field(axis, "default")
        if default is not None:
            yield from _known((*at, "default"), f"value of axis {name}", default, known.axes[name].values)
        for here, value in values:
            yield from below(here, _value(name, value, known))


def _known(at: Location, what: str, word: str, known: Collection[str] | None) -> Iterator[Finding]:
    """Find a word that is not among the known ones; nothing where the file that has them cannot be read."""
    if known is not None and word not in known:
        yield at, unknown(what, word, known)


def _twice(words: Iterator[tuple[Location, str]], what: str) -> Iterator[Finding]:
    words_before: set[str] = set()
    for at, word in words:
        if word in words_before:
            yield at, f"duplicate {what} {word!r}"
        words_before.add(word)


def _slugs(values: list[tuple[Location, Any]]) -> Iterator[Finding]:
    named = (((*at, "id"), name) for at, value in values if (name := field(value, "id")) is not None)
    yield from _twice(named, "value")
    owners: dict[str, str] = {}
    for at, value in values:
        slug, name = slug_of(value), field(value, "id") or ""
        if slug is None:
            continue
        if owners.setdefault(slug, name) != name:
            yield (*at, "slug"), f"slug {slug!r} is already used by {owners[slug]!r}; slugs must be unique"


def _value(axis: str, value: Any, known: Declared) -> Iterator[Finding]:
    name, image = field(value, "id"), field(value, "image")
    for what, file, defined in (
        ("topology", "topologies.yml", known.topologies),
        ("scenario", "scenarios.yml", known.scenarios),
    ):
        if axis == what and name is not None:
            yield from _known(("id",), f"{what} ({file})", name, defined)
    if axis == "os" and image is None:
        yield (), "missing `image`: the name of a disk image in images.yml"
    if image is not None:
        yield from _known(("image",), "disk image (images.yml)", image, known.images)
    for at, plugin in texts(value, "vars", "cluster_network_plugin") if known.every_check else ():
        yield from _known(at, "network plugin (network_plugins.yml)", plugin, known.network_plugins)
    siblings = known.axes[axis].values if known.axes is not None and axis in known.axes else ()
    for at, word in texts(value, "before", EACH):
        yield from _value_known(("before", *at[1:]), axis, word, siblings, known.removed)


def _cycles(values: list[tuple[Location, Any]]) -> Iterator[Finding]:
    """Find values that come before themselves by following `before`."""
    before = {
        name: tuple(word for _, word in texts(value, "before", EACH))
        for _, value in values
        if (name := field(value, "id")) is not None
    }
    told: set[str] = set()
    for at, value in values:
        name = field(value, "id") or ""
        path = _back_to(name, before)
        if path and not told & set(path):
            told |= set(path)
            yield (*at, "before"), f"forms a cycle: {' <- '.join(path)}; remove one of these"


def _back_to(name: str, before: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return a way from a value back to itself, nothing when there is none."""
    ways: list[tuple[str, ...]] = [(name,)]
    words_before: set[str] = set()
    while ways:
        way = ways.pop(0)
        for word in before.get(way[-1], ()):
            if word == name:
                return (*way, name)
            if word not in words_before:
                words_before.add(word)
                ways.append((*way, word))
    return ()


def _variables(content: Any) -> Iterator[Finding]:
    owners: dict[str, str] = {}
    for at, axis in find(content, "axes", EACH):
        name = field(axis, "name") or ""
        for inner, _ in find(axis, "values", EACH, "vars", EACH):
            variable = str(inner[-1])
            if owners.setdefault(variable, name) != name:
                yield (*at, *inner), f"axis {owners[variable]} also sets {variable}; only one axis may set a variable"


def _topologies(content: Any) -> Iterator[Finding]:
    for at, machines in find(content, "topologies", EACH, "machines"):
        yield from below(at, _twice(texts(machines, EACH, "name"), "machine"))
        groups = {word for _, word in texts(machines, EACH, "groups", EACH)}
        missing = [group for group in GROUPS if group not in groups]
        if missing and groups <= set(GROUPS):  # another word is a mistake of its own
            yield at[:-1], f"no machine is in the group {' or '.join(missing)}; every cluster needs all of them"


def _scenarios(content: Any, known: Declared, products: Collection[Document]) -> Iterator[Finding]:
    others = (phase for product in products for phase in phases.phases_in(product.content))
    yield from phases.of_scenarios(content, (*known.phases, *others) if known.phases is not None else None)
    for at, steps in find(content, "scenarios", EACH, "phases", EACH, "values", EACH):
        axis = str(at[-1])
        if axis in LASTING:
            yield at, f"{axis} cannot change during a cell's life; use another axis"
        elif known.axes is not None and axis not in known.axes:
            yield at, unknown("axis", axis, known.axes)
        elif known.axes is not None:
            words = [steps] if isinstance(steps, str) else [word for _, word in texts(steps, EACH)]
            here = dict.fromkeys((*known.axes[axis].words, *feasibility.words_of(str(at[1]), axis)))
            for word in words:
                yield from _known(at, f"word of `before` on axis {axis}", word, here)
    yield from broken(content)


def _constraints(document: Document, known: Declared) -> Iterator[Finding]:
    """Find unknown words; one that ships may allow what ships, though the project's axes do not have it any more."""
    ours = packaged_dir() / MATRIX / "constraints.yml"
    yield from _twice(texts(document.content, "constraints", EACH, "id"), "id")
    for part in ("if", "then"):
        for at, condition_text in find(document.content, "constraints", EACH, part, EACH):
            shipped = part == "then" and document.place_of(at)[0] == ours
            yield from _condition(at, condition_text, known, gone=feasibility.ships if shipped else _none)


def _none(_axis: str, _word: str) -> bool:
    return False


def _condition(at: Location, content: Any, known: Declared, gone: Callable[[str, str], bool]) -> Iterator[Finding]:
    """Find an axis (the location's end) or words of a condition that are not declared, nor `gone` (of which axis)."""
    if known.axes is None:
        return
    axis = str(at[-1])
    if axis not in known.axes:
        yield at, unknown("axis", axis, known.axes)
        return
    parsed = condition(content)
    for what, word, words in known.axes[axis].unknown_in(parsed) if parsed is not None else ():
        if not gone(axis, word):
            yield at, unknown(f"{what} of axis {axis}", word, words)


def _tiers(content: Any, known: Declared, suites: tuple[str, ...]) -> Iterator[Finding]:
    for at, condition_text in find(content, "tiers", EACH, "where", EACH):
        yield from _condition(at, condition_text, known, _none)
    for at, word in texts(content, "tiers", EACH, "suites", EACH):
        yield from _known(at, KIND, word, suites)
    if known.axes is None:
        return
    for at, word in texts(content, "tiers", EACH, "cover", "together", EACH, "axes", EACH):
        yield from _known(at, "axis", word, known.axes)
    for at, strength in find(content, "tiers", EACH, "cover", "strength"):
        if isinstance(strength, int) and strength > len(known.axes):
            yield at, f"strength {strength} is more than the number of axes ({len(known.axes)})"
    for at, cell in find(content, "tiers", EACH, "pinned", EACH):
        yield from below(at, _pinned(cell, known.axes, known.removed))


def _value_known(
    at: Location, axis: str, word: str, values: Collection[str], removed: Mapping[tuple[str, str], str]
) -> Iterator[Finding]:
    """Find a value that an axis does not have, or that the project has removed from it."""
    place = removed.get((axis, word))
    if place is not None and word not in values:
        yield at, f"{word!r} is removed from axis {axis} in {place}; remove it here, too, or keep the value there"
    else:
        yield from _known(at, f"value of axis {axis}", word, values)


def _pinned(cell: Any, axes: Mapping[str, DeclaredAxis], removed: Mapping[tuple[str, str], str]) -> Iterator[Finding]:
    for at, value in texts(cell, EACH):
        axis = str(at[-1])
        yield from _known(at, "axis", axis, axes)
        if axis in axes:
            yield from _value_known(at, axis, value, axes[axis].values, removed)
    needed = [axis for axis, known in axes.items() if known.default is None and len(known.values) != 1]
    missing = [axis for axis in needed if isinstance(cell, Mapping) and axis not in cell]
    if missing:
        remedy = "a pinned cell has one on every axis that has several and no default"
        yield (), f"missing values for {', '.join(missing)}; {remedy}"


def _quarantine(content: Any, known: Declared, project: Path, suites: tuple[str, ...]) -> Iterator[Finding]:
    for at, condition_text in find(content, "quarantine", EACH, "where", EACH):
        yield from _condition(at, condition_text, known, _none)
    entries: set[tuple[str | None, str | None, str]] = set()
    for at, entry in find(content, "quarantine", EACH):
        pair = (field(entry, "cell"), field(entry, "check"))
        where = str(entry.get("where", "")) if isinstance(entry, Mapping) else ""
        if (*pair, where) in entries and (pair[0] is not None or where):
            of = repr(pair[0]) if pair[0] is not None else where
            yield at, f"duplicate entry for {of}{f' and {pair[1]!r}' if pair[1] else ''}; remove one"
        entries.add((*pair, where))
        suite = (pair[1] or "").partition(":")[0]
        if suite and not any(fnmatchcase(known, suite) for known in suites):
            yield (*at, "check"), unknown(KIND, suite, suites)
        elif pair[1] and not fits_any(project, pair[1]):
            yield (*at, "check"), f"{pair[1]!r} matches no check; `vmatrix explain CELL --full` lists their files"


def _waivers(content: Any) -> Iterator[Finding]:
    named = list(texts(content, "waivers", EACH, "control"))
    yield from _twice(iter(named), "control")
    for at, number in named:
        yield from _known(at, "control of the CIS Kubernetes Benchmark", number, controls())
