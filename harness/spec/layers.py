"""The files of a project over those that ship with vmatrix.

A file of the project replaces the packaged one of the same name. With the line `extends: default` it amends it:
mappings merge by key. Lists whose entries have names merge by name, new entries come last. Everything else is
replaced. A key set to null is removed, as is a named entry with `remove: true`. Every value keeps its file and line.

What hangs on a value that a project removes goes along where it is packaged: the values' `before`, constraints, pinned
cells and conditions of tiers. Where that cannot be, and in the project's own files, it is a mistake, with the remedy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from harness.paths import MATRIX, packaged_dir, product_file, project_dir
from harness.spec import lines
from harness.spec.declared import EACH, field, find, texts
from harness.spec.lines import Document, Location, Problem, dotted
from harness.spec.models.axes import PRODUCT
from harness.spec.shape import shown, unknown
from harness.system import lexists

EXTENDS, DEFAULT, REMOVE = "extends", "default", "remove"
WHY = "why"  # of a constraint: its reason, which may stand for its id
NAMES = ("name", "id")  # what the entries of a list are known by, the first that all of them have
ALTERNATIVES = ("not", "class", "not_class")  # a condition is one of these alone: another one replaces it
KIND = "kind"  # of an image's source: another kind has other keys, so it replaces the whole
Pair = tuple[Any, Any]
T = TypeVar("T")


def amended(base: Document, top: Document) -> tuple[Document, list[Problem]]:
    """Return a document with the changes that another one makes to it, and what is wrong with these."""
    merge = _Merge(base, top)
    changes = {key: value for key, value in top.content.items() if key != EXTENDS}
    content = merge.value((base.content, changes), ((), (), ()))
    return Document(top.file, content, merge.lines, merge.files, merge.written), merge.problems


def amended_data(base: Any, top: Mapping[str, Any], file: Path) -> tuple[Any, list[Problem]]:
    """Return plain data with the changes that other data makes to it; `file` is what the problems name."""
    made, problems = amended(Document(file, base, {}), Document(file, top, {}))
    return made.content, problems


@dataclass
class _Merge:
    """Two documents becoming one; locations come as three: in the result, in the base, in the changes."""

    base: Document
    top: Document
    lines: dict[Location, int] = dataclasses.field(default_factory=dict)
    files: dict[Location, Path] = dataclasses.field(default_factory=dict)
    written: dict[Location, str] = dataclasses.field(default_factory=dict)
    problems: list[Problem] = dataclasses.field(default_factory=list)

    def value(self, pair: Pair, at: tuple[Location, Location, Location]) -> Any:
        """Return a value of the base with what the changes say of it."""
        old, new = pair
        here, _, above = at
        if isinstance(old, Mapping) and isinstance(new, Mapping) and not _another(old, new):
            self._place(self.top, here, above)
            return self._mapping(old, new, at)
        key = _named_by(old)
        if key is not None and isinstance(new, list) and new:
            self._place(self.top, here, above)
            return self._entries(old, new, key, at)
        return self._copy(self.top, new, here, above)

    def _mapping(
        self, old: Mapping[str, Any], new: Mapping[str, Any], at: tuple[Location, Location, Location]
    ) -> dict[str, Any]:
        here, below, above = at
        made: dict[str, Any] = {}
        for key in dict.fromkeys([*old, *new]):
            places = (*here, key), (*below, key), (*above, key)
            if key not in new:
                made[key] = self._copy(self.base, old[key], places[0], places[1])
            elif new[key] is None:
                self._removed(key, old, places[2])
            elif key not in old:
                made[key] = self._copy(self.top, new[key], places[0], places[2])
            else:
                made[key] = self.value((old[key], new[key]), places)
        return made

    def _entries(
        self,
        old: Sequence[Mapping[str, Any]],
        new: Sequence[Any],
        key: str,
        at: tuple[Location, Location, Location],
    ) -> list[Any]:
        here, below, above = at
        known = {entry[key]: entry for entry in old}
        changes = dict(self._changes(new, key, above, {str(entry.get(WHY)): name for name, entry in known.items()}))
        made: list[Any] = []
        for number, (name, entry) in enumerate(known.items()):
            place = (*here, len(made))
            if name not in changes:
                made.append(self._copy(self.base, entry, place, (*below, number)))
                continue
            position, change = changes.pop(name)
            if change.get(REMOVE) is not True:
                made.append(self.value((entry, change), (place, (*below, number), (*above, position))))
        for name, (position, change) in changes.items():
            if REMOVE in change:
                self._removed(name, known, (*above, position))
            else:
                made.append(self._copy(self.top, change, (*here, len(made)), (*above, position)))
        return made

    def _changes(
        self, new: Sequence[Any], key: str, above: Location, reasons: Mapping[str, str]
    ) -> Iterator[tuple[str, tuple[int, Mapping[str, Any]]]]:
        """Yield each entry of the changes by its name; one without a name is a mistake, as is one that comes twice.

        Args:
            reasons: names by the entries' `why`, by which files of older projects know constraints.
        """
        names: set[str] = set()
        for position, change in enumerate(new):
            why = change.get(WHY) if isinstance(change, Mapping) else None
            if not isinstance(change, Mapping) or (change.get(key) is None and why is None):
                self._report((*above, position), f"has no `{key}`, by which the entries of this list are known; add it")
                continue
            given = self.top.written.get((*above, position, key), change.get(key))
            name = str(given if given is not None else reasons.get(str(why), why))
            if name in names:
                self._report((*above, position), f"changes {key} {name!r} a second time; put both changes in one entry")
            if REMOVE in change and change[REMOVE] is not True:
                self._report((*above, position, REMOVE), f"expected true, got {shown(change[REMOVE])}")
            names.add(name)
            yield name, (position, change)

    def _removed(self, name: str, known: Mapping[str, Any], above: Location) -> None:
        if name not in known:
            self._report(above, f"removes what the default does not have: {unknown('name', name, known)}")

    def _report(self, above: Location, message: str) -> None:
        self.problems.append(Problem(self.top.file, self.top.line_of(above), dotted(above), message))

    def _place(self, document: Document, here: Location, there: Location) -> None:
        if there in document.lines:
            self.lines[here] = document.lines[there]
            self.files[here] = document.files.get(there, document.file)

    def _copy(self, document: Document, content: Any, here: Location, there: Location) -> Any:
        """Return a value of one of the documents as it is, its places taken over."""
        self._place(document, here, there)
        if isinstance(content, Mapping):
            return {key: self._copy(document, inner, (*here, key), (*there, key)) for key, inner in content.items()}
        if isinstance(content, list):
            return [self._copy(document, item, (*here, i), (*there, i)) for i, item in enumerate(content)]
        if there in document.written:
            self.written[here] = document.written[there]
        return content


def _another(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Tell whether a mapping stands for another thing than the one it amends, so that no key of that one stays."""
    if any(len(mapping) == 1 and next(iter(mapping)) in ALTERNATIVES for mapping in (old, new)):
        return True
    return KIND in old and KIND in new and old[KIND] != new[KIND]


def _named_by(old: Any) -> str | None:
    """Return the key by which the entries of a list are known, None where it is not such a list."""
    if not isinstance(old, list) or not old or not all(isinstance(entry, Mapping) for entry in old):
        return None
    return next((key for key in NAMES if all(isinstance(entry.get(key), str) for entry in old)), None)


@dataclass(frozen=True)
class RemovedValues:
    """What a project removed of the packaged axes: ids of values and classes that none has any more, by axis.

    left: ids of the values that are left, by axis.
    """

    ids: Mapping[str, frozenset[str]]
    classes: Mapping[str, frozenset[str]]
    left: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, packaged: Any, axes: Document) -> RemovedValues:
        """Compare the packaged axes with those that count."""
        before, after = _values(packaged), _values(axes.content)
        own = {axis: values for axis, values in before.items() if axis in after}
        return cls(
            {axis: frozenset(values) - frozenset(after[axis]) for axis, values in own.items()},
            {axis: frozenset(values.values()) - frozenset(after[axis].values()) for axis, values in own.items()},
            {axis: frozenset(after[axis]) for axis in own},
        )

    def __bool__(self) -> bool:
        """Tell whether there are any."""
        return any(self.ids.values())


def removals(file: Path) -> dict[tuple[str, str], str]:
    """Return where a project's file of axes removes values: FILE:LINE by axis and id."""
    own, _ = lines.read(file)
    return {
        (str(axis.get("name")), str(value.get("id"))): f"{file}:{own.line_of((*at, *inside))}"
        for at, axis in find(own.content, "axes", EACH)
        if isinstance(axis, Mapping)
        for inside, value in find(axis, "values", EACH)
        if isinstance(value, Mapping) and REMOVE in value
    }


def _values(axes: Any) -> dict[str, dict[str, str]]:
    """Return the class of each value by axis and id."""
    return {
        str(axis.get("name")): {
            str(value.get("id")): str(value.get("class", ""))
            for _, value in find(axis, "values", EACH)
            if isinstance(value, Mapping)
        }
        for _, axis in find(axes, "axes", EACH)
        if isinstance(axis, Mapping)
    }


GONE = object()  # what a condition comes to that names removed values alone


def without_removed(documents: Mapping[str, Document]) -> dict[str, Document]:
    """Return the files of a matrix without what its packaged parts say of values that the project has removed."""
    axes = documents["axes.yml"]
    packaged, problems = lines.read(packaged_dir() / MATRIX / "axes.yml")
    removed = RemovedValues.of(packaged.content, axes) if not problems and axes.content is not None else None
    if not removed:
        return dict(documents)
    return {
        **documents,
        "axes.yml": _change_packaged(
            axes, ("axes", EACH, "values", EACH), lambda at, value: _before(axes, at, value, removed)
        ),
        "constraints.yml": _change_packaged(
            documents["constraints.yml"], ("constraints", EACH), lambda _, rule: _constraint(rule, removed)
        ),
        "tiers.yml": _change_packaged(
            _change_packaged(
                documents["tiers.yml"], ("tiers", EACH, "pinned", EACH), lambda _, cell: _pinned(cell, removed)
            ),
            ("tiers", EACH),
            lambda _, tier: _tier(tier, removed),
        ),
    }


def _before(axes: Document, at: Location, value: Any, removed: RemovedValues) -> Any:
    """Return a value of an axis without the words of `before` that name removed ones."""
    axis = str(axes.content["axes"][at[1]].get("name"))  # which has the value
    before = value.get("before") if isinstance(value, Mapping) else None
    if not isinstance(before, Mapping):
        return value
    left = {word: name for word, name in before.items() if name not in removed.ids.get(axis, ())}
    return {**{key: inner for key, inner in value.items() if key != "before"}, **({"before": left} if left else {})}


def _constraint(rule: Any, removed: RemovedValues) -> Any:
    """Return a constraint without removed values; GONE when it is about them alone, or nothing is left to demand."""
    if not isinstance(rule, Mapping):
        return rule
    when, never = _conditions(rule.get("if"), removed)
    then, _ = _conditions(rule.get("then"), removed)
    if isinstance(then, Mapping):  # what allows every value that is left demands nothing
        then = {axis: words for axis, words in then.items() if not _allows_all(words, axis, removed)}
    return GONE if never or when == {} or then == {} else {**rule, "if": when, "then": then}


def _allows_all(words_or_word: Any, axis: str, removed: RemovedValues) -> bool:
    """Tell whether a condition holds for every value that is left of an axis which has lost some."""
    words = (
        {words_or_word}
        if isinstance(words_or_word, str)
        else set(words_or_word)
        if isinstance(words_or_word, list)
        else set()
    )
    return bool(removed.ids.get(axis)) and words >= removed.left[axis]


def _pinned(cell: Any, removed: RemovedValues) -> Any:
    """Return a pinned cell; GONE when it has a removed value."""
    pairs = cell.items() if isinstance(cell, Mapping) else ()
    return GONE if any(value in removed.ids.get(axis, ()) for axis, value in pairs) else cell


def _tier(tier: Any, removed: RemovedValues) -> Any:
    """Return a tier that plans no cells of removed values; GONE when it has no other cells."""
    if not isinstance(tier, Mapping):
        return tier
    where, never = _conditions(tier.get("where"), removed)
    planned = {} if never else {key: tier[key] for key in ("cover",) if key in tier}
    if where and not never:
        planned["where"] = where
    left = {key: value for key, value in tier.items() if key not in ("cover", "where")} | planned
    return left if left.get("pinned") or "cover" in left else GONE


def _conditions(conditions: Any, removed: RemovedValues) -> tuple[Any, bool]:
    """Return conditions by axis without removed values, and whether one of them can never hold any more.

    One that names removed values alone is left as it is where it can never hold: what it stands in is about nothing.
    """
    if not isinstance(conditions, Mapping):
        return conditions, False
    made, never = {}, False
    for axis, condition in conditions.items():
        key = next(iter(condition), "") if isinstance(condition, Mapping) and len(condition) == 1 else ""
        words = condition[key] if key else condition
        gone = removed.classes if "class" in key else removed.ids
        left = _left(words, gone.get(axis, frozenset()))
        if left is GONE and key in ("not", "not_class"):
            continue  # it holds for all values that are left
        never = never or left is GONE
        made[axis] = condition if left is GONE else {key: left} if key else left
    return made, never


def _left(words: Any, gone: frozenset[str]) -> Any:
    """Return a word or words without those that are gone; GONE when none is left."""
    if isinstance(words, list):
        left = [word for word in words if word not in gone]
        return left if left or not words else GONE
    return GONE if isinstance(words, str) and words in gone else words


def _change_packaged(document: Document, steps: tuple[Any, ...], change: Callable[[Location, Any], Any]) -> Document:
    """Return a document whose packaged parts at the end of steps are changed, and removed where they come to GONE."""
    content = document.content
    gone: list[Location] = []
    for at, part in list(find(content, *steps)):
        if not is_packaged(document.place_of(at)[0]):
            continue
        made = change(at, part)
        if made is GONE:
            gone.append(at)
        elif made != part:
            content = _with(content, at, made)
    for at in reversed(gone):
        content = _cut(content, at)
    if not gone:
        return replace(document, content=content)
    lines_left, files_left = _shifted(document.lines, gone), _shifted(document.files, gone)
    written_left = _shifted(document.written, gone)
    return replace(document, content=content, lines=lines_left, files=files_left, written=written_left)


def _cut(content: Any, at: Location) -> Any:
    """Return plain data without what lies at a location."""
    if len(at) == 1:
        if isinstance(content, list):
            return [item for number, item in enumerate(content) if number != at[0]]
        return {key: inner for key, inner in content.items() if key != at[0]}
    if isinstance(content, list):
        number = int(at[0])
        return [*content[:number], _cut(content[number], at[1:]), *content[number + 1 :]]
    return {**content, at[0]: _cut(content[at[0]], at[1:])}


def _shifted(places: Mapping[Location, T], gone: Sequence[Location]) -> dict[Location, T]:
    """Return places by location after entries of lists have gone: those behind them have moved up."""
    made: dict[Location, T] = {}
    for at, place in places.items():
        if any(at[: len(removed_place)] == removed_place for removed_place in gone):
            continue
        steps = list(at)
        for removed_place in gone:
            last, depth = removed_place[-1], len(removed_place) - 1
            same = at[:depth] == removed_place[:depth] and len(at) > depth
            if same and isinstance(last, int) and isinstance(at[depth], int) and int(at[depth]) > last:
                steps[depth] = int(steps[depth]) - 1
        made[tuple(steps)] = place
    return made


# The places of paths relative to the project, in the files of matrix/: the product's, and globs of files.
PATHS = {
    "product.yml": (("product", "directory"), ("product", "phases", EACH, "paths", EACH)),
    "axes.yml": (("axes", EACH, "values", EACH, "paths", EACH),),
}
IN_PROJECTS = (MATRIX, "vm-templates")  # folders of which a project may have files of its own under the same name


def read(directory: Path, name: str) -> tuple[Document, list[Problem]]:
    """Read a file of a matrix directory as it counts: the project's own, amended or not, or the packaged one.

    Paths that a packaged file names become absolute: they lie in the package, not in the project.
    """
    own, packaged = own_file(directory, name), packaged_dir() / MATRIX / name
    if not packaged.exists() or own == packaged:
        return lines.read(own)
    if not lexists(own):
        document, problems = lines.read(packaged)
        return _anchored(document, name), problems
    document, problems = lines.read(own)
    if not isinstance(document.content, dict) or EXTENDS not in document.content:
        return document, problems
    if document.content[EXTENDS] != DEFAULT:
        message = (
            f"expected `{DEFAULT}`, got {shown(document.content[EXTENDS])}; remove the key to replace the whole file"
        )
        problems = [*problems, document.problem((EXTENDS,), message)]
    base, broken = lines.read(packaged)
    made, wrong = amended(base, document)
    return _anchored(made, name), [*problems, *broken, *wrong]


def own_file(directory: Path, name: str) -> Path:
    """Return where a matrix directory has its file of a name; the project's product file may be named elsewhere."""
    named = product_file() if name == "product.yml" else None
    if named is not None and same(directory, project_dir() / MATRIX):
        return named
    return packaged_dir() / MATRIX / name if same(directory, packaged_dir() / MATRIX) else directory / name


def is_packaged(file: Path) -> bool:
    """Tell whether a file is one of the matrix that ships with vmatrix."""
    return file.is_relative_to(packaged_dir() / MATRIX)


def same(folder: Path, other: Path) -> bool:
    """Tell whether two paths lead to one folder."""
    return folder.resolve() == other.resolve()


def _anchored(document: Document, name: str) -> Document:
    """Return a document in which the paths that come from the package lead there."""
    content = document.content
    other = name not in PATHS and "/" in name  # a product beside product.yml, whose templates lie in matrix/
    for steps in PATHS["product.yml"] if other else PATHS.get(name, ()):
        for at, path in texts(content, *steps):
            if is_packaged(document.place_of(at)[0]) and (other or not path.startswith(IN_PROJECTS)):
                content = _with(content, at, str(packaged_dir() / path))
    return replace(document, content=content)


def _with(content: Any, at: Location, value: str) -> Any:
    """Return plain data with another value at a location."""
    if not at:
        return value
    if isinstance(content, list):
        number = int(at[0])
        return [*content[:number], _with(content[number], at[1:], value), *content[number + 1 :]]
    return {**content, at[0]: _with(content[at[0]], at[1:], value)}


SHARED = ("groups", "requires", "vars", "variables", "cluster", "checks")  # of product.yml, for what a file leaves out
ALONE = ("sources", "artifacts", "without_effect")  # of a whole run, so that product.yml alone has them


def read_products(directory: Path, documents: Mapping[str, Document]) -> tuple[dict[str, Document], list[Problem]]:
    """Read the products of a matrix directory by the values that name them, and find what is wrong with that.

    Args:
        documents: axes.yml and product.yml, by file name.
    """
    axes, base = documents["axes.yml"], documents["product.yml"]
    products: dict[str, Document] = {}
    problems: list[Problem] = []
    for at, value, name, trouble in _named(axes.content):
        if trouble:
            problems.append(axes.problem((*at, PRODUCT), trouble))
            continue
        file = own_file(directory, name)
        if not lexists(file):
            if not (packaged_dir() / MATRIX / name).exists():
                problems.append(axes.problem((*at, PRODUCT), f"the file {file} does not exist"))
                continue
            if not is_packaged(base.place_of((PRODUCT, "directory"))[0]):
                continue
        document, wrong = read(directory, name)
        problems += wrong
        if document.content is not None:
            problems += _of_all(document)
            products[value], wrong = _over(base, document)
            problems += wrong
    return products, problems


def _named(axes: Any) -> Iterator[tuple[Location, str, str, str]]:
    """Yield where each value is that has a product, its id, the file, and what is wrong with having one."""
    for at, axis in find(axes, "axes", EACH):
        for inner, value in find(axis, "values", EACH):
            name, known = field(value, PRODUCT), field(value, "id") or ""
            if name is None:
                continue
            trouble = f"only values of the axis {PRODUCT} may have one; remove it"
            if field(axis, "name") == PRODUCT:
                is_default = field(axis, "default") == known
                trouble = "the axis' default is what product.yml describes; remove this key" if is_default else ""
            yield (*at, *inner), known, name, trouble


def _of_all(document: Document) -> Iterator[Problem]:
    for key in ALONE:
        for at, _ in find(document.content, PRODUCT, key):
            yield document.problem(at, "belongs to product.yml, for all products of a run; move it there")


def _over(base: Document, document: Document) -> tuple[Document, list[Problem]]:
    """Return a product with what product.yml says where its own file says nothing."""
    product = next((inner for _, inner in find(base.content, PRODUCT) if isinstance(inner, Mapping)), None)
    shared = {key: inner for key, inner in (product or {}).items() if key in SHARED}
    if not isinstance(document.content, Mapping):
        return document, []
    return amended(Document(base.file, {PRODUCT: shared}, base.lines, base.files, base.written), document)
