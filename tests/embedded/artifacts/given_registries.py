"""Registries as other people run them: the real program, on an address that is not the loopback's first, on request
with a certificate of its own authority and with users.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import proc
from harness.artifacts import refs
from harness.artifacts.listening import GRACE_SECONDS, READY_SECONDS, listens
from harness.artifacts.store import Store
from harness.until import Deadline, NotYet, until

# Clients take 127.0.0.1 and private networks for registries that may speak plain HTTP, and this one for any other host.
HOST = "127.0.0.2"
USER, PASSWORD = "robot", "right"
HASHED = "robot:$2b$04$Gutj1AAcQ.7x4AE.961TUuB34NoLwRNLkkYilFTeWH2v/2rbUYqWK\n"  # as htpasswd writes them
OPENSSL_SECONDS = 30.0  # against hanging
PLAIN = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}/storage}}, maintenance: {{readonly: {{enabled: {read_only}}}}}}}
"""
GUARDED = """\
http: {{secret: one, tls: {{certificate: {folder}/certificate.pem, key: {folder}/key.pem}}}}
auth: {{htpasswd: {{realm: registry, path: {folder}/users}}}}
"""


@contextmanager
def registry(folder: Path, *, guarded: bool, read_only: bool = False) -> Iterator[str]:
    """Run a registry as long as the body runs; give its address.

    Args:
        guarded: it speaks TLS with the certificate `certificate.pem` in its folder, and USER may push.
        read_only: it takes nothing, as those of infra clusters.
    """
    store = Store()
    wanted = refs.newest(store.catalogue, "registry")
    program = store.obtain(wanted.name, wanted.version).file("registry")
    text = PLAIN + (GUARDED if guarded else "http: {{secret: one}}\n")
    (folder / "config.yml").write_text(text.format(folder=folder, read_only=str(read_only).lower()), encoding="utf-8")
    if guarded:
        certify(folder)
        (folder / "users").write_text(HASHED, encoding="utf-8")
    with socket.create_server((HOST, 0)) as probe:
        address = f"{HOST}:{probe.getsockname()[1]}"
    environment = {"OTEL_TRACES_EXPORTER": "none", "REGISTRY_HTTP_ADDR": address}
    service = proc.spawn([program, "serve", folder / "config.yml"], env=environment, log=folder / "log")

    def answers() -> bool | NotYet:
        assert service.alive(), (folder / "log").read_text(encoding="utf-8")
        return listens(address)

    try:
        until(answers, deadline=Deadline.after(READY_SECONDS), what=f"a registry at {address}")
        yield address
    finally:
        service.stop(grace=GRACE_SECONDS)


def certify(folder: Path) -> None:
    """Make a certificate for HOST that no authority of this host vouches for."""
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    argv += ["-keyout", "key.pem", "-out", "certificate.pem", "-subj", "/CN=registry"]
    argv += ["-addext", f"subjectAltName=IP:{HOST}"]
    subprocess.run(argv, cwd=folder, capture_output=True, timeout=OPENSSL_SECONDS, check=True)
