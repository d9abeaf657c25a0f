"""What no single file can know: references between the files of matrix/, and to the product's playbooks."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from harness.spec.lines import Document, Location, Problem, dotted
from harness.spec.models import Spec

Report = Callable[[str, Location, str], None]


def check(spec: Spec, documents: dict[str, Document], directory: Path, *, today: date | None = None) -> list[Problem]:
    """Return every broken reference, duplicate and end-of-life value."""
    problems: list[Problem] = []

    def report(name: str, location: Location, message: str) -> None:
        document = documents[name]
        problems.append(Problem(document.file, document.line_of(location), dotted(location), message))

    _axes(spec, report, today if today is not None else datetime.now(UTC).date())
    _topologies(spec, report)
    _scenarios(spec, report, directory.parent)
    _tiers(spec, report)
    return problems


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Say that a word is not known, which one is near, and which there are."""
    choices = list(known)
    near = difflib.get_close_matches(word, choices, n=1)
    return f"unknown {what} {word!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(choices)}")


def _axes(spec: Spec, report: Report, today: date) -> None:
    names: set[str] = set()
    for a, axis in enumerate(spec.axes):
        if axis.name in names:
            report("axes.yml", ("axes", a, "name"), f"a second axis named {axis.name!r}; names are unique")
        names.add(axis.name)
        _values(spec, a, report, today)
    for needed in ("topology", "scenario", "os"):
        if needed not in names:
            report("axes.yml", ("axes",), f"the axis {needed!r} is missing; every cell needs it")


def _values(spec: Spec, a: int, report: Report, today: date) -> None:
    ids: set[str] = set()
    slugs: dict[str, str] = {}
    axis = spec.axes[a]
    for v, value in enumerate(axis.values):
        at = ("axes", a, "values", v)
        if value.id in ids:
            report("axes.yml", (*at, "id"), f"a second value {value.id!r} on axis {axis.name}; ids are unique")
        elif value.short in slugs:
            other = slugs[value.short]
            report("axes.yml", (*at, "slug"), f"slug {value.short!r} is already that of {other!r}; slugs are unique")
        ids.add(value.id)
        slugs[value.short] = value.id
        if value.support is not None and value.support.ends < today:
            report("axes.yml", (*at, "support"), f"{value.id} is out of support since {value.support.ends}; remove it")
        for message in _dangling(spec, axis.name, value.id, value.image):
            report("axes.yml", (*at, "id"), message)


def _dangling(spec: Spec, axis: str, value: str, image: str | None) -> Iterator[str]:
    if axis == "topology" and value not in spec.topologies:
        yield unknown("topology (topologies.yml)", value, spec.topologies)
    if axis == "scenario" and value not in spec.scenarios:
        yield unknown("scenario (scenarios.yml)", value, spec.scenarios)
    if axis == "os" and image is None:
        yield "an operating system needs `image`: the name of a disk image in images.yml"


def _topologies(spec: Spec, report: Report) -> None:
    for name, topology in spec.topologies.items():
        seen: set[str] = set()
        groups: set[str] = set()
        for m, machine in enumerate(topology.machines):
            groups.update(machine.groups)
            if machine.name in seen:
                at = ("topologies", name, "machines", m, "name")
                report("topologies.yml", at, f"a second kind of machine named {machine.name!r}; names are unique")
            seen.add(machine.name)
        missing = sorted({"control_plane", "etcd", "node"} - groups)
        if missing:
            report("topologies.yml", ("topologies", name), f"no machine is in the group {' or '.join(missing)}")


def _scenarios(spec: Spec, report: Report, project: Path) -> None:
    for name, phase in spec.product.phases.items():
        playbook = project / spec.product.directory / phase.playbook
        if not playbook.is_file():
            report("product.yml", ("product", "phases", name, "playbook"), f"the playbook {playbook} does not exist")
    for name, scenario in spec.scenarios.items():
        for p, step in enumerate(scenario.phases):
            if step.phase not in spec.product.phases:
                at = ("scenarios", name, "phases", p, "phase")
                report("scenarios.yml", at, unknown("phase of the product", step.phase, spec.product.phases))


def _tiers(spec: Spec, report: Report) -> None:
    known = {axis.name: [value.id for value in axis.values] for axis in spec.axes}
    for name, tier in spec.tiers.items():
        for c, cell in enumerate(tier.pinned):
            at = ("tiers", name, "pinned", c)
            for axis, value in cell.items():
                if axis not in known:
                    report("tiers.yml", (*at, axis), unknown("axis", axis, known))
                elif value not in known[axis]:
                    report("tiers.yml", (*at, axis), unknown(f"value of axis {axis}", value, known[axis]))
            missing = [axis for axis in known if axis not in cell]
            if missing:
                report("tiers.yml", at, f"the cell says nothing about {', '.join(missing)}; name a value on every axis")
            elif cell.get("topology") in spec.topologies:
                machines = sum(m.count for m in spec.topologies[cell["topology"]].machines)
                if machines > tier.budget.machines:
                    message = f"the cell needs {machines} machines, the tier's budget is {tier.budget.machines}"
                    report("tiers.yml", at, message)
