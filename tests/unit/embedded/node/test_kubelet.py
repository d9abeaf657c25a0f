"""The kubelet: pods that belong to nobody, logs that are read and followed, and its Summary."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from harness.embedded.cdi import claims
from harness.embedded.context import Context
from harness.embedded.machines.cgroups import Memory
from harness.embedded.node.kubelet import MIB, ForeignPods, KubeletHandler, growth, pod_stats, summary_document, tail
from harness.embedded.vmi.launcher import LAUNCHER
from harness.infra.cluster.capacity import NodeUsage, PodUsage, read_summary
from harness.kube.client import Cluster
from harness.kube.events import Events
from harness.kube.informer import Informers, key_of
from harness.kube.resources import POD
from harness.kube.serving import HttpsServer

Json = dict[str, Any]
HERE = "vmatrix-a"


class Api:
    """Records what is deleted, and how."""

    def __init__(self) -> None:
        self.deleted: list[tuple[str, int | None]] = []

    def delete(self, _: object, name: str, namespace: str, grace: int | None = None) -> None:
        self.deleted.append((name, grace))


def pod(*, node: str = HERE, labels: Json | None = None, deleted: bool = True, container: str = "main") -> Json:
    meta: Json = {"name": "coredns", "namespace": "kube-system", "resourceVersion": "1", "labels": labels or {}}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {"nodeName": node, "containers": [{"name": container}]}}


def deletions(found: Json) -> list[tuple[str, int | None]]:
    api = Api()
    cluster = cast(Cluster, api)
    informers = Informers(cluster)
    strangers = ForeignPods(Context(cluster, informers, cast(Events, None), Path(), 0, (HERE,)))
    informers.of(POD).observe(found)
    strangers.reconcile(key_of(found))
    return api.deleted


def test_a_deleted_one_of_cdis_that_fills_no_claim_goes_too() -> None:
    found = pod(labels={**claims.APP, claims.ROLE: claims.IMPORTER}, container="size-detection-volume")
    assert deletions(found) == [("coredns", 0)]


def test_a_deleted_one_goes_without_its_grace() -> None:
    assert deletions(pod()) == [("coredns", 0)]


@pytest.mark.parametrize(
    "found",
    [
        pod(deleted=False),
        pod(node="vmatrix-a-control-plane"),
        pod(labels=LAUNCHER),
        pod(labels={**claims.APP, claims.ROLE: claims.IMPORTER}, container=claims.IMPORTER),
    ],
    ids=["nobody deletes it", "another node's", "a launcher", "CDI's"],
)
def test_others_stay(found: Json) -> None:
    assert deletions(found) == []


PATH = "/containerLogs/ns/pod/guest-console-log"


@pytest.fixture
def console(tmp_path: Path) -> Path:
    file = tmp_path / "console.log"
    file.write_bytes(b"one\ntwo\nthree\n")
    return file


@pytest.fixture
def server(console: Path) -> Iterator[HttpsServer]:
    """The server without TLS, which its handler does not see."""
    made = HttpsServer(("127.0.0.1", 0), partial(KubeletHandler, lambda *_: console, lambda: {"pods": []}))
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@contextmanager
def asked(server: HttpsServer, query: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request("GET", f"{PATH}?{query}")
    with closing(connection), connection.getresponse() as answer:
        yield answer


@pytest.mark.parametrize(
    ("lines", "said"), [(None, b"one\ntwo\nthree\n"), (2, b"two\nthree\n"), (0, b""), (9, b"one\ntwo\nthree\n")]
)
def test_the_last_lines_are_those_asked_for(console: Path, lines: int | None, said: bytes) -> None:
    assert tail(console, lines) == said


def test_what_comes_to_a_console_is_sent_at_once_and_its_end_is_the_machines(
    server: HttpsServer, console: Path
) -> None:
    with asked(server, "follow=true&tailLines=1") as answer:
        assert answer.readline() == b"three\n"
        with console.open("ab") as written:
            written.write(b"four\n")
        assert answer.readline() == b"four\n"
        console.unlink()
        assert answer.read() == b""


def test_a_console_that_begins_anew_is_read_from_its_beginning(console: Path) -> None:
    looks = iter((True, False))

    def listening(_: float) -> bool:
        console.write_bytes(b"boot\n")
        return next(looks)

    assert list(growth(console, None, listening)) == [b"one\ntwo\nthree\n", b"boot\n"]


def test_nobody_is_served_who_has_gone(server: HttpsServer) -> None:
    with asked(server, "follow=true") as answer:
        assert answer.readline() == b"one\n"
        (serving,) = [thread for thread in threading.enumerate() if "process_request_thread" in thread.name]
    serving.join(timeout=20)
    assert not serving.is_alive()


def test_without_follow_the_answer_is_whole(server: HttpsServer) -> None:
    with asked(server, "tailLines=2") as answer:
        assert (answer.status, answer.getheader("Content-Length"), answer.read()) == (200, "10", b"two\nthree\n")


def test_what_pods_take_is_told_at_the_path_of_kubelets(server: HttpsServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
    connection.request("GET", "/stats/summary")
    with closing(connection), connection.getresponse() as answer:
        assert (answer.status, answer.read()) == (200, b'{"pods": []}')


META = {"name": "p", "namespace": "ns", "uid": "pod-1", "creationTimestamp": "2026-11-26T10:00:00Z"}


def test_it_is_read_as_it_was_meant() -> None:
    memory = Memory(usage=2000 * MIB, working_set=900 * MIB, kept=600 * MIB)
    pod = pod_stats(META, memory, {"root": ("cp-0", 1500 * MIB)})
    told = read_summary(summary_document("n", 4096 * MIB, [pod]))
    assert told == NodeUsage(4096, {"pod-1": PodUsage(memory=900, kept=600, disk=1500)})


def test_a_pod_whose_machine_is_not_there_takes_nothing_that_is_known() -> None:
    assert read_summary(summary_document("n", MIB, [pod_stats(META, None, {})])) == NodeUsage(1, {})
