"""Host routes and the add-ons on machines: they serve, a second run changes nothing, a reset leaves nothing."""

from __future__ import annotations

import json

from harness import paths
from harness.artifacts import refs
from harness.artifacts.serving import Supply
from harness.artifacts.store import Store
from harness.kube.client import Cluster
from harness.kube.resources import STORAGE_CLASS
from harness.model import Mirror
from harness.plan import make_cell
from harness.spec import load_spec
from harness.until import Deadline, NotYet, until
from harness.validate.phases.leftovers import differences
from harness.validate.topics.addons import NODE_METRICS
from tests.embedded.playbooks.conftest import Bench, cell_of

SECONDS = 180.0


def test_host_routes_and_add_ons_serve_are_left_alone_and_taken_away(bench: Bench, mirror: Mirror) -> None:
    values = {**cell_of("cp1-w1").values, "network": "routes", "addons": "all"}
    cell = make_cell(load_spec(paths.project_dir() / "matrix"), values)
    store = Store()
    Supply(str(cell.vars["cluster_kubernetes_version"]), refs.add_ons(store.catalogue), store).publish(mirror.registry)
    machines = range(len(cell.machines))
    names = {planned.name for planned in cell.machines}
    bench.boot(cell)
    before = [bench.state(machine) for machine in machines]
    bench.play()

    api = Cluster.from_kubeconfig(bench.kubeconfig)

    def measured() -> bool | NotYet:
        seen = {item["metadata"]["name"] for item in api.list(NODE_METRICS).items}
        return True if seen == names else NotYet(f"only {sorted(seen)}")

    until(measured, deadline=Deadline.after(SECONDS), what="metrics-server has measured every node")
    assert [item["metadata"]["name"] for item in api.list(STORAGE_CLASS).items] == ["local-path"]
    for machine in machines:
        routes = json.loads(bench.on(machine, "ip -json route show proto 250").stdout)
        assert len(routes) == len(names) - 1

    assert {host.changed for host in bench.play()} == {0}
    assert {host.changed for host in bench.play("--check")} == {0}

    bench.play(entry="reset")
    assert [differences(before[machine], bench.state(machine)) for machine in machines] == [[]] * len(before)
