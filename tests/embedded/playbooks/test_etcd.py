"""A full etcd takes writes again once it is defragmented, and a cluster that is well goes back to a snapshot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.embedded.playbooks.conftest import KUBECTL, PKI, Bench, cell_of
from tests.embedded.playbooks.running import give, provide

QUOTA = 24 << 20
FILL = f"""
head -c 700000 /dev/urandom | base64 -w 0 >/tmp/filling
for number in $(seq 60); do {KUBECTL} create configmap filling-$number --from-file=/tmp/filling 2>&1 || exit 0; done
"""


def ask(bench: Bench, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return what the first machine's etcd answers at its gateway."""
    login = f"--cacert {PKI}/ca.crt --cert {PKI}/healthcheck-client.crt --key {PKI}/healthcheck-client.key"
    done = bench.on(0, f"sudo curl -s {login} -d '{json.dumps(body)}' https://127.0.0.1:2379/v3/{path}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def alarms(bench: Bench) -> list[str]:
    """Return the alarms of etcd."""
    return [one["alarm"] for one in ask(bench, "maintenance/alarm", {"action": "GET"}).get("alarms", [])]


def write(bench: Bench, name: str) -> str:
    """Write an object; return what kubectl says."""
    done = bench.on(0, f"{KUBECTL} create configmap {name} --from-literal=a=b 2>&1")
    return done.stdout.strip()


@pytest.fixture(scope="module")
def full(bench: Bench) -> None:
    """Deploy a cluster whose etcd has room for little, fill it, and delete what fills it."""
    cell = cell_of("all-in-one")
    provide(bench, cell)
    bench.boot(cell)
    give(bench, cluster_etcd_extra_args={"quota-backend-bytes": str(QUOTA)})
    bench.play()
    said = bench.on(0, FILL).stdout
    assert "database space exceeded" in said, said
    bench.on(0, f"{KUBECTL} get configmaps --output name | grep filling- | xargs {KUBECTL} delete")


@pytest.mark.usefixtures("full")
def test_a_full_etcd_takes_writes_again(bench: Bench) -> None:
    assert alarms(bench) == ["NOSPACE"]
    assert "database space exceeded" in write(bench, "refused")
    before = int(ask(bench, "maintenance/status", {})["dbSize"])
    bench.play(entry="defragment-etcd")
    after = ask(bench, "maintenance/status", {})
    assert (alarms(bench), write(bench, "taken")) == ([], "configmap/taken created")
    assert int(after["dbSize"]) < before / 2, (before, after)
    assert {host.changed for host in bench.play(entry="defragment-etcd")} == {0}


@pytest.mark.usefixtures("full")
def test_a_member_that_is_down_is_a_reason_to_refuse(bench: Bench) -> None:
    added = ask(bench, "cluster/member/add", {"peerURLs": ["https://192.0.2.1:2380"], "isLearner": True})
    refused = bench.attempt(entry="defragment-etcd")
    ask(bench, "cluster/member/remove", {"ID": added["member"]["ID"]})
    assert "one that has never started have no leader or do not answer" in refused.stdout
    assert "changed=0" in refused.stdout


@pytest.mark.usefixtures("full")
def test_a_cluster_goes_back_to_a_snapshot_once_that_is_confirmed(bench: Bench) -> None:
    path = bench.directory / "etcd" / "snapshot.db"
    option = ("-e", json.dumps({"cluster_etcd_snapshot_path": str(path)}))
    for name in ("deleted", "changed"):
        assert write(bench, name).endswith("created")
    bench.play(*option, entry="backup")
    bench.on(
        0, f'{KUBECTL} delete configmap deleted && {KUBECTL} patch configmap changed --patch \'{{"data":{{"a":"c"}}}}\''
    )
    assert write(bench, "later").endswith("created")
    taken = json.loads(path.with_name("snapshot.db.json").read_text(encoding="utf-8"))["taken"]

    refused = bench.attempt(*option, entry="restore")
    assert f"set cluster_etcd_restore_confirmation to {taken}" in " ".join(refused.stdout.split())
    assert "changed=0" in refused.stdout

    began = bench.on(0, "pidof coredns").stdout
    bench.play(*option, "-e", f"cluster_etcd_restore_confirmation={taken}", entry="restore")
    names = bench.on(0, f"{KUBECTL} get configmaps --output name").stdout.split()
    assert {"configmap/deleted", "configmap/changed"} <= set(names)
    assert "configmap/later" not in names
    assert bench.on(0, f"{KUBECTL} get configmap changed --output jsonpath={{.data.a}}").stdout == "b"
    assert bench.on(0, "pidof coredns").stdout == began != "", "pods run on"
    assert write(bench, "after").endswith("created")
