"""A real etcd on this host with objects as Kubernetes has them, and snapshots of it as backup.yml makes them."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts.listening import free_port
from harness.artifacts.store import Store
from harness.paths import packaged_dir
from harness.until import Deadline, NotYet, until

Json = dict[str, Any]
MODULE = packaged_dir() / "playbooks" / "library" / "etcd_keys.py"
VERSIONS = ("3.7.0", "3.6.8")
START_SECONDS, SECONDS = 30.0, 120.0
# Keys as an API server has them, and one that belongs to no resource.
OBJECTS = {
    "/registry/pods/": 1200,
    "/registry/secrets/": 500,
    "/registry/services/specs/": 100,
    "/registry/services/endpoints/": 100,
    "/registry/cert-manager.io/certificates/": 99,
    "compact_rev_key": 1,
}
WRITES_AT_A_TIME = 100


@dataclass
class Source:
    """The etcd that is backed up. folder: of its data and of what is made of it.  login: options of etcdctl."""

    version: str
    folder: Path
    port: int
    service: proc.Service | None = field(default=None)
    login: tuple[str, ...] = ()

    def program(self, name: str) -> Path:
        """Return etcd or one of its tools."""
        return Store().obtain("etcdutl" if name == "etcdutl" else "etcd", self.version).file(name)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        url = f"http://127.0.0.1:{self.port}"
        argv: list[str | Path] = [*proc.ending_with_us(), self.program("etcd"), f"--data-dir={self.folder / 'source'}"]
        argv += [f"--listen-client-urls={url}", f"--advertise-client-urls={url}", "--snapshot-count=1000"]
        argv += [f"--listen-peer-urls=http://127.0.0.1:{free_port()}", "--unsafe-no-fsync"]
        self.service = proc.spawn(argv, log=self.folder / "source.log")
        until(self._answers, deadline=Deadline.after(START_SECONDS), what="the etcd that is backed up", interval=0.1)

    def stop(self) -> None:
        """Stop it."""
        if self.service is not None:
            self.service.stop(grace=5)

    def _answers(self) -> bool | NotYet:
        try:
            return json.loads(self._call("GET", "/health", None)).get("health") == "true" or NotYet("it is not well")
        except Exception as error:  # noqa: BLE001 - whatever it is: it does not answer yet
            return NotYet(str(error))

    def _call(self, method: str, path: str, asked: Json | None) -> bytes:
        content = json.dumps(asked).encode() if asked is not None else None
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, content)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status == http.client.OK, body
        return body

    def write(self, counts: dict[str, int], word: str = "a") -> None:
        """Write so many keys of each resource."""
        keys = [
            f"{resource}ns/{word}-{number}" if resource.endswith("/") else resource
            for resource, count in counts.items()
            for number in range(count)
        ]
        for first in range(0, len(keys), WRITES_AT_A_TIME):
            puts = [
                {"requestPut": {"key": coded(key), "value": coded(f"{key} is" + " long" * 50)}}
                for key in keys[first : first + WRITES_AT_A_TIME]
            ]
            self._call("POST", "/v3/kv/txn", {"success": puts})

    def delete(self, key: str) -> None:
        """Delete one key."""
        self._call("POST", "/v3/kv/deleterange", {"key": coded(key)})

    def etcdctl(self) -> list[str]:
        """Return how etcdctl asks it."""
        return [str(self.program("etcdctl")), f"--endpoints=http://127.0.0.1:{self.port}", *self.login]

    @contextmanager
    def users(self) -> Iterator[None]:
        """Have it ask everybody who he is."""
        for words in ("user add root:secret", "user grant-role root root", "auth enable"):
            proc.run([*self.etcdctl(), *words.split()], timeout=SECONDS)
        self.login = ("--user=root:secret",)
        try:
            yield
        finally:
            proc.run([*self.etcdctl(), "auth", "disable"], timeout=SECONDS)
            self.login = ()

    def snapshot(self, name: str = "taken.db") -> Path:
        """Save a snapshot; return its file."""
        target = self.folder / name
        proc.run([*self.etcdctl(), "snapshot", "save", target], timeout=SECONDS, log=self.folder / "save.log")
        return target

    def status(self, snapshot: Path) -> Json:
        """Return what etcdutl says of a snapshot."""
        argv: list[str | Path] = [self.program("etcdutl"), "--write-out=json", "snapshot", "status", snapshot]
        found: Json = json.loads(proc.run(argv, timeout=SECONDS).stdout)
        return found

    def backup(self, name: str = "taken.db") -> tuple[Path, Json]:
        """Save and describe a snapshot as the role etcd_backup does."""
        target = self.snapshot(name)
        status = self.status(target)
        found = call({"etcdctl": self.etcdctl(), "revision": status["revision"]})
        assert not found.get("failed"), found
        facts = {"revision": status["revision"], "hash": status["hash"], "keys": status["totalKey"]}
        return target, {**facts, "objects": found["objects"], "counts": found["counts"]}

    def prove(self, snapshot: Path, described: Json) -> Json:
        """Return what the module says of a snapshot."""
        programs = {name: str(self.program(name)) for name in ("etcd", "etcdutl")}
        place = {"snapshot": str(snapshot), "folder": str(self.folder / "drill")}
        found = call({**place, **programs, "described": described})
        assert list((self.folder / "drill").glob("*")) == [], "nothing of the drill is left"
        return found


def coded(text: str) -> str:
    """Return a text as etcd's JSON has it."""
    return base64.b64encode(text.encode()).decode()


def call(arguments: Json) -> Json:
    """Run the module in a Python of its own; return what it says."""
    given = json.dumps({"ANSIBLE_MODULE_ARGS": arguments})
    ended = subprocess.run(
        [sys.executable, MODULE], input=given, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    found: Json = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


@pytest.fixture(scope="module", params=VERSIONS)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """Return a running etcd with 2000 objects."""
    made = Source(request.param, tmp_path_factory.mktemp("etcd"), free_port())
    made.start()
    try:
        made.write(OBJECTS)
        yield made
    finally:
        made.stop()
