"""Images from a real registry: pushed once, found again, pulled whole; and what kubeadm asks for is what there is.

Needs the artifacts of the newest Kubernetes version (`vmatrix artifacts build --kubernetes VERSION`); builds them if
they are not there.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts import catalogue, refs
from harness.artifacts.product.images import Upload
from harness.artifacts.recipe import Ref
from harness.artifacts.registry import Published, digest_in, publish_images, registry_command, writable
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until
from tests.image_archives import docker_files, oci_files, write_layout, write_tar

VERSION = "1.36.3"


@pytest.fixture(scope="module")
def store() -> Store:
    return Store()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the registry's images."""
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(scope="module")
def registry(store: Store, folder: Path) -> Iterator[str]:
    """Yield the address of an empty registry."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = registry_command(address, folder, store=store)
    service = proc.spawn(command.argv, env=command.env, log=folder / "log")

    def answers() -> bool | NotYet:
        if not service.alive():
            raise AssertionError((folder / "log").read_text())
        try:
            digest_in(address, "none", "none")
        except InfraError as error:
            return NotYet(error.summary)
        return True

    try:
        until(answers, deadline=Deadline.after(15), what="the registry to answer", interval=0.05)
        yield address
    finally:
        service.stop(grace=5)


def publish(store: Store, registry: str, folder: Path) -> tuple[Published, ...]:
    return publish_images(refs.images(store.catalogue, VERSION), registry, root=folder, store=store)


def crane(store: Store, *words: str) -> str:
    ref = refs.newest(store.catalogue, "crane")
    program = store.obtain(ref.name, ref.version).file("crane")
    return proc.run([program, words[0], "--insecure", *words[1:]], timeout=120).stdout.strip()


def test_images_are_pushed_once_and_pulled_whole(store: Store, registry: str, folder: Path, tmp_path: Path) -> None:
    first = publish(store, registry, folder)
    assert all(image.pushed for image in first)
    again = publish(store, registry, folder)
    assert [image.digest for image in again] == [image.digest for image in first]
    assert not any(image.pushed for image in again)
    for image in first:
        assert crane(store, "digest", image.reference) == image.digest
    proxy = f"{registry}/kube-proxy:v{VERSION}"
    crane(store, "export", proxy, str(tmp_path / "tree.tar"))
    with tarfile.open(tmp_path / "tree.tar") as tree:
        assert {"usr/local/bin/kube-proxy", "usr/sbin/nft"} <= set(tree.getnames())


def test_what_kubeadm_asks_for_is_there(store: Store, registry: str, folder: Path) -> None:
    publish(store, registry, folder)
    kubeadm = store.obtain("kubeadm", VERSION).file("kubeadm")
    argv = [
        str(kubeadm),
        "config",
        "images",
        "list",
        "--kubernetes-version",
        f"v{VERSION}",
        "--image-repository",
        registry,
    ]
    wanted = proc.run(argv, timeout=30).stdout.split()
    assert len(wanted) >= 7
    for reference in wanted:
        repository, _, tag = reference.removeprefix(f"{registry}/").partition(":")
        assert digest_in(registry, repository, tag), f"{reference} is not there"


def test_test_images_have_the_tags_that_the_tests_of_that_version_name(store: Store) -> None:
    tests = store.obtain("e2e.test", VERSION).file("e2e.test")
    listed = set(proc.run([tests, "--list-images"], timeout=60).stdout.split())
    for repository, tag in catalogue.load().release(VERSION).images.items():
        if repository.startswith("e2e-test-images/"):
            assert f"registry.k8s.io/{repository}:{tag}" in listed


def test_the_test_image_runs_its_program_with_a_shell_beside_it(store: Store, registry: str, folder: Path) -> None:
    publish(store, registry, folder)
    tag = catalogue.load().release(VERSION).images["e2e-test-images/agnhost"]
    config = json.loads(crane(store, "config", f"{registry}/e2e-test-images/agnhost:{tag}"))["config"]
    assert (config["Entrypoint"], config["Cmd"]) == (["/agnhost"], ["pause"])


@pytest.mark.parametrize(
    ("repository", "programs"),
    [
        ("e2e-test-images/agnhost", ["sh", "curl", "dig", "nslookup", "host", "ip", "ss", "nc", "wget", "tar"]),
        ("e2e-test-images/busybox", ["sh", "wget", "nslookup", "nc", "sleep"]),
        ("flannel", ["sh", "cp", "sed", "ip"]),
    ],
)
def test_images_carry_what_is_executed_in_them(
    store: Store, registry: str, folder: Path, tmp_path: Path, repository: str, programs: list[str]
) -> None:
    publish(store, registry, folder)
    tag = next(ref.version for ref in refs.images(store.catalogue, VERSION) if ref.name == f"image/{repository}")
    crane(store, "export", f"{registry}/{repository}:{tag}", str(tmp_path / "tree.tar"))
    with tarfile.open(tmp_path / "tree.tar") as tree:
        names = {name.rpartition("/")[2] for name in tree.getnames() if "bin/" in name}
    assert set(programs) <= names


def test_a_registry_that_is_not_there_is_said(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InfraError, match=r"the registry at 127\.0\.0\.1:9 does not answer"):
        publish(store, "127.0.0.1:9", tmp_path)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v2/coredns/blobs/uploads/"),
        ("POST", "/v2/fresh/blobs/uploads/"),
        ("PUT", "/v2/coredns/blobs/uploads/"),
        ("PATCH", "/v2/coredns/blobs/uploads/"),
        ("PUT", "/v2/coredns/manifests/mine"),
        ("DELETE", "/v2/coredns/manifests/{digest}"),
        ("DELETE", "/v2/coredns/blobs/{digest}"),
    ],
)
def test_nobody_writes_to_it(store: Store, registry: str, folder: Path, method: str, path: str) -> None:
    coredns = next(image for image in publish(store, registry, folder) if "/coredns:" in image.reference)
    before = sorted(folder.rglob("*"))
    connection = http.client.HTTPConnection(registry, timeout=10)
    connection.request(method, path.format(digest=coredns.digest), body=b"{}")
    answer = connection.getresponse()

    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert answer.read() == b"Method not allowed\n"
    connection.close()
    assert sorted(folder.rglob("*")) == before
    assert publish(store, registry, folder)[0].pushed is False


def refuses(address: str) -> bool | NotYet:
    """Tell whether nobody listens there any more."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return NotYet("it ends just now")
    return NotYet("somebody listens")


def test_what_takes_uploads_listens_on_the_loopback_and_only_for_the_time(store: Store, tmp_path: Path) -> None:
    with writable(tmp_path, store) as address:
        assert address.startswith("127.0.0.1:")
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("POST", "/v2/x/blobs/uploads/")
        assert connection.getresponse().status == 202
        connection.close()
    until(lambda: refuses(address), deadline=Deadline.after(5), what="the registry to end", interval=0.05)


def test_what_takes_uploads_ends_with_a_killed_publisher(store: Store, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from harness.artifacts.registry import writable;"
        "from harness.artifacts.store import Store\n"
        "with writable(Path(sys.argv[1]), Store()) as address: print(address, flush=True); time.sleep(60)"
    )
    publisher = proc.spawn([sys.executable, "-c", code, tmp_path], log=tmp_path / "log")

    def said() -> str | NotYet:
        text = (tmp_path / "log").read_text(encoding="utf-8")
        return text.strip() if text.endswith("\n") else NotYet(text)

    address = until(said, deadline=Deadline.after(20), what="the publisher to listen", interval=0.05)
    os.kill(publisher.pid, signal.SIGKILL)

    until(lambda: refuses(address), deadline=Deadline.after(5), what="the registry to end", interval=0.05)


def test_a_registry_with_other_storage_is_said(store: Store, tmp_path: Path) -> None:
    (pause,) = (ref for ref in refs.images(store.catalogue, VERSION) if ref.name == "image/pause")
    with (
        writable(tmp_path / "theirs", store) as registry,
        pytest.raises(InfraError, match=r"/pause:\S+ has digest none after a push of sha256:\w+ to \S+/ours"),
    ):
        publish_images([pause], registry, root=tmp_path / "ours", store=store)


def test_images_of_a_products_own_are_pushed_once_and_pulled_whole(
    store: Store, registry: str, folder: Path, tmp_path: Path
) -> None:
    annotated = {"org.opencontainers.image.ref.name": "our/layout:1"}
    uploads = [
        Upload("our/docker:1", write_tar(tmp_path / "docker.tar", docker_files("x:1"))),
        Upload("our/packed:1", write_tar(tmp_path / "oci.tar", oci_files(annotated))),
        Upload("our/layout:1", write_layout(tmp_path / "layout", oci_files(annotated))),
        Upload("upstream/pause/pause:3.10.2", Ref("image/pause", "3.10.2")),
    ]
    first = publish_images([], registry, root=folder, store=store, uploads=uploads)
    assert [image.pushed for image in first] == [True] * 4
    for upload, image in zip(uploads[:3], first[:3], strict=True):
        assert digest_in(registry, upload.repository, upload.tag) == image.digest
        crane(store, "export", image.reference, str(tmp_path / "tree.tar"))
        with tarfile.open(tmp_path / "tree.tar") as tree:
            assert tree.getnames() == ["hello"]
    again = publish_images([], registry, root=folder, store=store, uploads=uploads)
    assert [image.pushed for image in again] == [False] * 4
    assert [image.digest for image in again] == [image.digest for image in first]


def test_another_image_of_the_same_name_replaces_it(store: Store, registry: str, folder: Path, tmp_path: Path) -> None:
    docker = Upload("our/agent:1", write_tar(tmp_path / "docker.tar", docker_files("x:1")))
    publish_images([], registry, root=folder, store=store, uploads=[docker])
    pause = Upload("our/agent:1", Ref("image/pause", "3.10.2"))
    (image,) = publish_images([], registry, root=folder, store=store, uploads=[pause])
    assert image.pushed
    assert digest_in(registry, "our/agent", "1") == image.digest
