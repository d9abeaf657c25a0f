"""What people are shown of EtcdBackups, copies of their snapshots by a pod, and a Delivery that is waited for."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from harness.cli import app, operator
from harness.errors import BadInput, InfraError, ProductError, VmatrixError
from harness.kube.client import Cluster
from harness.kube.resources import JOB, POD, SECRET
from harness.operator import commands
from harness.operator.api.delivery import DeliveryStatus
from harness.operator.api.resources import DELIVERY, ETCD_BACKUP, SCHEDULED_LABEL
from harness.operator.commands import age_text, copy_snapshot, declared_in, deliver, row_of, rows
from tests.unit.fake_cluster import FakeCluster
from tests.unit.operator.api.deliveries import GIT, delivery
from tests.unit.operator.controllers.backed_up import backup
from tests.unit.operator.execute.etcd_files import snapshot_of

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MADE = "2026-01-01T00:00:00Z"
CONTENT = snapshot_of(blocks=300)
FACTS: dict[str, Any] = {
    "phase": "Verified",
    "location": "claim:guest/a.db",
    "taken": MADE,
    "sizeBytes": len(CONTENT),
    "keys": 3,
    "sha256": hashlib.sha256(CONTENT).hexdigest(),
}
EXECUTOR = {"spec": {"containers": [{"name": "executor", "image": "registry.invalid/vmatrix:1"}]}}
SAID = {"type": "Verified", "status": "False", "reason": "Missing", "message": "its claim is gone"}
MISSING: dict[str, Any] = {"phase": "Missing", "conditions": [{**SAID, "lastTransitionTime": MADE}]}


class Stream:
    """The stream of an exec: messages, each of which begins with its channel."""

    def __init__(self, *messages: bytes) -> None:
        self._messages = list(messages)

    def recv(self) -> bytes:
        return self._messages.pop(0) if self._messages else b""

    def close(self) -> None:
        pass


def end(status: str = "Success", message: str = "") -> bytes:
    return b"\x03" + json.dumps({"status": status, "message": message}).encode()


def chunks(content: bytes) -> list[bytes]:
    return [b"\x01", *(b"\x01" + content[at : at + 65536] for at in range(0, len(content), 65536))]


class PodCluster(FakeCluster):
    """A cluster whose pods have the phase that a test wants at once."""

    def __init__(self, *found: dict[str, Any], pod: str = "Running", jobs: int = 1) -> None:
        labels = {"cluster.vmatrix.dev/cluster": "guest"}
        meta = {"name": "guest-1-backup", "namespace": "default", "labels": labels, "creationTimestamp": MADE}
        made = [{"metadata": meta, "spec": {"template": EXECUTOR}}] * jobs
        super().__init__({ETCD_BACKUP: list(found), JOB: made})
        self.phase, self.pods = pod, list[dict[str, Any]]()

    def create_if_absent(self, resource: Any, body: Any) -> bool:
        self.pods.append(body)
        return super().create_if_absent(resource, {**body, "status": {"phase": self.phase}})

    def events_of(self, namespace: str, name: str) -> list[str]:
        return ["FailedScheduling: 0/1 nodes"]


def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: PodCluster, *messages: bytes) -> int:
    asked: list[str] = []

    def opened(cluster: Any, path: str, **options: Any) -> Stream:
        asked.append(path)
        return Stream(*messages)

    monkeypatch.setattr(commands, "open_stream", opened)
    try:
        return copy_snapshot(there, "default", "a", tmp_path / "a.db", None)
    finally:
        assert there.all(POD) == [], "the pod is gone, whatever happened"
        assert not (tmp_path / "a.db.part").exists()
        wanted = "/pods/a-copy/exec?container=executor&stdout=true&stderr=true&command=cat&command=%2Fvar%2Flib"
        assert all(wanted in path for path in asked)


def test_a_snapshot_is_copied_by_a_pod_that_only_reads_and_is_the_one_that_was_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = PodCluster(backup("a", made=MADE, **FACTS))
    assert copied(tmp_path, monkeypatch, there, *chunks(CONTENT), end()) == len(CONTENT)
    assert (tmp_path / "a.db").read_bytes() == CONTENT
    assert (tmp_path / "a.db").stat().st_mode & 0o777 == 0o600
    (pod,) = there.pods
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry.invalid/vmatrix:1"
    assert container["volumeMounts"] == [
        {"name": "snapshots", "mountPath": "/var/lib/vmatrix/snapshots", "readOnly": True}
    ]
    assert pod["spec"]["activeDeadlineSeconds"] == 3600
    assert "cluster.vmatrix.dev/cluster" not in pod["metadata"]["labels"], "nobody takes it for an executor"


# What goes wrong: messages of the stream, and words of the error.
TROUBLE: dict[str, tuple[list[bytes], str]] = {
    "another content": ([*chunks(CONTENT[:-1] + b"x"), end()], "is not the snapshot that was verified"),
    "a part": ([*chunks(CONTENT[:-512]), end()], "is not the snapshot that was verified"),
    "another snapshot": ([*chunks(snapshot_of(b"other")), end()], "is not the snapshot that was verified"),
    "no file": ([b"\x02cat: no such file\n", end("Failure", "exit code 1")], "cannot be read: cat: no such file"),
    "no command": ([end("Failure", "exec: cat not found")], "cannot be read: exec: cat not found"),
    "a lost connection": (chunks(CONTENT), "the connection to pod a-copy was lost"),
}


@pytest.mark.parametrize("case", TROUBLE)
def test_a_copy_that_is_not_whole_is_no_file(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    messages, words = TROUBLE[case]
    with pytest.raises(InfraError, match=words):
        copied(tmp_path, monkeypatch, PodCluster(backup("a", made=MADE, **FACTS)), *messages)
    assert not (tmp_path / "a.db").exists()


# What there is, and words of the refusal.
REFUSED: dict[str, tuple[PodCluster, str]] = {
    "no such backup": (PodCluster(backup("b", made=MADE)), "there is no EtcdBackup a in namespace default"),
    "not verified": (PodCluster(backup("a", made=MADE, phase="Running")), "EtcdBackup a is Running"),
    "missing": (PodCluster(backup("a", made=MADE, **MISSING)), "EtcdBackup a is Missing: its claim is gone"),
    "no image": (PodCluster(backup("a", made=MADE, **FACTS), jobs=0), "no Job of cluster guest is left"),
    "a pod that ended": (PodCluster(backup("a", made=MADE, **FACTS), pod="Failed"), "has ended before"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_copied_is_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, words = REFUSED[case]
    with pytest.raises(VmatrixError, match=words):
        copied(tmp_path, monkeypatch, there)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.db").write_text("hers", encoding="utf-8")
    with pytest.raises(BadInput, match=r"a\.db is there already"):
        copied(tmp_path, monkeypatch, PodCluster(backup("a", made=MADE, **FACTS)))
    assert (tmp_path / "a.db").read_text(encoding="utf-8") == "hers"
    with pytest.raises(BadInput, match="there is no folder"):
        copy_snapshot(PodCluster(backup("a", made=MADE, **FACTS)), "default", "a", tmp_path / "x" / "a.db", "image")


S3 = {"bucket": "backups", "endpoint": "https://s3.test", "secretRef": {"name": "keys"}}
IN_BUCKET = {**FACTS, "location": "https://s3.test/backups:guest/a.db", "s3": S3}


def test_a_snapshot_of_a_bucket_is_copied_with_the_keys_of_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, str] = {}

    class PlainBucket:
        @staticmethod
        def open(where: Any, secrets: Path) -> PlainBucket:
            opened.update(
                {path.name: path.read_text(encoding="utf-8") for path in secrets.rglob("*") if path.is_file()}
            )
            return PlainBucket()

        def download(self, file: str, target: Path) -> None:
            opened["file"] = file
            target.write_bytes(CONTENT)

    monkeypatch.setattr(commands, "Bucket", PlainBucket)
    there = PodCluster(backup("a", made=MADE, **IN_BUCKET))
    with pytest.raises(BadInput, match="there is no Secret keys in namespace default"):
        copied(tmp_path, monkeypatch, there)
    data = {"accessKeyId": base64.b64encode(b"a").decode(), "secretAccessKey": base64.b64encode(b"s").decode()}
    there.put(SECRET, {"metadata": {"name": "keys", "namespace": "default"}, "data": data})
    assert copied(tmp_path, monkeypatch, there) == len(CONTENT)
    assert opened == {"accessKeyId": "a", "secretAccessKey": "s", "file": "guest/a.db"}
    assert there.pods == []


def test_backups_are_listed_by_cluster_the_newest_first_and_those_to_come_before_them() -> None:
    of = {"old": "2026-01-01T00:00:00Z", "new": "2026-01-01T22:00:00Z"}
    found = [backup(name, made=MADE, phase="Verified", taken=taken) for name, taken in of.items()]
    found += [backup("wish", made=MADE), backup("other", made=MADE, cluster="a-cluster")]
    found[0]["metadata"]["labels"] = {SCHEDULED_LABEL: "20260101-0000"}
    found[1]["metadata"]["labels"] = {"cluster.vmatrix.dev/before": "d"}
    seen = rows(FakeCluster({ETCD_BACKUP: found}), "default", None, NOW)
    assert [one.name for one in seen] == ["other", "wish", "new", "old"]
    assert {one.name: one.origin for one in seen} == {
        "other": "person",
        "wish": "person",
        "new": "upgrade",
        "old": "schedule",
    }
    assert [one.age_seconds for one in seen] == [None, None, 7200.0, 86400.0]
    assert [one.name for one in rows(FakeCluster({ETCD_BACKUP: found}), "default", "a-cluster", NOW)] == ["other"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (-5, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d"), (1e7, "115d")],
)
def test_age(seconds: float | None, text: str) -> None:
    assert age_text(seconds) == text


def test_why_a_backup_is_not_verified_is_in_its_row() -> None:
    assert row_of(backup("a", made=MADE, **MISSING), NOW).said == "its claim is gone"


runner = CliRunner()


@pytest.mark.parametrize("as_json", [False, True])
def test_the_commands_show_tables_or_json(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    there = FakeCluster({ETCD_BACKUP: [backup("a", made=MADE, **FACTS), backup("b", made=MADE, **MISSING)]})
    monkeypatch.setattr(operator, "open_usual", lambda _: there)
    monkeypatch.setattr(operator, "usual_namespace", lambda _: "default")
    more = ["--json"] if as_json else []
    listed = runner.invoke(app, ["operator", "backup", "list", *more])
    shown = runner.invoke(app, ["operator", "backup", "show", "a", *more])
    assert (listed.exit_code, shown.exit_code) == (0, 0)
    if as_json:
        assert [one["name"] for one in json.loads(listed.stdout)] == ["b", "a"]
        assert json.loads(shown.stdout)["size_bytes"] == len(CONTENT)
    else:
        assert "claim:guest/a.db" in listed.stdout
        assert "its claim is gone" in listed.stdout
        assert f"size bytes: {len(CONTENT)}" in shown.stdout
    nothing = runner.invoke(app, ["operator", "backup", "list", "--cluster", "x"])
    assert "there is no EtcdBackup" in nothing.stdout


Json = dict[str, Any]
A = "a" * 40


def written(folder: Path, *bodies: Json) -> Path:
    """Return a file with objects."""
    file = folder / "delivery.yml"
    file.write_text(yaml.safe_dump_all(bodies), encoding="utf-8")
    return file


def test_the_revision_takes_the_place_of_a_branch_or_tag(tmp_path: Path) -> None:
    body = delivery(source={"branch": "main"})
    del body["metadata"]["namespace"]
    made = declared_in(written(tmp_path, {"kind": "Secret"}, body), A, "here")
    assert made["spec"]["source"] == {"git": GIT, "revision": A}
    assert made["metadata"]["namespace"] == "here"
    assert declared_in(written(tmp_path, delivery()), A, "here")["metadata"]["namespace"] == "team"


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        ([], "has no objects of kind Delivery"),
        ([delivery(), delivery("b")], "has 2 objects of kind Delivery"),
        ([delivery(source={"git": "file:///x"})], "spec.source.git: it is not the address of a git repository"),
        ([{**delivery(), "spec": 7}], "spec: "),
        ([{**delivery(), "metadata": 7}], "metadata"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, bodies: list[Json], words: str) -> None:
    with pytest.raises(BadInput) as refused:
        declared_in(written(tmp_path, *bodies), A, "here")
    assert words in refused.value.summary


def condition(kind: str, status: str, reason: str, message: str = "") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "x"}


class Operated(FakeCluster):
    """An API in which an operator writes statuses, one after each look."""

    def __init__(self, *statuses: Json) -> None:
        super().__init__()
        self._left = list(statuses)

    def get(self, resource: Any, name: str, namespace: str | None = None) -> Json | None:
        """Return the object with the next status."""
        found = super().get(resource, name, namespace)
        if found is not None and self._left:
            asked = found["metadata"]["annotations"]["delivery.vmatrix.dev/reconcile"]
            found = self.put(resource, {**found, "status": {"reconciled": asked, **self._left.pop(0)}})
        return found


def state(outcome: str = "", *conditions: Json, generation: int = 1, **entry: Any) -> Json:
    history = [{"revision": A, "outcome": outcome, **entry}] if outcome else []
    runs = {"revision": A, "image": "i", "url": "u"} if outcome == "Ready" else {}
    return {"history": history, "conditions": list(conditions), "observedGeneration": generation, **runs}


READY, BUILDING = condition("Ready", "True", "Delivered", "it runs"), condition("Ready", "False", "Building", "Job x")
BODY = delivery(source={"revision": A})


def delivered(monkeypatch: pytest.MonkeyPatch, *statuses: Json) -> tuple[DeliveryStatus, list[str]]:
    monkeypatch.setattr(commands, "LOOK_SECONDS", 0.0)
    lines: list[str] = []
    return deliver(Operated(*statuses), BODY, seconds=30, show=lines.append), lines


def test_each_change_is_shown_until_the_revision_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {**state("", READY, generation=0), "revision": "b" * 40}
    status, lines = delivered(
        monkeypatch, old, state("Building", BUILDING), state("Building", BUILDING), state("Ready", READY)
    )
    assert (status.image, status.url) == ("i", "u")
    assert lines == ["Building: Job x", "Delivered: it runs"]


@pytest.mark.parametrize("outcome", ["BuildFailed", "RolledBack", "Failed"])
def test_a_revision_that_fails_is_the_products_with_its_line_and_its_log(
    monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    with pytest.raises(ProductError) as failed:
        delivered(monkeypatch, state(outcome, BUILDING, reason="Why", message="words", line="3: x"))
    assert failed.value.summary == f"aaaaaaaaaaaa: {outcome}: Why: words: 3: x"
    assert failed.value.hint == "vmatrix operator log -n team shop aaaaaaaaaaaa"


def test_what_failed_before_is_not_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {**state("BuildFailed", BUILDING), "reconciled": "earlier"}
    assert delivered(monkeypatch, before, state("Ready", READY))[0].revision == A


def test_a_build_that_is_tried_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    passing = state("BuildFailed", BUILDING, transient=True, attempts=1)
    assert delivered(monkeypatch, passing, state("Ready", READY))[0].revision == A
    with pytest.raises(ProductError):
        delivered(monkeypatch, state("BuildFailed", BUILDING, transient=True, attempts=8))


def test_what_the_operator_refuses_and_what_is_deleted_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"spec\.source\.git: no"):
        delivered(monkeypatch, state("", condition("Accepted", "False", "Invalid", "spec.source.git: no")))
    monkeypatch.setattr(Operated, "get", lambda *_: None)
    with pytest.raises(InfraError, match="was deleted meanwhile"):
        delivered(monkeypatch)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    def played(cluster: Cluster, body: Json, **options: Any) -> DeliveryStatus:
        calls.append((body["spec"]["source"]["revision"], options["seconds"]))
        return DeliveryStatus(image="i@sha256:0", url="http://shop/")

    monkeypatch.setattr(operator, "deliver_revision", played)
    monkeypatch.setattr(operator, "open_usual", lambda _: FakeCluster())
    return calls


def test_the_command_tells_gitlab_where_it_answers(asked: list[Any], tmp_path: Path) -> None:
    words = ["operator", "deliver", str(written(tmp_path, delivery())), "--revision", A, "-n", "team"]
    told = CliRunner().invoke(app, [*words, "--dotenv", str(tmp_path / "env")], catch_exceptions=False)
    assert asked == [(A, 1800.0)]
    assert told.stdout == "image  i@sha256:0\nurl    http://shop/\n"
    text = (tmp_path / "env").read_text(encoding="utf-8")
    assert text == "DELIVERY_URL=http://shop/\nDELIVERY_IMAGE=i@sha256:0\n"


@pytest.mark.parametrize("revision", ["main", "a" * 12, "A" * 40])
def test_a_revision_that_may_mean_several_is_refused(asked: list[Any], tmp_path: Path, revision: str) -> None:
    refused = CliRunner().invoke(app, ["operator", "deliver", str(tmp_path / "none.yml"), "--revision", revision])
    assert "is not a full SHA" in str(refused.exception)
    assert asked == []
    assert DELIVERY.kind == "Delivery"
