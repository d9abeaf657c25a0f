"""Small goals, drawn at random, with brute force beside them; and a small matrix in a directory of its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path
from typing import get_args

from hypothesis import strategies as st

from harness.plan.build import TierPlan, plan_tier
from harness.plan.goal import Goal, LeftOut, LeftOutBy
from harness.plan.lock import Lock
from harness.spec import Spec
from harness.spec.models import Cover, Together
from harness.spec.rules import Rule

Cell = dict[str, str]
Tuple = tuple[tuple[str, str], ...]

PROJECT = Path(__file__).parents[3]

MATRIX = {
    "axes.yml": """\
axes:
  - name: kubernetes
    label: Kubernetes
    values:
      - {id: "1.34", slug: k34, label: Kubernetes 1.34, class: "1.34"}
      - {id: "1.35", slug: k35, label: Kubernetes 1.35, class: "1.35", before: {minor: "1.34"}}
  - name: os
    label: Operating system
    values:
      - {id: debian-12, slug: d12, label: Debian 12, class: debian, image: debian-12}
      - {id: debian-13, slug: d13, label: Debian 13, class: debian, image: debian-13}
      - {id: cloud, slug: c13, label: cloud, class: cloud, image: debian-13-genericcloud, needs: [internet]}
  - name: topology
    label: Topology
    values:
      - {id: one, slug: t1, label: one machine, class: one}
      - {id: two, slug: t2, label: two machines, class: two}
      - {id: three, slug: t3, label: three machines, class: three}
  - name: scenario
    label: Scenario
    values:
      - {id: fresh, slug: fr, label: deployed once, class: fresh}
      - {id: upgrade, slug: up, label: upgraded, class: upgrade}
""",
    "topologies.yml": """\
topologies:
  one:
    machines:
      - {name: cp, count: 1, groups: [control_plane, etcd, node], cpus: 2, memory: 2Gi, disk: 12Gi}
  two:
    machines:
      - {name: cp, count: 1, groups: [control_plane, etcd], cpus: 2, memory: 2Gi, disk: 12Gi}
      - {name: w, count: 1, groups: [node], cpus: 2, memory: 2Gi, disk: 12Gi}
  three:
    machines:
      - {name: cp, count: 1, groups: [control_plane, etcd], cpus: 2, memory: 2Gi, disk: 12Gi}
      - {name: w, count: 2, groups: [node], cpus: 2, memory: 2Gi, disk: 12Gi}
""",
    "scenarios.yml": """\
scenarios:
  fresh:
    label: deploy once
    phases:
      - {phase: deploy, then: it works}
  upgrade:
    label: deploy, then upgrade
    phases:
      - {phase: deploy, then: it works, values: {kubernetes: minor}}
      - {phase: upgrade, then: it works}
""",
    "constraints.yml": """\
constraints:
  - if: {os: debian-12}
    then: {topology: {not: three}}
    why: three machines are too many for Debian 12
""",
    "infras.yml": """\
infras:
  embedded: {label: the embedded infrastructure, provider: embedded, offers: []}
  kubevirt: {label: a KubeVirt cluster, provider: kubeconfig, offers: [internet]}
""",
    "tiers.yml": """\
tiers:
  smoke:
    label: one cell
    pinned:
      - {kubernetes: "1.35", os: debian-13, topology: one, scenario: fresh}
      - {kubernetes: "1.35", os: cloud, topology: one, scenario: fresh}
    suites: [nodes]
    budget: {cells: 2, machines: 2, minutes: 10}
  nightly:
    label: all pairs
    pinned:
      - {kubernetes: "1.35", os: debian-13, topology: two, scenario: fresh}
    cover: {strength: 2}
    suites: [nodes]
    budget: {cells: 20, machines: 3, minutes: 60}
  little:
    label: every value, no upgrade
    cover: {strength: 1}
    where: {scenario: fresh}
    suites: [nodes]
    budget: {cells: 5, machines: 3, minutes: 60}
""",
    "quarantine.yml": "quarantine: []\n",
    "product.yml": """\
product:
  name: a product
  directory: playbooks
  artifacts: {}
  phases:
    deploy: {playbook: cluster.yml}
    upgrade: {playbook: cluster.yml}
  vars: {cluster_kubernetes_version: "1"}
""",
}


def lay_matrix(project: Path) -> Path:
    """Write the small matrix into a project directory and return its matrix/."""
    directory = project / "matrix"
    directory.mkdir()
    for name in ("timeouts.yml", "images.yml"):
        shutil.copy(PROJECT / "matrix" / name, directory / name)
    for name, text in MATRIX.items():
        (directory / name).write_text(text, encoding="utf-8")
    (project / "playbooks").mkdir()
    (project / "playbooks" / "cluster.yml").write_text("- hosts: all  # cluster_kubeconfig_path\n", encoding="utf-8")
    return directory


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    """Draw a goal of at most four axes with at most four values, a few rules and values left out."""
    axes = {f"a{n}": [f"v{n}{m}" for m in range(draw(st.integers(1, 4)))] for n in range(draw(st.integers(1, 4)))}
    classes = {a: {v: f"c{draw(st.integers(0, 2))}" for v in values} for a, values in axes.items()}
    left_out = tuple(
        LeftOut(a, v, f"out {v}", draw(st.sampled_from(get_args(LeftOutBy))))
        for a, values in axes.items()
        for v in values[1:]
        if draw(st.integers(0, 5)) == 0
    )
    gone = {(out.axis, out.value) for out in left_out}
    strength = draw(st.integers(1, 3))
    group = draw(st.lists(st.sampled_from(sorted(axes)), max_size=4, unique=True))
    return Goal(
        values={a: tuple(v for v in values if (a, v) not in gone) for a, values in axes.items()},
        classes=classes,
        rules=tuple(_rule(draw, axes, f"rule {n}") for n in range(draw(st.integers(0, 5)))),
        cover=Cover(
            strength=strength,
            each_value=draw(st.booleans()),
            together=(Together(axes=tuple(group), strength=strength + 1),) if len(group) > strength else (),
        ),
        left_out=left_out,
    )


def _rule(draw: st.DrawFn, axes: Mapping[str, list[str]], why: str) -> Rule:
    def condition(most: int) -> dict[str, frozenset[str]]:
        chosen = draw(st.lists(st.sampled_from(sorted(axes)), min_size=1, max_size=most, unique=True))
        return {a: frozenset(draw(st.sets(st.sampled_from(axes[a])))) for a in chosen}

    return Rule(condition(2), condition(2), why)


def obeys(cell: Mapping[str, str], rule: Rule) -> bool:
    """Tell whether a cell obeys a rule, said anew."""
    if not all(cell[a] in inside for a, inside in rule.when.items()):
        return True
    return all(cell[a] in inside for a, inside in rule.then.items())


def every_cell(goal: Goal, rules: tuple[Rule, ...] | None = None, *, left_out: bool = False) -> list[Cell]:
    """Return every cell that there is, by trying all; with `left_out` those with values left out, too."""
    values = {a: tuple(of) for a, of in goal.classes.items()} if left_out else goal.values
    cells = [dict(zip(values, chosen, strict=True)) for chosen in product(*values.values())]
    return [cell for cell in cells if all(obeys(cell, rule) for rule in (goal.rules if rules is None else rules))]


def has(goal: Goal, cell: Cell) -> set[Tuple]:
    """Return the combinations of a goal that a cell has; a value by itself with its axis twice."""
    classes = {a: goal.classes[a][v] for a, v in cell.items()}
    sizes = [(tuple(classes), min(goal.cover.strength, len(classes)))]
    for together in goal.cover.together:
        axes = tuple(a for a in classes if a in together.axes)
        sizes.append((axes, min(together.strength, len(axes))))
    found: set[Tuple] = {
        tuple((a, classes[a]) for a in chosen) for axes, size in sizes for chosen in combinations(axes, size)
    }
    if goal.cover.each_value:
        found |= {((a, v), (a, v)) for a, v in cell.items()}
    return found


def plan_all(spec: Spec, lock: Lock | None = None, *, repack: bool = False) -> tuple[TierPlan, ...]:
    """Plan every tier on every infra profile."""
    return tuple(plan_tier(spec, tier, infra, lock, repack=repack) for infra in spec.infras for tier in spec.tiers)
