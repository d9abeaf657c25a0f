"""A real S3 server on this host, over a folder: with versions, locks, TLS, and room for as much as a test wants."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness import proc
from harness.artifacts.listening import free_port
from harness.artifacts.store import Store
from harness.kube.certificates import authority, leaf, pem_of
from harness.operator.api.etcd import S3Destination
from harness.operator.execute.object_store import Bucket
from harness.until import Deadline, NotYet, until

PROGRAM, VERSION = "versitygw", "1.8.0"
ACCESS, SECRET = "backups", "a-secret-of-the-test"
LOOPBACK = "127.0.0.1"
START_SECONDS, MOUNT_SECONDS = 30.0, 10.0
DAY = timedelta(days=1)


@dataclass
class Gateway:
    """The server. folder: what it has.  secrets: of its administrator, as an executor's pod has them.

    host: the address at which it listens.  inside: the network namespace that has it, "" for this host.
    """

    folder: Path
    secrets: Path
    port: int
    host: str = LOOPBACK
    inside: str = ""
    ca: bytes = b""
    service: proc.Service | None = field(default=None)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = Store().obtain(PROGRAM, VERSION).file(PROGRAM)
        tls: list[str | Path] = ["--cert", self.folder / "tls.crt", "--key", self.folder / "tls.key"] if self.ca else []
        argv: list[str | Path] = [
            *proc.ending_with_us(),
            *(["ip", "netns", "exec", self.inside] if self.inside else []),
            program,
            "--port",
            f"{self.host}:{self.port}",
            "--access",
            ACCESS,
        ]
        argv += ["--secret", SECRET, *tls, "--quiet", "posix", "--versioning-dir", self.folder / "versions"]
        self.service = proc.spawn([*argv, self.folder / "data"], log=self.folder / "gateway.log")
        until(self._answers, deadline=Deadline.after(START_SECONDS), what="the S3 server", interval=0.1)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self.service is not None:
            self.service.stop(grace=5)
            self.service = None

    def destination(self, bucket: str, **more: Any) -> S3Destination:
        """Return a destination in one of its buckets."""
        ca = {"caSecretRef": {"name": "ca", "key": "ca.crt"}} if self.ca else {}
        scheme = "https" if self.ca else "http"
        where = {
            "bucket": bucket,
            "prefix": "etcd",
            "endpoint": f"{scheme}://{self.host}:{self.port}",
            "pathStyle": True,
        }
        return S3Destination.model_validate({**where, "secretRef": {"name": "keys"}, **ca, **more})

    def bucket(self, name: str, *, make: bool = True, locks: bool = False, **more: Any) -> Bucket:
        """Return a bucket, which is made unless it is there."""
        opened = Bucket.open(self.destination(name, **more), self.secrets)
        if make:
            opened.client.create_bucket(Bucket=name, **({"ObjectLockEnabledForBucket": True} if locks else {}))
        return opened

    def _answers(self) -> bool | NotYet:
        assert self.service is not None
        assert self.service.alive(), (self.folder / "gateway.log").read_text(encoding="utf-8")
        with socket.socket() as probe:
            return probe.connect_ex((self.host, self.port)) == 0 or NotYet("nobody listens")


def secrets_in(folder: Path, **keys: bytes) -> Path:
    """Write Secrets as an executor's pod has them; more keys by their file."""
    (folder / "credentials").mkdir(parents=True, exist_ok=True)
    for name, value in {"accessKeyId": ACCESS, "secretAccessKey": SECRET}.items():
        (folder / "credentials" / name).write_text(value, encoding="utf-8")
    for name, content in keys.items():
        (folder / name.replace("_", ".")).write_bytes(content)
    return folder


@contextmanager
def gateways(temporary: pytest.TempPathFactory) -> Iterator[Callable[..., Gateway]]:
    """Give what starts servers; all of them are stopped at the end.

    tls: whether it has a certificate of its own CA.  megabytes: how much fits into its buckets.  host, inside: as of a
    Gateway.
    """
    started: list[Gateway] = []
    mounted: list[Path] = []

    def begin(*, tls: bool = False, megabytes: int | None = None, host: str = LOOPBACK, inside: str = "") -> Gateway:
        folder = temporary.mktemp("s3")
        for name in ("data", "versions"):
            (folder / name).mkdir()
        if megabytes is not None:
            size = ["-o", f"size={megabytes}m"]
            proc.run(["mount", "-t", "tmpfs", *size, "s3-of-a-test", folder / "data"], timeout=MOUNT_SECONDS)
            mounted.append(folder / "data")
        signer = authority("authority", datetime.now(UTC), DAY) if tls else None
        made = Gateway(folder, secrets_in(folder / "secrets"), free_port(), host, inside=inside)
        if signer is not None:
            certificate, key = leaf(signer, "server", now=datetime.now(UTC), lifetime=DAY, names=[host])
            made.ca = pem_of(signer[0])
            (folder / "tls.crt").write_bytes(pem_of(certificate))
            (folder / "tls.key").write_bytes(pem_of(key))
            secrets_in(folder / "secrets", ca_crt=made.ca)
        started.append(made)
        made.start()
        return made

    try:
        yield begin
    finally:
        for one in started:
            one.stop()
        for path in mounted:
            proc.run(["umount", path], timeout=MOUNT_SECONDS)
