"""What people are shown of EtcdBackups, and copies of their snapshots out of claims and buckets."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app, operator
from harness.errors import BadInput, InfraError, VmatrixError
from harness.kube.resources import JOB, POD, SECRET
from harness.operator import backups
from harness.operator.api.resources import ETCD_BACKUP, SCHEDULED_LABEL
from harness.operator.backups import age_text, copy_snapshot, row_of, rows
from tests.unit.fake_cluster import FakeCluster
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

    monkeypatch.setattr(backups, "open_stream", opened)
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

    monkeypatch.setattr(backups, "Bucket", PlainBucket)
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


def test_what_a_drill_has_shown_is_shown() -> None:
    proven = {"type": "Proven", "status": "False", "reason": "DrillFailed", "message": "keys differ"}
    one = backup(**FACTS, objects=2, conditions=[{**proven, "lastTransitionTime": MADE}])
    row = row_of(one, NOW)
    assert (row.phase, row.objects, row.drill, row.said) == ("Verified", 2, "keys differ", "")
    assert row_of(backup(**FACTS), NOW).drill == ""
