"""An API server in trouble: waits survive within their deadline, fail with the truth after it, nothing is doubled."""

from __future__ import annotations

import inspect
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EXIT_RETRY
from harness.kube import Cluster
from harness.kube.api import HASTY, Patience
from harness.kube.client import ApiFailure, Unreachable
from harness.kube.failures import Overwhelmed, Untrusted
from harness.kube.informer import Informer
from harness.kube.resources import CONFIG_MAP, NAMESPACE, POD
from harness.until import Deadline, NotYet, TimedOut, until
from tests.chaos.front import CUT, EXPIRE, FREEZE, HALF, LOST, RESET, Front, Trouble, status

NAMESPACE_USED = "default"
WEBHOOK = (
    'Internal error occurred: failed calling webhook "virtualmachine-mutator.kubevirt.io": failed to call webhook: '
    'Post "https://virt-api.kubevirt.svc:443/virtualmachines-mutate?timeout=10s": no endpoints available'
)
TROUBLES = {
    "too many requests": status(429, "TooManyRequests", "too many requests, please try again later", retry_after=1),
    "webhook down": status(500, "InternalError", WEBHOOK),
    "unavailable": status(503, "ServiceUnavailable", "apiserver is shutting down"),
    "gateway time-out": status(504, "Timeout", "request did not complete within requested timeout"),
    "connection reset": Trouble(RESET),
    "answer lost": Trouble(LOST),
    "answer cut in half": Trouble(HALF),
    "frozen": Trouble(FREEZE),
}
QUICK = Patience(connect_seconds=1.0, read_seconds=1.0, watch_silence_seconds=2.0, again_seconds=20.0)
rows = pytest.mark.row


def config_map(name: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": NAMESPACE_USED}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "1"}}


@pytest.fixture
def name(cluster: Cluster) -> Iterator[str]:
    made = f"chaos-{secrets.token_hex(4)}"
    yield made
    cluster.delete(CONFIG_MAP, made, NAMESPACE_USED)


def through(kubeconfig: Path, patience: Patience = QUICK) -> Cluster:
    return Cluster.from_kubeconfig(kubeconfig, patience=patience)


@rows("F28")
@pytest.mark.parametrize("what", TROUBLES)
def test_a_request_survives_trouble_that_passes(front: Front, kubeconfig: Path, what: str) -> None:
    front.troubles = [TROUBLES[what].on("GET", times=2)]
    found = through(kubeconfig).get(NAMESPACE, "default")
    assert found is not None
    assert front.troubles[0].met == 2


@rows("F28")
@pytest.mark.parametrize("what", TROUBLES)
def test_a_create_is_carried_out_once_whatever_became_of_the_answer(
    front: Front, kubeconfig: Path, cluster: Cluster, name: str, what: str
) -> None:
    front.troubles = [TROUBLES[what].on("POST", times=1)]
    made = through(kubeconfig).ensure(CONFIG_MAP, config_map(name))
    found = cluster.get(CONFIG_MAP, name, NAMESPACE_USED)
    assert found is not None
    assert found["metadata"]["uid"] == made["metadata"]["uid"]


@rows("F28")
@pytest.mark.parametrize("what", TROUBLES)
def test_a_wait_survives_trouble_within_its_deadline(front: Front, kubeconfig: Path, what: str) -> None:
    front.troubles = [TROUBLES[what].on("GET", times=3)]
    hasty = through(kubeconfig, replace(QUICK, again_seconds=0.0))
    found = until(
        lambda: hasty.get(NAMESPACE, "default") or NotYet("not there"),
        deadline=Deadline.after(30),
        what="the namespace",
        interval=0.05,
    )
    assert found["metadata"]["name"] == "default"
    assert front.troubles[0].met == 3


SAID = {
    "too many requests": "429 TooManyRequests",
    "webhook down": "failed calling webhook",
    "unavailable": "apiserver is shutting down",
    "gateway time-out": "504 Timeout",
    "connection reset": "(reset|aborted|EOF|Remote end closed)",
    "answer lost": "(reset|aborted|EOF|Remote end closed)",
    "answer cut in half": "(reset|IncompleteRead|aborted|EOF)",
    "frozen": "took the request and did not answer in time",
}


@rows("F28")
@pytest.mark.parametrize("what", TROUBLES)
def test_a_wait_ends_at_its_deadline_and_says_what_the_trouble_was(front: Front, kubeconfig: Path, what: str) -> None:
    front.troubles = [TROUBLES[what].on()]
    began = time.monotonic()
    asking = through(kubeconfig, HASTY)  # with time-outs far beyond the wait's
    with pytest.raises(TimedOut, match=SAID[what]) as caught:
        until(
            lambda: asking.get(NAMESPACE, "default") or NotYet("not there"),
            deadline=Deadline.after(2.0),
            what="the namespace",
            describe=lambda: "unused",
        )
    assert time.monotonic() - began < 2.0 + 1.5
    assert caught.value.exit_code == EXIT_RETRY


@rows("F28")
def test_patience_ends_and_says_how_often_it_was_tried(front: Front, kubeconfig: Path) -> None:
    front.troubles = [TROUBLES["webhook down"].on()]
    with pytest.raises(Overwhelmed, match=r"failed calling webhook.*\(tried \d+ times\)") as caught:
        through(kubeconfig, replace(QUICK, again_seconds=2.0)).get(NAMESPACE, "default")
    assert 2 <= front.requests("GET") <= 8
    assert caught.value.exit_code == EXIT_RETRY
    assert caught.value.hint


@rows("F28")
def test_who_is_asked_to_wait_waits(front: Front, kubeconfig: Path) -> None:
    front.troubles = [status(429, "TooManyRequests", "later", retry_after=2).on(times=1)]
    began = time.monotonic()
    through(kubeconfig).get(NAMESPACE, "default")
    assert time.monotonic() - began >= 2.0


@rows("F28")
def test_a_refusal_is_not_asked_again(front: Front, kubeconfig: Path) -> None:
    denied = 'admission webhook "virtualmachine-validator.kubevirt.io" denied the request: no'
    front.troubles = [status(500, "InternalError", denied).on()]
    with pytest.raises(ApiFailure, match="denied the request"):
        through(kubeconfig).get(NAMESPACE, "default")
    assert front.requests("GET") == 1


@rows("F28")
def test_what_has_no_name_is_not_sent_twice(front: Front, kubeconfig: Path) -> None:
    front.troubles = [Trouble(LOST).on("POST")]
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-", "namespace": NAMESPACE_USED}}
    with pytest.raises(Unreachable):
        through(kubeconfig).request("POST", CONFIG_MAP.path(NAMESPACE_USED), body=body, query={"dryRun": "All"})
    assert front.requests("POST") == 1


def test_a_stranger_at_the_apis_address_is_not_waited_for(front: Front, kubeconfig: Path, infra_ca: str) -> None:
    text = kubeconfig.read_text(encoding="utf-8")
    swapped = kubeconfig.with_name("swapped.kubeconfig")
    own = next(line for line in text.splitlines() if "certificate-authority-data" in line)
    swapped.write_text(text.replace(own, f"    certificate-authority-data: {infra_ca}"), encoding="utf-8")
    began = time.monotonic()
    with pytest.raises(Untrusted) as caught:
        until(
            lambda: through(swapped).get(NAMESPACE, "default") or NotYet("no"),
            deadline=Deadline.after(20),
            what="never",
        )
    assert time.monotonic() - began < 10
    assert "certificate authority" in caught.value.hint


# Every call of the client, as it is made; a call that is new has to be added here.
CALLS: dict[str, Callable[[Cluster], object]] = {
    "send": lambda c: c.send("GET", "/version"),
    "request": lambda c: c.request("GET", "/version"),
    "get": lambda c: c.get(NAMESPACE, "default"),
    "list": lambda c: c.list(NAMESPACE),
    "create": lambda c: c.create(CONFIG_MAP, config_map("x")),
    "create_if_absent": lambda c: c.create_if_absent(CONFIG_MAP, config_map("x")),
    "ensure": lambda c: c.ensure(CONFIG_MAP, config_map("x")),
    "apply": lambda c: c.apply(CONFIG_MAP, config_map("x")),
    "replace": lambda c: c.replace(CONFIG_MAP, config_map("x")),
    "merge": lambda c: c.merge(CONFIG_MAP, "x", {}, NAMESPACE_USED),
    "delete": lambda c: c.delete(CONFIG_MAP, "x", NAMESPACE_USED),
    "watch": lambda c: list(c.watch(CONFIG_MAP, resource_version="1")),
    "pod_log": lambda c: c.pod_log("default", "x", container="y"),
    "events_of": lambda c: c.events_of("default", "x"),
}
NO_REQUESTS = {"from_kubeconfig", "server"}


def test_the_list_of_calls_is_whole() -> None:
    public = {n for n, _ in inspect.getmembers(Cluster) if not n.startswith("_")}
    assert public - NO_REQUESTS == CALLS.keys()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("where", ["before TLS", "after TLS"])
def test_every_call_ends_when_the_api_server_is_frozen(
    front: Front, kubeconfig: Path, silent_kubeconfig: Path, call: str, where: str
) -> None:
    front.troubles = [Trouble(FREEZE).on()]
    path = silent_kubeconfig if where == "before TLS" else kubeconfig
    hasty = Patience(connect_seconds=0.5, read_seconds=0.5, watch_silence_seconds=0.5)
    began = time.monotonic()
    with pytest.raises(Unreachable):
        CALLS[call](through(path, hasty))
    assert time.monotonic() - began < 5.0


def seen_by(informer: Informer, namespace: str, name: str) -> dict[str, Any]:
    return until(
        lambda: informer.get(namespace, name) or NotYet("not seen"),
        deadline=Deadline.after(30),
        what=f"the informer to see {name}",
        interval=0.05,
    )


WATCH_TROUBLES = {
    "cut": Trouble(CUT).on(path="watch=true", times=3),
    "reset": Trouble(RESET).on(path="watch=true", times=3),
    "frozen": Trouble(FREEZE).on(path="watch=true", times=1),
    "gone": status(410, "Expired", "too old resource version: 1 (2)").on(path="watch=true", times=2),
    "expired": Trouble(EXPIRE).on(path="watch=true", times=2),
    "unavailable": status(503, "ServiceUnavailable", "shutting down").on(path="watch=true", times=3),
}


@rows("F28")
@pytest.mark.parametrize("what", WATCH_TROUBLES)
def test_a_watch_goes_on_after_trouble_and_misses_nothing(
    front: Front, kubeconfig: Path, cluster: Cluster, name: str, what: str
) -> None:
    front.troubles = [replace(WATCH_TROUBLES[what], met=0)]
    told: list[str] = []
    informer = Informer(through(kubeconfig), CONFIG_MAP)
    informer.subscribe(lambda kind, obj: told.append(kind) if obj["metadata"]["name"] == name else None)
    informer.start()
    try:
        until(
            lambda: informer.synced.is_set() or NotYet("no list"),
            deadline=Deadline.after(20),
            what="the informer to sync",
        )
        cluster.create(CONFIG_MAP, config_map(name))
        seen_by(informer, NAMESPACE_USED, name)
        cluster.delete(CONFIG_MAP, name, NAMESPACE_USED)
        until(
            lambda: NotYet("still there") if informer.get(NAMESPACE_USED, name) else True,
            deadline=Deadline.after(30),
            what="the informer to see it go",
            interval=0.05,
        )
    finally:
        informer.stop()
    assert (told[0], told[-1]) == ("ADDED", "DELETED")
    listed = front.requests("GET", r"/configmaps(\?|$)") - front.requests("GET", "watch=true")
    assert listed <= (3 if what in {"gone", "expired"} else 1), "what was cut goes on from where it was, without a list"


def test_a_watch_in_lasting_trouble_is_asked_for_less_and_less_often(front: Front, kubeconfig: Path) -> None:
    front.troubles = [status(503, "ServiceUnavailable", "no").on(path="watch=true")]
    informer = Informer(through(kubeconfig, replace(QUICK, again_seconds=0.0)), POD)
    informer.start()
    threading.Event().wait(6.0)
    informer.stop()
    assert 2 <= front.requests("GET", "watch=true") <= 8


def test_clients_that_failed_together_do_not_come_back_together(front: Front, kubeconfig: Path) -> None:
    front.troubles = [status(503, "ServiceUnavailable", "no").on(times=6)]
    moments: list[float] = []
    lock = threading.Lock()
    asking = [through(kubeconfig) for _ in range(6)]

    def ask(client: Cluster) -> None:
        client.get(NAMESPACE, "default")
        with lock:
            moments.append(time.monotonic())

    threads = [threading.Thread(target=ask, args=(client,)) for client in asking]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(moments) == 6
    assert max(moments) - min(moments) > 0.02


@pytest.fixture
def silent_kubeconfig(kubeconfig: Path) -> Iterator[Path]:
    """Return a kubeconfig of a server that takes connections and says nothing, not even TLS's hello."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        path = kubeconfig.with_name("silent.kubeconfig")
        lines = [
            f"    server: https://127.0.0.1:{port}" if line.strip().startswith("server:") else line
            for line in kubeconfig.read_text(encoding="utf-8").splitlines()
        ]
        path.write_text("\n".join(lines), encoding="utf-8")
        yield path
