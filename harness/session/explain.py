"""Everything that is known of a cell before it exists: what it will be, and why it is planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.cell.manifests import CellPlan, Outside, render_all
from harness.cell.product.kinds import kind_of
from harness.cell.variables import named_machines
from harness.errors import BadInput
from harness.infra.guest_facts import guest_vars
from harness.machines import inventory
from harness.machines.kubevirt.manifests import GoldenImage
from harness.model import Cell, Environment, Machine, Phase
from harness.paths import project_dir
from harness.plan.goal import goal_of
from harness.plan.lock import Lock, load_lock, runnable
from harness.plan.select import Selected
from harness.plan.tiers import tier_cells
from harness.plan.verify import Combination, had, wanted_by_kind
from harness.rundir import AttemptDir
from harness.schedule.durations import Durations
from harness.schedule.placement import demand_of
from harness.schedule.sizes import Sizes
from harness.spec import Spec, lines
from harness.spec.models import AxisValue, Product
from harness.spec.product_files import located
from harness.spec.project import matrix_dir, templates_dir
from harness.spec.suites import suites_of
from harness.spec.variables import GIVEN_BY_THE_RUN, variable_places


@dataclass(frozen=True)
class Why:
    """Why a cell is in a tier.

    pinned: it is in whatever it covers.  only: combinations that no other cell of the tier has.
    first: those that no cell before it has; `only` is a part of them. Both empty where nothing is planned.
    """

    tier: str
    pinned: bool
    only: tuple[Combination, ...]
    first: tuple[Combination, ...]


def why(spec: Spec, tier: str, infra: str, cell_id: str, lock: Lock | None = None) -> Why:
    """Return why a cell is in a tier on an infra profile; BadInput when it is not, or as `tier_cells`."""
    cells = tier_cells(spec, tier, infra, lock)
    number = next((n for n, cell in enumerate(cells) if cell.id == cell_id), None)
    if number is None:
        raise BadInput(
            f"tier {tier} has no cell {cell_id!r} on {infra}", hint=f"`vmatrix list --tier {tier}` shows its cells"
        )
    pinned = dict(cells[number].values) in runnable(spec, tier, infra)
    if spec.tiers[tier].cover is None:
        return Why(tier, pinned, (), ())
    goal = goal_of(spec, tier, infra)
    combinations_wanted = dict.fromkeys(c for _, combinations in wanted_by_kind(goal) for c in combinations)
    has = [tuple(had(goal, cell.values, combinations_wanted)) for cell in cells]
    times = Counter(combination for of_cell in has for combination in of_cell)
    before = {combination for of_cell in has[:number] for combination in of_cell}
    return Why(
        tier=tier,
        pinned=pinned,
        only=tuple(c for c in has[number] if times[c] == 1),
        first=tuple(c for c in has[number] if c not in before),
    )


SHOWN = 10  # combinations that a cell alone covers; the others are counted
SSH_PORT = 22
COMPUTED = "{{"  # in a default that follows from other variables


def explained(spec: Spec, infra: str, selected: Selected, durations: Durations, sizes: Sizes) -> dict[str, Any]:
    """Return everything that is known of a cell before it exists, as plain data."""
    cell = selected.cell
    size = sizes.expected(cell)
    expected = durations.expected(cell)
    environment = placeholders(cell)
    return {
        "cell": cell.id,
        "infra": infra,
        "tiers": dict(_reasons(spec, infra, selected)),
        "values": dict(cell.values),
        "expected": {
            "minutes": round(expected.seconds / 60, 1),
            "from": expected.source,
            "asks for": str(demand_of(cell, asked=size.machines)),
            "memory from": size.source,
        },
        "quarantine": [
            {
                "check": entry.check or "every step and check",
                "issue": entry.issue,
                "reason": entry.reason,
                "until": entry.until.isoformat(),
            }
            for entry in spec.quarantine
            if fnmatchcase(cell.id, entry.cell)
        ],
        "machines": [
            {
                "name": m.name,
                "groups": list(m.groups),
                "cpus": m.cpus,
                "memory": f"{m.memory_mib}Mi",
                "disk": f"{m.disk_gib}Gi",
                "image": m.image,
            }
            for m in cell.machines
        ],
        "phases": [_phase(spec, cell, index, environment) for index in range(len(cell.phases))],
        "checks": {tier: _checks(spec, tier) for tier in selected.tiers},
        "variables": dict(cell.vars),
        "variables from": _sources(spec, cell),
        "inventory": inventory.inventory(environment, spec.product_of(cell.values)),
        "manifests": example_manifests(cell),
    }


def _sources(spec: Spec, cell: Cell) -> dict[str, str]:
    """Return where each variable comes from that the product may use: the matrix, the playbooks' defaults, a run.

    Defaults that are computed from other variables are left out.
    """
    product, project = spec.product_of(cell.values), project_dir()
    beside = next((value.product for value in _chosen(spec, cell) if value.product), "") or ""
    places = {name: str(place) for name, place in variable_places(matrix_dir(), cell.values, beside).items()}
    for ours, theirs in product.variables.items():
        places.setdefault(theirs, f"{ours}, which product.yml calls so")
        places.setdefault(ours, f"{theirs}, which vmatrix calls so")
    places_found = {name: places[name] for name in cell.vars}
    for name in guest_vars():
        places_found.setdefault(name, "the infra cluster (docs/guests.md)")
    for file in sorted((project / located(product, project).directory / "group_vars" / "all").glob("*.yml")):
        document, _ = lines.read(file)
        for name, value in document.content.items() if isinstance(document.content, Mapping) else ():
            if not (isinstance(value, str) and COMPUTED in value):
                places_found.setdefault(name, f"{file}:{document.line_of((name,))}")
    by_run = {name: f"a run: {source}" for name, source in GIVEN_BY_THE_RUN.items()}
    return dict(
        sorted((places_found | {name: source for name, source in by_run.items() if name not in places}).items())
    )


def _chosen(spec: Spec, cell: Cell) -> Iterator[AxisValue]:
    return (axis.value(cell.values[axis.name]) for axis in spec.axes)


def placeholders(cell: Cell) -> Environment:
    """Return the cell's machines as a run would have them, with words for what only a run knows."""
    directory = Path("runs") / "RUN" / cell.id
    return Environment(
        run="RUN",
        cell=cell,
        attempt=1,
        namespace=f"vmatrix-{cell.id}-RUN-1",
        machines=tuple(Machine(m, f"ADDRESS-OF-{m.name}", SSH_PORT, "USER") for m in cell.machines),
        directory=directory,
        private_key=AttemptDir(directory).key,
    )


def example_manifests(cell: Cell) -> list[dict[str, Any]]:
    """Return the manifests of a cell with placeholders for what only a run knows."""
    plan = CellPlan(
        namespace=f"vmatrix-{cell.id}-RUN-1",
        labels={"vmatrix.dev/cell": cell.id},
        expires_at=0.0,
        public_key="ssh-ed25519 PUBLIC-KEY-OF-THE-CELL",
        dns_domain=str(cell.vars.get("cluster_dns_domain", "cluster.local")),
        storage_class=None,
    )
    image = GoldenImage(
        name=f"{cell.machines[0].image}-CHECKSUM",
        url="http://MIRROR/images/IMAGE.qcow2",
        checksum="sha256:CHECKSUM",
        size="10Gi",
        user="USER",
    )
    mirror = {"to": [{"ipBlock": {"cidr": "ADDRESS-OF-THE-MIRROR/32"}}], "ports": [{"protocol": "TCP", "port": "PORT"}]}
    outside = Outside(ways_out=(mirror,))
    return render_all(plan, cell.machines, image, directory=templates_dir(), outside=outside)


def _reasons(spec: Spec, infra: str, selected: Selected) -> Iterator[tuple[str, Any]]:
    """Yield, by tier, why the cell is in it."""
    lock = load_lock(matrix_dir())
    for tier in selected.tiers:
        reasons = why(spec, tier, infra, selected.cell.id, lock)
        reason: dict[str, Any] = {"pinned": reasons.pinned}
        for word, combinations in (("only it has", reasons.only), ("it has first", reasons.first)):
            shown = [str(combination) for combination in combinations[:SHOWN]]
            more = len(combinations) - len(shown)
            if shown:
                reason[word] = [*shown, *([f"and {more} more"] if more else [])]
        yield tier, reason


def _phase(spec: Spec, cell: Cell, index: int, environment: Environment) -> dict[str, Any]:
    phase: Phase = cell.phases[index]
    return {
        "phase": cell.stage(index),
        **(_restart(phase) if phase.restart else _command(spec.product_of(cell.values), phase, environment)),
        "machines": list(phase.machines),
        **({"loses": list(phase.lost)} if phase.lost else {}),
        **({"removes": list(phase.removed)} if phase.removed else {}),
        **({"workload": phase.workload} if phase.workload else {}),
        **({"delivery": phase.delivery} if phase.delivery else {}),
        **({"data": f"as when {cell.stage(phase.data_of)} began"} if phase.data_of is not None else {}),
        **({"values": values} if (values := _others(phase.values, cell.values)) else {}),
        **({"variables": variables} if (variables := _others(phase.vars, cell.vars) | named_machines(phase)) else {}),
        **({"through": [_others(between, phase.vars) for between in phase.between]} if phase.between else {}),
        "then": phase.then,
        "checked": phase.cluster,
    }


def _restart(phase: Phase) -> dict[str, Any]:
    return {"restarts": list(phase.restarts), "how": phase.restart}


def _command(product: Product, phase: Phase, environment: Environment) -> dict[str, Any]:
    program = product.phases[phase.name].program
    return {
        **({"program": str(Path(product.directory) / program)} if program is not None else {}),
        "command": kind_of(product, Path()).command(phase.name, environment),
    }


def _others(during: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is another during a phase than for the cell as a whole."""
    return {name: value for name, value in during.items() if name not in usual or usual[name] != value}


def _checks(spec: Spec, tier: str) -> dict[str, list[str]]:
    """Return the files of each suite of a tier."""
    known = suites_of(project_dir())
    return {
        name: [str(file.relative_to(known[name].folder)) for file in known[name].files]
        for name in spec.tiers[tier].suites
    }
