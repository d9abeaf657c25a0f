"""When a guest is believed not to answer, and what it is reached through.

tests/embedded/operator/test_node_health.py watches a real API.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from harness.kube.client import Cluster
from harness.kube.resources import SECRET
from harness.machines.reach.portforward import OPEN_SECONDS, Tunnels
from harness.operator.api.resources import MACHINE
from harness.operator.context import OperatorContext, OperatorOptions
from harness.operator.controllers import guest
from harness.operator.controllers.guest import SILENT_SECONDS, GuestAccess, GuestNodes, GuestView, NoKubeconfig
from harness.operator.execute.inputs import state_name
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.mistakes import MADE
from tests.unit.operator.controllers.objects import CLAIM, Json, machine
from tests.unit.refusals.lying import kubeconfig

NODE = {"metadata": {"name": "m-0"}}
ANSWERED = GuestView({"m-0": NODE}, None, "")


class Clock:
    """The seconds of a test."""

    at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of guests, which are asked again at once."""
    made = Clock()
    monkeypatch.setattr(guest, "time", SimpleNamespace(monotonic=made))
    monkeypatch.setattr(guest, "LAST_RETRY_SECONDS", 0.0)
    return made


def broken(view: GuestView, clock: Clock, *moments: float) -> tuple[GuestView, list[str]]:
    """Return what is known of a guest that fails at these moments, and what was told of it."""
    told: list[str] = []
    over = threading.Event()

    @contextmanager
    def slow() -> Iterator[Cluster]:
        over.wait()  # the guest's own thread waits for its first answer meanwhile
        raise OSError("nobody is there")
        yield

    nodes = GuestNodes("one", slow, lambda: told.append(nodes.view.trouble))
    nodes.view = view
    for moment in moments:
        clock.at = 100.0 + moment
        nodes._failed("cut")
    nodes.stop()
    over.set()
    return nodes.view, told


def test_a_break_that_is_short_is_no_news(clock: Clock) -> None:
    assert broken(ANSWERED, clock, 0.0, SILENT_SECONDS - 0.1) == (ANSWERED, [])


def test_a_guest_that_stays_away_is_said_not_to_answer(clock: Clock) -> None:
    assert broken(ANSWERED, clock, 0.0, SILENT_SECONDS) == (GuestView(trouble="cut"), ["cut"])


def test_a_guest_that_never_answered_this_manager_is_told_after_the_same_time(clock: Clock) -> None:
    assert broken(GuestView(), clock, 0.0, SILENT_SECONDS - 0.1) == (GuestView(), [])
    assert broken(GuestView(), clock, 0.0, SILENT_SECONDS) == (GuestView(trouble="cut"), ["cut"])


SERVER = "https://[fd00:1::5]:6443"
THROUGH = {"virtualMachineInstance": "vm-2"}


@pytest.fixture
def tunnels(monkeypatch: pytest.MonkeyPatch) -> list[Tunnels]:
    """Return the tunnels that were opened; no process carries anything."""
    opened: list[Tunnels] = []

    @contextmanager
    def forwarding(to: Tunnels) -> Iterator[Any]:
        opened.append(to)
        yield SimpleNamespace(url="http://127.0.0.1:1")

    monkeypatch.setattr(guest, "forwarding", forwarding)
    return opened


def opened(*machines: Json, access: str = "PortForward", secret: bool = True) -> Cluster:
    """Open guest `one` of these machines, and return the client of it."""
    value = base64.b64encode(kubeconfig({"server": SERVER}).encode()).decode()
    found = {"metadata": {"name": "one-kubeconfig", "namespace": "ns"}, "data": {"value": value}}
    api = FakeCluster({SECRET: [found] if secret else []})
    context = OperatorContext.of(api, Path("/infra"), options=OperatorOptions(access=access, stretch=2.0))
    known = context.informers.of(MACHINE)
    for one in machines:
        known.observe(one)
    try:
        with GuestAccess(context).open(("ns", "one")) as client:
            return client
    finally:
        for stop in context.stoppers:
            stop()


def test_a_guest_is_reached_through_its_machines_at_the_addresses_of_both_families(tunnels: list[Tunnels]) -> None:
    made = machine("m-1", address=None, kubevirt=MADE, claim=CLAIM)
    made["status"]["infrastructure"] = {"address": "10.1.0.5", "ipv6Address": "fd00:1::5", "instance": "vmi-1"}
    client = opened(
        made,
        machine("m-2", address="192.0.2.6", ipv6Address="fd00:1::6", through=THROUGH, claim=CLAIM),
        machine("m-3", address="fd00:1::7", through={"virtualMachineInstance": "vm-3"}, claim=CLAIM),
        machine("m-4", address=None, kubevirt=MADE, claim=CLAIM),  # which has no address yet
        machine("m-5", address="192.0.2.9", ipv6Address="fd00:1::9", claim=CLAIM),  # which nothing leads through
        machine("m-6", address="192.0.2.10", through=THROUGH, claim={**CLAIM, "cluster": "two"}),
    )
    (tunnel,) = tunnels
    assert tunnel.instances == {
        "10.1.0.5": "m-1",
        "fd00:1::5": "m-1",
        "192.0.2.6": "vm-2",
        "fd00:1::6": "vm-2",
        "fd00:1::7": "vm-3",
    }
    assert (tunnel.namespace, tunnel.open_seconds, client.server) == ("ns", 2 * OPEN_SECONDS, SERVER)


@pytest.mark.parametrize(
    ("own", "access"),
    [
        (machine(address="192.0.2.5", ipv6Address="fd00:1::5", claim=CLAIM), "PortForward"),
        (machine(address="192.0.2.5", through=THROUGH, claim=CLAIM), "Direct"),
    ],
)
def test_a_guest_is_reached_directly_where_nothing_leads_through(
    own: Json, access: str, tunnels: list[Tunnels]
) -> None:
    assert opened(own, access=access).server == SERVER
    assert tunnels == []


def test_a_guest_without_a_kubeconfig_is_named(tunnels: list[Tunnels]) -> None:
    with pytest.raises(NoKubeconfig, match="there is no Secret one-kubeconfig with a kubeconfig as value"):
        opened(machine(claim=CLAIM, through=THROUGH), secret=False)
    assert tunnels == []


OWNER = {"apiVersion": "v1", "kind": "Cluster", "controller": True, "blockOwnerDeletion": True}
URL = "https://api.example.com:6443"


def owned(name: str) -> Json:
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"uid-of-{name}"}}


def secret(name: str, owner: str | None, **data: str) -> Json:
    references = [{**OWNER, "name": owner, "uid": f"uid-of-{owner}"}] if owner else []
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"name": name, "namespace": "ns", "ownerReferences": references}, "data": encoded}


def servers(api: FakeCluster) -> dict[str, str]:
    """Return which server each Secret with a kubeconfig names."""
    texts = {one["metadata"]["name"]: (one.get("data") or {}).get("value") for one in api.all(SECRET)}
    return {
        name: yaml.safe_load(base64.b64decode(text))["clusters"][0]["cluster"]["server"]
        for name, text in texts.items()
        if text
    }


def test_people_get_a_kubeconfig_of_the_endpoint_which_goes_with_it() -> None:
    api = FakeCluster({SECRET: [secret(state_name("one"), "one", kubeconfig=kubeconfig({"server": SERVER}))]})
    assert guest.hand_out(api, owned("one"))
    guest.for_people(api, owned("one"), URL)
    assert servers(api) == {"one-kubeconfig": SERVER, "one-user-kubeconfig": URL}
    guest.take_from_people(api, owned("one"))
    assert servers(api) == {"one-kubeconfig": SERVER}


@pytest.mark.parametrize("first", ["one", "one-user"])
def test_a_cluster_keeps_its_own_kubeconfig_where_another_one_calls_that_for_people_like_it(first: str) -> None:
    other = "https://192.0.2.99:6443"
    kept = [
        secret(state_name(name), name, kubeconfig=kubeconfig({"server": server}))
        for name, server in (("one", SERVER), ("one-user", other))
    ]
    api = FakeCluster({SECRET: kept})
    guest.hand_out(api, owned("one"))
    if first == "one":
        guest.for_people(api, owned("one"), URL)
    guest.hand_out(api, owned("one-user"))
    guest.for_people(api, owned("one"), URL)
    guest.take_from_people(api, owned("one"))
    assert servers(api) == {"one-kubeconfig": SERVER, "one-user-kubeconfig": other}
    assert guest.is_of_others(api, owned("one"))


def test_a_kubeconfig_that_somebody_made_keeps_its_owner() -> None:
    kept = secret(state_name("one"), "one", kubeconfig=kubeconfig({"server": SERVER}))
    api = FakeCluster({SECRET: [kept, secret("one-kubeconfig", None, value="{}")]})
    guest.hand_out(api, owned("one"))
    assert servers(api) == {"one-kubeconfig": SERVER}
    assert api.get(SECRET, "one-kubeconfig", "ns")["metadata"]["ownerReferences"] == []  # type: ignore[index]
