"""Real builds by the programs of a build's pod: fetched from git servers, built without rights, pushed, signed."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from harness import proc
from harness.artifacts.listening import free_port
from harness.artifacts.recipe import silent
from harness.artifacts.registry import command
from harness.artifacts.store import Store
from harness.operator.build import attestation, oci, signature
from harness.operator.build.job import BuildReport
from harness.operator.execute.objects import USER
from harness.until import Deadline
from tests.embedded.deliveries.git_servers import Repository
from tests.embedded.deliveries.host import BuildHost

SMALL = b'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n'


def pause() -> bytes:
    """Return a static program."""
    return Store().obtain("pause", "3.10.2").file("pause").read_bytes()


def source(host: BuildHost, **more: Any) -> dict[str, Any]:
    """Return the repository as a source, over HTTPS."""
    return {"git": host.servers.https("app"), "secretRef": {"name": "git"}, **more}


def registry_of(host: BuildHost, image: str) -> oci.Repository:
    """Return the repository of an image."""
    return oci.Repository(host.registry, oci.split(image)[1], Deadline.after(60.0), insecure=True)


def test_a_static_program_is_built_over_https_and_over_ssh(host: BuildHost, repository: Repository) -> None:
    revision = repository.commit({"Dockerfile": SMALL, "pause": pause()})
    report, output = host.deliver(host.delivery(source(host), {}), revision)
    assert report.outcome == "succeeded", output
    assert (report.stage, report.revision) == ("Pushed", revision)
    assert revision[:12] in host.tags()
    found = registry_of(host, report.image).manifest(revision[:12])
    assert found is not None
    assert report.image == f"{host.registry}/app@{found[1]}"
    host.secret("git", host.servers.ssh_secret())
    try:
        by_ssh, output = host.deliver(host.delivery(source(host, git=host.servers.ssh("app")), {}), revision)
    finally:
        host.secret("git", host.servers.https_secret())
    assert by_ssh == report, output
    for secret in ("an-open-secret", "PRIVATE KEY"):
        assert secret not in output


def test_two_builds_have_the_same_digest(host: BuildHost, repository: Repository) -> None:
    text = f"FROM {host.registry}/busybox:1\nCOPY a /srv/a\nRUN mkdir /made && date > /made/x && rm /made/x\n"
    revision = repository.commit({"Dockerfile": text.encode(), "a": b"1"})
    delivery = host.delivery(source(host), {"cache": "None"})
    first, output = host.deliver(delivery, revision)
    assert first.outcome == "succeeded", output
    host.stop()
    for name in ("state", "sockets"):
        folder = host.root / name
        folder.rename(host.root / f"{name}-before")  # another daemon, which has built nothing
        folder.mkdir()
        os.chown(folder, USER, USER)
    host.start()
    second, output = host.deliver(delivery, revision)
    assert "CACHED" not in output
    assert second.image == first.image


def test_an_image_is_signed_and_described(host: BuildHost, repository: Repository) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"word"))
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    host.secret("signing", {"cosign.key": pem, "cosign.password": b"word\n", "cosign.pub": public})
    text = f"FROM {host.registry}/busybox:1\nCOPY METADATA /usr/lib/python3/dist-packages/app-1.dist-info/METADATA\n"
    revision = repository.commit({"Dockerfile": text.encode(), "METADATA": b"Name: The_App\nVersion: 1.2\n\ntext\n"})
    report, output = host.deliver(host.delivery(source(host), {"signingSecretRef": {"name": "signing"}}), revision)
    assert report.outcome == "succeeded", output
    signature.verify(report.image, public, insecure=True)
    with pytest.raises(signature.SignatureMissing):
        signature.verify(f"{host.registry}/busybox@sha256:{'0' * 64}", public, insecure=True)
    registry = registry_of(host, report.image)
    documents = {}
    for entry in registry.referrers(report.image.partition("@")[2]):
        found = registry.manifest(entry["digest"])
        assert found is not None
        documents[entry["artifactType"]] = json.loads(registry.blob(found[0]["layers"][0]["digest"]))
    statement, bom = documents[attestation.STATEMENT], documents[attestation.SBOM]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["resolvedDependencies"][0]["digest"] == {"gitCommit": revision}
    assert definition["resolvedDependencies"][1]["uri"].endswith("/busybox:1")
    assert "pkg:pypi/the-app@1.2" in [one["purl"] for one in bom["components"]]


FILES: dict[str, bytes] = {"Dockerfile": SMALL, "pause": b"x"}
BAD: dict[str, tuple[dict[str, bytes], dict[str, Any], str, str]] = {  # files, build, reason, line
    "no Dockerfile": ({}, {"dockerfile": "docker/Dockerfile"}, "DockerfileMissing", ""),
    "a binary": ({"Dockerfile": b"FROM scratch\n\x7fELF\xff\n"}, {}, "DockerfileBinary", "line 2"),
    "a word": ({"Dockerfile": b"FROM scratch\nCOPPY a b\n"}, {}, "DockerfileBroken", "line 2: COPPY a b"),
    "an option": ({"Dockerfile": b"FROM scratch\nCOPY --nothing=1 a b\n"}, {}, "DockerfileBroken", "Dockerfile:2"),
    "another registry": ({"Dockerfile": b"FROM python:3\n"}, {}, "BaseImageNotAllowed", "line 1: FROM python:3"),
    "an image that is not there": (
        {"Dockerfile": b"FROM {registry}/none:1\n"},
        {},
        "BaseImageNotFound",
        "Dockerfile:1",
    ),
    "a file that is not there": ({"Dockerfile": b"FROM scratch\nCOPY none /\n"}, {}, "FileNotFound", "Dockerfile:2"),
    "a command": (
        {"Dockerfile": b"FROM {registry}/busybox:1\nRUN echo why >&2; exit 3\n"},
        {},
        "InstructionFailed",
        "Dockerfile:2: RUN echo why >&2; exit 3",
    ),
    "a stage": ({}, {"target": "none"}, "TargetNotFound", ""),
    "a context": ({}, {"context": "none"}, "SubPathNotFound", ""),
    "a frontend": ({}, {"args": {"BUILDKIT_SYNTAX": "evil/x"}}, "BaseImageNotAllowed", ""),
    "a key": ({}, {"signingSecretRef": {"name": "none"}}, "BadSigningKey", ""),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_built_is_refused_with_its_line(host: BuildHost, repository: Repository, case: str) -> None:
    files, build, reason, line = BAD[case]
    content = {**FILES, **files}
    content = {name: text.replace(b"{registry}", host.registry.encode()) for name, text in content.items()}
    host.secret("signing", {})
    revision = repository.commit(content)
    report, output = host.deliver(host.delivery(source(host), build), revision)
    assert (report.outcome, report.reason) == ("failed", reason), output
    assert report.line.startswith(line), report
    assert not report.transient
    assert not report.image
    assert revision[:12] not in host.tags()


def test_a_registry_that_is_away_is_waited_for(host: BuildHost, repository: Repository) -> None:
    revision = repository.commit({"Dockerfile": SMALL, "pause": pause()})
    address, reports = f"127.0.0.1:{free_port()}", list[tuple[BuildReport, str]]()
    delivery = host.delivery(source(host), {"image": f"{address}/app", "cache": "None"})
    work = threading.Thread(target=lambda: reports.append(host.deliver(delivery, revision)))
    work.start()
    work.join(12.0)
    assert not reports, "it did not wait"
    root = host.root.parent / "late"
    start = command(address, root, Store(), silent, read_only=False)
    late = proc.spawn([*proc.ending_with_us(), *start.argv], log=root / "log", env=start.env)
    try:
        work.join(60.0)
        (report, output), *_ = reports
        assert report.outcome == "succeeded", output
        assert "does not answer" in output
    finally:
        late.stop(grace=5.0)


def test_a_registry_that_takes_nothing_is_named(host: BuildHost, repository: Repository) -> None:
    address, root = f"127.0.0.1:{free_port()}", host.root.parent / "closed"
    start = command(address, root, Store(), silent, read_only=True)
    closed = proc.spawn([*proc.ending_with_us(), *start.argv], log=root / "log", env=start.env)
    try:
        delivery = host.delivery(source(host), {"image": f"{address}/app", "cache": "None"})
        report, output = host.deliver(delivery, repository.head())
        assert (report.outcome, report.reason, report.stage) == ("failed", "PushRefused", "Fetched"), output
    finally:
        closed.stop(grace=5.0)
