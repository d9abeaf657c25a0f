"""The role that replaces static pods and waits for them, run on this host with a kubelet that a test plays."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.playbook_files import run_here

READY, LIVE = ({"path": path, "port": "probe-port"} for path in ("/readyz", "/livez"))
# How a manifest says where the kubelet asks a component. Of the last, nobody can ask how it is.
PROBES: dict[str, dict[str, Any]] = {
    "port-by-name": {"readinessProbe": READY},
    "port-by-number": {"startupProbe": {**READY, "port": None}},
    "readiness-before-startup": {"readinessProbe": READY, "startupProbe": LIVE},
    "startup-before-liveness": {"startupProbe": READY, "livenessProbe": LIVE},
    "no-probe": {},
}
# What the logs of a component that does not serve have, and which of it is told
WORDS: dict[str, tuple[tuple[str, ...], str]] = {
    "error": (("I0101 starting", "Error: unknown flag: --none"), "1 s: Error: unknown flag: --none"),
    "klog": (("F1129 05:30:00.1 1 run.go:74] no such file: policy.yml",), "1 s: no such file: policy.yml"),
    "other": (("only this",), "1 s: only this"),
    "nothing": ((), '1 s: "cannot pull" pod="etcd"'),  # what the kubelet says
}
FORMER = "    - --initial-cluster=a=https://10.0.0.2:2380\n    image: r/etcd:3.6.8-0\n    - --quota=1\n"
# What kubeadm would write in the place of that, whether it differs, and whether it is another version
CHANGES: dict[str, tuple[str, list[str], bool]] = {
    "same": (FORMER, [], False),
    "first-members": (FORMER.replace("=a=", "=b="), [], False),  # read at the first start alone
    "flag": (FORMER.replace("quota=1", "quota=2"), ["etcd"], False),
    "version": (FORMER.replace("3.6.8", "3.6.9"), ["etcd"], True),
    "registry": (FORMER.replace("r/etcd", "q/etcd"), ["etcd"], False),
    "image": (FORMER.replace("3.6.8-0", "mine"), ["etcd"], False),  # a patch's, which is tried as any setting
    "missing": (FORMER, ["etcd"], False),  # a run was killed while it replaced it
}
APISERVER = {"spec": {"containers": [{"command": ["kube-apiserver", "--a=1", "--advertise-address=10.0.0.2"]}]}}
PROGRAMS = {
    "pkill": 'echo "$*" >$place/$machine/killed',
    "journalctl": 'echo \'E1129 05:30:00.1 12 pods.go:1] "cannot pull" pod="etcd"\'',
    "kubeadm": 'case "$*" in *" etcd local "*) of=etcd ;; *) of=kube-apiserver ;; esac\n'
    "cp $place/$machine/source/$of.yaml $KUBEADM_INIT_DRYRUN_DIR/",
}


class Component(BaseHTTPRequestHandler):
    """A component that is ready."""

    def do_GET(self) -> None:
        """Answer what the kubelet asks of a component that is ready."""
        self.send_response(200 if self.path == "/readyz" else 500)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Yield the port of a component that is ready."""
    server = HTTPServer(("127.0.0.1", 0), Component)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def manifest(probes: dict[str, dict[str, Any]], port: int) -> str:
    """Return the manifest of a pod with these probes."""
    asked = {
        kind: {"httpGet": {"host": "127.0.0.1", "scheme": "HTTP", **probe, "port": probe["port"] or port}}
        for kind, probe in probes.items()
    }
    container = {"ports": [{"name": "probe-port", "containerPort": port}, {"containerPort": 1}]}
    return json.dumps({"spec": {"containers": [{**container, **asked}]}})


def put(place: Path, folder: str, text: str, component: str = "etcd") -> None:
    """Put a component's manifest into a folder of a machine."""
    (place / folder).mkdir(parents=True, exist_ok=True)
    (place / folder / f"{component}.yaml").write_text(text, encoding="utf-8")


def begin(place: Path, logs: tuple[str, ...], at: float) -> None:
    """Have containers of etcd begun, as the logs of the kubelet tell it."""
    folder = place / "pods" / "kube-system_etcd-here_uid" / "etcd"
    folder.mkdir(parents=True, exist_ok=True)
    for number, words in enumerate(logs):
        (folder / f"{number}.log").write_text(f"2026-11-29T05:30:00.1Z stderr F {words}\n", encoding="utf-8")
    os.utime(folder, (at, at))


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory, port: int) -> dict[str, str]:
    """Return what Ansible said at the end about each machine, each of which is a row of a table."""
    place, later = tmp_path_factory.mktemp("machines"), time.time() + 3600
    machines: dict[str, dict[str, Any]] = {}
    for name, probes in PROBES.items():
        put(place / name, "manifests", manifest(probes, port))
        machines[name] = {"tasks_from": "main"}
    for name, (logs, _) in WORDS.items():
        put(place / name, "manifests", manifest(PROBES["port-by-name"], 9))
        begin(place / name, logs, later if logs else 1)
        machines[name] = {"tasks_from": "main"}
    for name, (asked, _, _) in CHANGES.items():
        for component, text in (("etcd", asked), ("kube-apiserver", "same\n")):
            put(place / name, "source", text, component)
            put(place / name, "manifests", FORMER if component == "etcd" else text, component)
        (place / name / "asked").mkdir()
        machines[name] = {"tasks_from": "compare", "components": ["etcd", "kube-apiserver"]}
    (place / "missing/manifests/etcd.yaml").unlink()
    for name, begun in (("replaced", later), ("not-begun", 1.0)):
        put(place / name, "manifests", "former")
        put(place / name, "manifests", json.dumps(APISERVER), "kube-apiserver")
        put(place / name, "asked", manifest(PROBES["port-by-name"], port))
        begin(place / name, ("of the pod before",), begun)
        machines[name] = {"tasks_from": "replace"}
    machine = "{{ place }}/{{ inventory_hostname }}"
    given = {
        "static_pods_components": "{{ components | default(['etcd']) }}",
        "static_pods_component": "etcd",
        "static_pods_manifests": f"{machine}/manifests",
        "static_pods_logs": f"{machine}/pods",
        "static_pods_folder": f"{machine}/asked",
        "static_pods_kubeadm": "{{ place }}/kubeadm",
        "static_pods_timeout": 1,
        "static_pods_timeout_scale": 0.1,
    }
    end = "{{ [static_pods_differing | default([]), static_pods_other_version | default(false)] | to_json }}"
    plays = [
        {
            "hosts": ":".join(name for name, own in machines.items() if own["tasks_from"] == part),
            "tasks": [
                {"ansible.builtin.include_role": {"name": "static_pods", "tasks_from": part}, "vars": given},
                {"ansible.builtin.debug": {"msg": end}},
            ],
        }
        for part in ("main", "compare", "replace")
    ]
    output = run_here(place, plays, PROGRAMS, **machines)
    lines = re.findall(r"^(?:ok|fatal): \[([-\w]+)\][^\n]*?=> \{\s*(.*?)\}$", output, re.M | re.S)
    ends = {name: text.replace('\\"', '"') for name, text in lines}
    assert ends.keys() == machines.keys(), output
    ends["killed"] = (place / "replaced/killed").read_text(encoding="utf-8")
    ends["replaced manifest"] = (place / "replaced/manifests/etcd.yaml").read_text(encoding="utf-8")
    return ends


@pytest.mark.parametrize("name", PROBES)
def test_a_component_is_asked_where_the_kubelet_asks_it(said: dict[str, str], name: str) -> None:
    assert json.dumps([[], False]) in said[name]


@pytest.mark.parametrize("name", WORDS)
def test_a_component_that_does_not_serve_is_told_with_its_last_words(said: dict[str, str], name: str) -> None:
    assert f"etcd does not serve with these settings after {WORDS[name][1]}" in said[name]


@pytest.mark.parametrize("name", CHANGES)
def test_what_differs_is_found(said: dict[str, str], name: str) -> None:
    assert json.dumps(list(CHANGES[name][1:])) in said[name]


def test_a_manifest_is_replaced_and_its_container_awaited(said: dict[str, str], port: int) -> None:
    assert json.dumps([[], False]) in said["replaced"]
    assert said["replaced manifest"] == manifest(PROBES["port-by-name"], port)


def test_only_the_machines_own_api_server_is_ended_beside_an_etcd_that_is_replaced(said: dict[str, str]) -> None:
    own, hosted = (f"kube-apiserver --a=1 --advertise-address={address} --b=2" for address in ("10.0.0.2", "10.0.0.22"))
    pattern = said["killed"].strip().removeprefix("--signal KILL --ns 1 --nslist net --full ")
    assert re.search(pattern, own)
    assert re.search(pattern, own.removesuffix(" --b=2"))
    assert re.search(pattern, hosted) is None


def test_a_container_that_does_not_begin_is_told(said: dict[str, str]) -> None:
    assert "etcd does not begin with these settings after 1 s:" in said["not-begun"]
    assert "cannot pull" in said["not-begun"]
    assert "of the pod before" not in said["not-begun"]
