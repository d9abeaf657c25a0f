"""What is asked of kube-proxy and CoreDNS: nothing more where their pods have the configuration, else all of it."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import run_here

WRITTEN, BEFORE, AFTER = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z"
# Knows what each machine is told of the cluster, and notes what it is asked for.
KUBECTL = """
printf '%s\\n' "$*" >>"$place/$machine.calls"
case "$*" in
  *"get nodes"*) echo "cp-0 True" ;;
  *"get configmap/kube-proxy daemonset/kube-proxy configmap/coredns"*) cat "$place/$machine.all" ;;
  *"get configmap/kube-proxy"*) cat "$place/$machine.proxy" ;;
  *"get pods"*k8s-app=kube-proxy*) cat "$place/$machine.proxies" ;;
  *"get pods"*k8s-app=kube-dns*) cat "$place/$machine.servers" ;;
  *"get configmap/coredns deployment/coredns"*) cat "$place/$machine.coredns" ;;
  *"logs"*) echo "unknown mode" ;;
  *"patch configmap kube-proxy"*)
    [ -e "$place/$machine.for-good" ] || rm -f "$place/$machine.broken"
    grep -q "mode: y" "$place/$machine.proxy" || echo "configmap/kube-proxy patched (no change)" ;;
  *"rollout status"*daemonset/kube-proxy*)
    [ ! -e "$place/$machine.broken" ] || { echo "error: timed out waiting for the condition" >&2; exit 1; } ;;
esac
"""
KUBEADM = 'echo "kubeadm $@" >>"$place/$machine.calls"\n'
PATCHES = {"spec": {"replicas": 3}}
NOTED = sha256(json.dumps(PATCHES, sort_keys=True).encode()).hexdigest()[:16]
REPLACED = ["delete pod a-pod", "rollout status --timeout=180s daemonset/kube-proxy"]
RESTARTED = ["rollout restart deployment/coredns", "rollout status --timeout=180s deployment/coredns"]
MADE = ["kubeadm init phase addon coredns --config=/etc/kubernetes/kubeadm.yml"]
READY = "rollout status --timeout=180s deployment/coredns"
# By a machine's name: what is so there, and the changes, waits for them included, that follow in this order.
ROWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "just-made": ({"made": WRITTEN}, []),
    "as-it-was": ({}, []),
    "killed-before-pods-were-replaced": ({"proxies": BEFORE, "servers": BEFORE}, [*REPLACED, *RESTARTED]),
    "another-cache": ({"cache": 20}, ["patch configmap coredns", *RESTARTED]),
    "another-version": (
        {"version": "1.13.1"},
        [*MADE, "annotate --overwrite deployment/coredns kubeadm/patches-", READY, "wait --for=delete"],
    ),
    "patches": (
        {"patches": PATCHES},
        [*MADE, f"annotate --overwrite deployment/coredns kubeadm/patches={NOTED}", READY],
    ),
    "patches-noted": ({"patches": PATCHES, "noted": NOTED}, []),
    "upgraded": ({"made": AFTER, "generation": 2, "former": "1.13.1"}, ["wait --for=delete"]),
}
NEW, SAME = (
    "kube-proxy does not come up with these settings",
    "kube-proxy does not come up, and this run has not changed its settings",
)
# What is broken, and what the refusal blames; kubeadm writes settings that are other than before where they are `new`.
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "broken": ({"marks": ["broken"], "new": True}, NEW),
    "broken-for-good": ({"marks": ["broken", "for-good"], "new": True}, NEW),
    "broken-before": ({"marks": ["broken", "for-good"]}, SAME),
}
LOOKS = ("get ", "logs ", "kubeadm init phase addon kube-proxy")


def place_cluster(place: Path, name: str, known: dict[str, Any]) -> dict[str, Any]:
    """Write what a machine is told of its cluster; return its variables."""
    version = known.get("version", "1.14.2")
    managed = {"managedFields": [{"time": WRITTEN}]}
    made = {"creationTimestamp": known.get("made", BEFORE), "generation": known.get("generation", 1)}
    noted = {"annotations": {"kubeadm/patches": known["noted"]} if "noted" in known else {}}
    image = {"spec": {"template": {"spec": {"containers": [{"image": f"registry/coredns:v{version}"}]}}}}
    proxy: list[dict[str, Any]] = [
        {"data": {"config.conf": "mode: x"}, "metadata": {"name": "kube-proxy", **managed}},
        {"metadata": {"name": "kube-proxy", **made}},
    ]
    coredns = [
        {"data": {"Corefile": ".:53 {\n    cache 30\n}\n"}, "metadata": {"name": "coredns", **managed}},
        {**image, "metadata": {"name": "coredns", **made, **noted}},
    ]
    written = [{**proxy[0], "data": {"config.conf": "mode: y"}}, proxy[1]] if known.get("new") else proxy
    for what, items in (("proxy", written), ("coredns", coredns), ("all", proxy + coredns)):
        (place / f"{name}.{what}").write_text(json.dumps({"items": items}), encoding="utf-8")
    (place / f"{name}.proxies").write_text(f"{known.get('proxies', AFTER)} registry/kube-proxy:v1 a-pod\n")
    (place / f"{name}.servers").write_text(
        f"{known.get('servers', AFTER)} registry/coredns:v{known.get('former', version)} a-server\n"
    )
    for mark in known.get("marks", ()):
        (place / f"{name}.{mark}").touch()
    return {
        "kubeadm_addons_nodes": ["cp-0"],
        "kubeadm_addons_coredns_version": "1.14.2",
        "kubeadm_addons_coredns_cache_seconds": known.get("cache", 30),
        "kubeadm_addons_coredns_patches": known.get("patches", {}),
    }


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return what Ansible said of all rows in one run, and the folder of the calls."""
    place = tmp_path_factory.mktemp("addons")
    known = {name: row for name, (row, _) in (ROWS | BROKEN).items()}
    hosts = {name: place_cluster(place, name, row) for name, row in known.items()}
    play = {"tasks": [{"ansible.builtin.include_role": {"name": "kubeadm_addons"}}]}
    return run_here(place, [play], {"kubectl": KUBECTL, "kubeadm": KUBEADM}, **hosts), place


def calls(place: Path, name: str) -> list[str]:
    own = "--kubeconfig=/etc/kubernetes/admin.conf --namespace=kube-system "
    return (place / f"{name}.calls").read_text(encoding="utf-8").replace(own, "").splitlines()


@pytest.mark.parametrize("row", ROWS)
def test_pods_get_the_configuration_that_they_do_not_have(row: str, said: tuple[str, Path]) -> None:
    text, place = said
    made = calls(place, row)
    assert f"fatal: [{row}]" not in text, text
    assert "kubeadm init phase addon kube-proxy --config=/etc/kubernetes/kubeadm.yml" in made
    changes = [call for call in made if not any(look in call for look in LOOKS)]
    assert changes[0] == "rollout status --timeout=180s daemonset/kube-proxy"
    found, expected = changes[1:], ROWS[row][1]
    assert len(found) == len(expected), found
    assert all(call.startswith(start) for call, start in zip(found, expected, strict=True)), found


@pytest.mark.parametrize(("row", "looks"), [("just-made", 0), ("as-it-was", 2), ("upgraded", 1)])
def test_pods_that_cannot_be_older_are_not_looked_at(row: str, looks: int, said: tuple[str, Path]) -> None:
    assert len([call for call in calls(said[1], row) if call.startswith("get pods")]) == looks


@pytest.mark.parametrize("row", BROKEN)
def test_a_configuration_that_does_not_work_is_taken_back(row: str, said: tuple[str, Path]) -> None:
    text, place = said
    refusal = "".join(re.findall(rf"fatal: \[{row}\]: .*", text)[-1:])
    assert f"{BROKEN[row][1]}: unknown mode; error: timed out waiting for the condition" in refusal, text
    assert ("it runs with its former configuration again" in refusal) is (row == "broken")
    made = calls(place, row)
    assert any(call.startswith("patch configmap kube-proxy --type=merge") and "mode: x" in call for call in made)
    assert any(call.startswith("delete pods") for call in made) is (BROKEN[row][1] == NEW)
