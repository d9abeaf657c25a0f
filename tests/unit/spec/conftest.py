"""A small matrix of its own, so that no test hangs on the values that happen to be shipped."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.spec import load_spec

TODAY = date(2026, 11, 21)
MATRIX = {
    "axes.yml": """\
axes:
  - name: version
    label: Version
    values:
      - {id: v1, label: one, class: "1", vars: {product_version: "1"}}
      - {id: v2, label: two, class: "2", before: {minor: v1}, vars: {product_version: "2"}}
      - id: v3
        label: three
        class: "2"
        before: {minor: v2, patch: v2}
        vars: {product_version: "3"}
        support: {from: 2026-01-01, until: 2027-06-30}
  - name: os
    label: System
    values:
      - {id: deb, label: Debian, class: deb, image: debian}
      - {id: ubu, label: Ubuntu, class: ubu, image: ubuntu, needs: [internet]}
  - name: topology
    label: Topology
    values:
      - {id: one, slug: t1, label: one machine, class: small}
      - {id: two, slug: t2, label: two machines, class: large}
  - name: scenario
    label: Scenario
    values:
      - {id: fresh, label: fresh, class: fresh}
      - {id: upgrade, slug: up, label: upgrade, class: upgrade}
""",
    "topologies.yml": """\
topologies:
  one:
    machines:
      - {name: cp, count: 1, groups: [control_plane, etcd, node], cpus: 2, memory: 2Gi, disk: 10Gi}
  two:
    machines:
      - {name: cp, count: 1, groups: [control_plane, etcd], cpus: 2, memory: 2Gi, disk: 10Gi}
      - {name: w, count: 1, groups: [node], cpus: 2, memory: 1Gi, disk: 10Gi}
""",
    "scenarios.yml": """\
scenarios:
  fresh:
    label: deploy
    phases:
      - {phase: deploy, then: it runs}
  upgrade:
    label: upgrade
    phases:
      - {phase: deploy, then: the old one runs, values: {version: minor}}
      - {phase: upgrade, then: the new one runs}
""",
    "constraints.yml": """\
constraints:
  - if: {os: ubu}
    then: {version: {not: v1}}
    why: v1 does not install on Ubuntu
""",
    "infras.yml": """\
infras:
  here: {label: here, provider: embedded, offers: [host-kernel]}
  there: {label: there, provider: kubeconfig, offers: [internet]}
""",
    "tiers.yml": """\
tiers:
  smoke:
    label: one cell
    pinned:
      - {version: v2, os: deb, topology: two, scenario: fresh}
    suites: [nodes]
    budget: {cells: 1, machines: 2, minutes: 5}
  all:
    label: pairs
    cover: {strength: 2}
    where: {os: {class: [deb, ubu]}}
    suites: [nodes, network]
    budget: {cells: 20, machines: 2, minutes: 20}
""",
    "timeouts.yml": """\
timeouts:
  golden_image: 600
  golden_stall: 120
  clone: 300
  machine_address: 180
  machine_phase: 90
  unschedulable: 60
  ssh: 180
  cloud_init: 300
  phase_deploy: 1800
  phase_later: 2400
  settle: 90
  probe_pods: 90
  probe_follow: 15
  probe_remove: 60
  workload_outage: 120
  api_outage: 600
  metrics: 90
  volume: 120
  conformance: 600
  collect: 120
  teardown: 180
  admission: 7200
  reservation: 90
  job_prepare: 2400
  job_start: 300
  job_end: 120
""",
    "product.yml": """\
product:
  name: the product
  directory: playbooks
  phases:
    deploy: {playbook: cluster.yml}
    upgrade: {playbook: upgrade.yml, paths: [playbooks/roles/upgrade/**]}
  without_effect: [docs/**]
  vars: {cluster_kubernetes_version: "1"}
""",
    "images.yml": """\
images:
  - name: debian
    os: debian
    version: "13"
    source: {kind: build, recipe: debian}
    user: debian
    size_gib: 10
    end_of_life: 2030-06-30
  - name: ubuntu
    os: ubuntu
    version: "24.04"
    source: {kind: url, url: https://example.org/u.img, checksum_url: https://example.org/SUMS}
    user: ubuntu
    size_gib: 10
    end_of_life: 2029-05-31
""",
    "quarantine.yml": """\
quarantine:
  - {cell: "v2-*", check: "network: test_dns*", issue: https://example.org/issues/1, reason: flaky, until: 2026-12-31}
""",
}


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    """A small matrix beside its product and its suites; everything in it is right."""
    write(tmp_path)
    return tmp_path / "matrix"


def write(project: Path) -> None:
    """Write the small matrix, its playbooks and its suites into a project."""
    for name, text in MATRIX.items():
        file = project / "matrix" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for path in ("playbooks/cluster.yml", "playbooks/upgrade.yml"):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text("- hosts: all  # cluster_kubeconfig_path\n", encoding="utf-8")
    for suite in ("nodes", "network"):
        (project / "tests" / "cells" / suite).mkdir(parents=True)
        (project / "tests" / "cells" / suite / "test_it.py").touch()


def edit(file: Path, old: str, new: str) -> int:
    """Replace the first occurrence and return its line."""
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    return text[: text.index(old)].count("\n") + 1


def mistakes(matrix: Path, today: date = TODAY) -> list[str]:
    """Return what is said of a matrix, a line for each mistake, the directory left out; nothing when it loads."""
    try:
        load_spec(matrix, today=today)
    except BadInput as error:
        count, *said = error.summary.splitlines()
        assert error.exit_code == 2  # noqa: PT017 - without an error there is nothing to say
        assert count.startswith(f"{len(said)} error")
        return [line.replace(f"{matrix.parent}/", "").removeprefix("matrix/") for line in said]
    return []
