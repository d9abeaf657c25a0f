"""The aggregated API of KubeVirt: what is done to machines that run, and the ways into them through the API."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from harness.kube.api import timeouts
from harness.kube.client import Answer, ApiFailure, Cluster
from harness.kube.connection import ApiRequest
from harness.kube.resources import VM, VMI
from harness.machines.reach.portforward import Tunnels, bridge, forwarding, open_stream, refused_inside
from harness.model import Access
from harness.until import NotYet, until
from tests.contract.limits import lasting, patience, within
from tests.contract.machines import Machines
from tests.contract.streams import RECORDED as RECORDINGS
from tests.contract.test_guards import too_large

GROUP = "/apis/subresources.kubevirt.io"
ACCESS: tuple[Access, ...] = ("direct", "portforward")
SECONDS = 30.0
VMIS = "virtualmachineinstances"
Json = dict[str, Any]


def path(namespace: str, kind: str, name: str, subresource: str, version: str = "v1") -> str:
    return f"{GROUP}/{version}/namespaces/{namespace}/{kind}/{name}/{subresource}"


def put(cluster: Cluster, namespace: str, kind: str, name: str, subresource: str, body: Json | None = None) -> Answer:
    return cluster.send("PUT", path(namespace, kind, name, subresource), body=body or {})


def said(answer: Answer) -> tuple[int, str]:
    return answer.code, answer.body["message"] if isinstance(answer.body, dict) else str(answer.body or "")


def conflict(kind: str, name: str, why: str) -> tuple[int, str]:
    return 409, f'Operation cannot be fulfilled on {kind}.kubevirt.io "{name}": {why}'


@pytest.mark.parametrize("version", ["v1", "v1alpha3"])
def test_it_is_discovered(cluster: Cluster, version: str) -> None:
    found = {one["name"] for one in cluster.request("GET", f"{GROUP}/{version}")["resources"]}
    instances = {
        f"virtualmachineinstances/{one}" for one in ("console", "portforward", "pause", "unpause", "guestosinfo")
    }
    assert found >= {f"virtualmachines/{one}" for one in ("start", "stop", "restart")} | instances
    assert "virtualmachines/portforward" not in found  # KubeVirt serves it and does not list it
    assert cluster.request("GET", f"{GROUP}/{version}/version")["gitVersion"].startswith("v")


def test_the_api_server_finds_it_available(admin: Cluster) -> None:
    for version in ("v1", "v1alpha3"):
        found = admin.request("GET", f"/apis/apiregistration.k8s.io/v1/apiservices/{version}.subresources.kubevirt.io")
        states = {c["type"]: c["status"] for c in found["status"]["conditions"]}
        assert (states["Available"], bool(found["spec"]["caBundle"])) == ("True", True)


def asking(cluster: Cluster, accept: str | None, method: str, url: str) -> tuple[int, str, str]:
    """Send a request that takes certain media types; return code, text and header Allow of the answer."""
    headers = {"Accept": accept} if accept is not None else {}
    answer = cluster.connection.send(ApiRequest(method, url, headers, timeouts=timeouts(patience())))
    return answer.status, answer.data.decode(), answer.headers.get("Allow", "")


RECORDED: list[Json] = json.loads((RECORDINGS / "subresources-accept.json").read_text(encoding="utf-8"))["requests"]
UNSERVED = ("vnc", "guestfs")  # by the embedded part: screens, and the image of a tool of virtctl's
UNACCEPTED = 406  # left out: not imitated, as every client of ours takes anything (docs/decisions/contract.md)
REPLAYED = [one for one in RECORDED if not one["path"].endswith(UNSERVED) and one["code"] != UNACCEPTED]


@pytest.mark.parametrize("asked", REPLAYED, ids=lambda one: f"{one['method']} {one['path']} {one['accept']}")
def test_what_is_accepted_is_as_recorded(admin: Cluster, namespace: str, asked: Json) -> None:
    where = f"/namespaces/{namespace}/{asked['path']}" if "none" in asked["path"] else f"/{asked['path']}"
    code, text, _ = asking(admin, asked["accept"], asked["method"], f"{GROUP}/v1{where}".rstrip("/"))
    said = text if asked["type"].startswith("text/plain") else json.loads(text).get("message", "")
    assert (code, said) == (asked["code"], asked["said"])


def test_a_path_without_its_method_or_its_port_is_refused(admin: Cluster, namespace: str) -> None:
    start = path(namespace, "virtualmachines", "none", "start")
    port = path(namespace, "virtualmachineinstances", "none", "portforward")
    assert asking(admin, "*/*", "GET", start) == (405, "405: Method Not Allowed", "PUT")
    assert asking(admin, "*/*", "GET", port) == (404, "404: Page Not Found", "")
    assert asking(admin, "*/*", "GET", f"{port}/22/tcp/more") == (404, "404: Page Not Found", "")


@pytest.mark.parametrize("version", ["v1", "v1alpha3"])
def test_what_does_not_exist_is_not_found(admin: Cluster, namespace: str, version: str) -> None:
    start = admin.send("PUT", path(namespace, "virtualmachines", "none", "start", version), body={})
    port = admin.send("GET", path(namespace, "virtualmachineinstances", "none", "portforward/22", version))
    assert said(start) == (404, 'virtualmachine.kubevirt.io "none" not found')
    assert said(port) == (404, 'virtualmachineinstance.kubevirt.io "none" not found')
    assert (start.body["kind"], start.body["reason"]) == ("Status", "NotFound")


def test_a_job_may_reach_its_machines_and_do_nothing_to_them(cluster: Cluster, namespace: str) -> None:
    reached = cluster.send("GET", path(namespace, "virtualmachineinstances", "none", "portforward/22"))
    assert reached.code == 404
    refused = [
        put(cluster, namespace, "virtualmachines", "none", "start"),
        put(cluster, namespace, "virtualmachineinstances", "none", "pause"),
        cluster.send("GET", path(namespace, "virtualmachineinstances", "none", "console")),
        cluster.send("GET", path("default", "virtualmachineinstances", "none", "portforward/22")),
    ]
    assert [answer.code for answer in refused] == [403] * 4


def test_a_machine_is_switched_by_its_run_strategy(admin: Cluster, namespace: str) -> None:
    """This machine never finds room: its instance is there, and has no network."""
    body = too_large(namespace, "huge")
    body["spec"]["runStrategy"] = "Halted"
    admin.create(VM, body)

    def switch(verb: str) -> tuple[int, str]:
        return said(put(admin, namespace, "virtualmachines", "huge", verb))

    assert switch("stop") == conflict("virtualmachine", "huge", "VM is not running")
    assert switch("restart") == conflict(
        "virtualmachine", "huge", "RunStategy Halted does not support manual restart requests"
    )
    assert switch("start")[0] == 202
    assert _strategy(admin, namespace) == "Always"
    until(lambda: _instance(admin, namespace), deadline=within(SECONDS), what="an instance")
    assert switch("start") == conflict("virtualmachine", "huge", "VM is already running")
    port = admin.send("GET", path(namespace, "virtualmachineinstances", "huge", "portforward/22"))
    assert said(port) == (400, "no network interfaces are present")
    paused = said(put(admin, namespace, "virtualmachineinstances", "huge", "pause"))
    assert paused == conflict("virtualmachineinstance", "huge", "VM is not running")
    assert switch("stop")[0] == 202
    assert _strategy(admin, namespace) == "Halted"


def _strategy(admin: Cluster, namespace: str) -> str:
    found = admin.get(VM, "huge", namespace)
    assert found is not None
    return str(found["spec"]["runStrategy"])


def _instance(admin: Cluster, namespace: str) -> Json | NotYet:
    found = admin.get(VMI, "huge", namespace)
    return found if found is not None and found["status"]["phase"] == "Scheduling" else NotYet("none")


def test_always_is_not_started_by_hand(admin: Cluster, namespace: str) -> None:
    body = too_large(namespace, "huge")
    body["spec"]["runStrategy"] = "Manual"
    admin.create(VM, body)
    assert said(put(admin, namespace, "virtualmachines", "huge", "restart")) == conflict(
        "virtualmachine", "huge", "VM is not running: Halted"
    )
    assert put(admin, namespace, "virtualmachines", "huge", "start").code == 202
    until(lambda: _instance(admin, namespace), deadline=within(SECONDS), what="an instance")
    assert _strategy(admin, namespace) == "Manual"
    assert put(admin, namespace, "virtualmachines", "huge", "stop").code == 202

    def gone() -> bool | NotYet:
        return admin.get(VMI, "huge", namespace) is None or NotYet("it is there")

    until(gone, deadline=within(SECONDS), what="the instance to be gone")
    admin.merge(VM, "huge", {"spec": {"runStrategy": "Always"}}, namespace)
    answers = said(put(admin, namespace, "virtualmachines", "huge", "start"))
    assert answers in [
        conflict("virtualmachine", "huge", "Always does not support manual start requests"),
        conflict("virtualmachine", "huge", "VM is already running"),  # it started by itself meanwhile
    ]


@pytest.fixture
def way(machines: Machines) -> Callable[[str], Tunnels]:
    """Return the way to a machine through the API."""
    return lambda name: Tunnels.load(machines.tunnels(name, machines.launcher(name)["status"]["podIP"]))


@pytest.mark.machines
def test_a_machine_is_reached_both_ways(machines: Machines, way: Callable[[str], Tunnels]) -> None:
    machines.disk("both")
    machines.create("both")
    machines.wait_ready("both")
    blob = os.urandom(300_000).hex()

    for access in ACCESS:
        guest = machines.login("both", access)
        assert machines.run(guest, "hostname").stdout.strip() == "both"
        assert machines.run(guest, f"head -c {len(blob)} /dev/zero | wc -c").stdout.strip() == str(len(blob))
    tunnels = way("both")
    address = next(iter(tunnels.instances))
    cluster = tunnels.cluster()
    banner = _banner(tunnels, address)
    with pytest.raises(ApiFailure, match="dialing VM") as refused:
        tunnels.open(cluster, address, 4)
    assert (refused.value.code, refused_inside(refused.value)) == (500, True)
    with forwarding(tunnels) as forwarder:
        assert _through_proxy(forwarder.url, f"{address}:22") == banner
    assert banner.startswith(b"SSH-2.0-")


def _banner(tunnels: Tunnels, address: str) -> bytes:
    """Read what a machine's sshd says first, through the API; the connection is broken off then."""
    tunnel = tunnels.open(tunnels.cluster(), address, 22)
    source, sink = os.pipe()
    other, mine = os.pipe()
    carrying = threading.Thread(target=bridge, args=(tunnel, source, mine))
    carrying.start()
    try:
        return os.read(other, 100)
    finally:
        os.close(sink)
        carrying.join(lasting(20))
        for descriptor in (source, other, mine):
            os.close(descriptor)


def _through_proxy(url: str, target: str) -> bytes:
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=lasting(20)) as made:
        made.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.split(b"\r\n\r\n", 1)[1]:
            answer += made.recv(4096)
        return answer.split(b"\r\n\r\n", 1)[1]


@pytest.mark.machines
def test_a_machine_stands_still_and_goes_on(machines: Machines, admin: Cluster) -> None:
    namespace = machines.namespace
    machines.disk("still")
    machines.create("still")
    machines.wait_ready("still")
    guest = machines.login("still")
    beat = "while :; do date +%s%N > /tmp/next; mv /tmp/next /tmp/beat; sleep 0.1; done"  # never read half written
    machines.run(guest, f"nohup sh -c '{beat}' >/dev/null 2>&1 &")

    assert put(admin, namespace, "virtualmachineinstances", "still", "pause").code == 200
    machines.wait_word("still", "Paused")
    twice = said(put(admin, namespace, "virtualmachineinstances", "still", "pause"))
    port = said(admin.send("GET", path(namespace, "virtualmachineinstances", "still", "portforward/22")))
    machines.wait_status("still", lambda s: not s.get("ready"), "to be not ready", seconds=SECONDS)
    assert put(admin, namespace, "virtualmachineinstances", "still", "unpause").code == 200
    machines.wait_ready("still")
    again = said(put(admin, namespace, "virtualmachineinstances", "still", "unpause"))
    before = int(machines.run(guest, "cat /tmp/beat").stdout)
    after = int(machines.run(guest, "sleep 0.5; cat /tmp/beat").stdout)

    assert twice == conflict("virtualmachineinstance", "still", "VMI is already paused")
    assert port == conflict("virtualmachineinstance", "still", "VMI is paused")
    assert again == conflict("virtualmachineinstance", "still", "VMI is not paused")
    assert after > before
    assert put(admin, namespace, "virtualmachineinstances", "still", "pause").code == 200
    machines.delete("still")  # a machine that stands still can be taken away


@pytest.mark.machines
def test_a_machine_is_restarted_and_its_console_is_read(machines: Machines, admin: Cluster) -> None:
    namespace = machines.namespace
    machines.disk("again")
    machines.create("again", lambda vm: vm["spec"].update(runStrategy="Always"))
    machines.wait_ready("again")
    guest = machines.login("again")
    with closing(open_stream(admin, path(namespace, VMIS, "again", "console"), lasting(SECONDS))) as console:
        machines.run(guest, "echo said-on-the-console | sudo tee /dev/console")
        seen = b""
        while b"said-on-the-console" not in seen:
            seen += console.recv_data()[1]
    first = admin.get(VMI, "again", namespace)
    no_agent = said(admin.send("GET", path(namespace, "virtualmachineinstances", "again", "guestosinfo")))

    assert put(admin, namespace, "virtualmachines", "again", "restart", {"gracePeriodSeconds": 0}).code == 202

    def another() -> Json | NotYet:
        found = admin.get(VMI, "again", namespace)
        other = found is not None and first is not None and found["metadata"]["uid"] != first["metadata"]["uid"]
        return found if found is not None and other else NotYet("the same instance")

    until(another, deadline=within(60), what="another instance")
    machines.wait_ready("again")
    assert machines.run(machines.login("again"), "hostname").stdout.strip() == "again"
    why = conflict("virtualmachineinstance", "again", "VMI does not have guest agent connected")[1]
    assert no_agent == (500, why)
