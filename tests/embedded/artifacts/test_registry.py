"""Images from a real registry: pushed once, found again, pulled whole; and what kubeadm asks for is what there is.

Needs the artifacts of the newest Kubernetes version (`vmatrix artifacts build --kubernetes VERSION`); builds them if
they are not there.
"""

from __future__ import annotations

import json
import socket
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import proc
from harness.artifacts import catalogue, refs
from harness.artifacts.publish import Published, digest_in, publish_images
from harness.artifacts.registry import registry_command
from harness.artifacts.store import Store
from harness.errors import InfraError
from harness.until import Deadline, NotYet, until

VERSION = "1.36.3"


@pytest.fixture(scope="module")
def store() -> Store:
    return Store()


@pytest.fixture(scope="module")
def registry(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of an empty registry."""
    folder = tmp_path_factory.mktemp("registry")
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


def publish(store: Store, registry: str) -> tuple[Published, ...]:
    return publish_images(refs.images(store.catalogue, VERSION), registry, store=store)


def crane(store: Store, *words: str) -> str:
    ref = refs.newest(store.catalogue, "crane")
    program = store.obtain(ref.name, ref.version).file("crane")
    return proc.run([program, words[0], "--insecure", *words[1:]], timeout=120).stdout.strip()


def test_images_are_pushed_once_and_pulled_whole(store: Store, registry: str, tmp_path: Path) -> None:
    first = publish(store, registry)
    assert all(image.pushed for image in first)
    again = publish(store, registry)
    assert [image.digest for image in again] == [image.digest for image in first]
    assert not any(image.pushed for image in again)
    for image in first:
        assert crane(store, "digest", image.reference) == image.digest
    proxy = f"{registry}/kube-proxy:v{VERSION}"
    crane(store, "export", proxy, str(tmp_path / "tree.tar"))
    with tarfile.open(tmp_path / "tree.tar") as tree:
        assert {"usr/local/bin/kube-proxy", "usr/sbin/nft"} <= set(tree.getnames())


def test_what_kubeadm_asks_for_is_there(store: Store, registry: str) -> None:
    publish(store, registry)
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


def test_the_test_image_runs_its_program_with_a_shell_beside_it(store: Store, registry: str) -> None:
    publish(store, registry)
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
    store: Store, registry: str, tmp_path: Path, repository: str, programs: list[str]
) -> None:
    publish(store, registry)
    tag = next(ref.version for ref in refs.images(store.catalogue, VERSION) if ref.name == f"image/{repository}")
    crane(store, "export", f"{registry}/{repository}:{tag}", str(tmp_path / "tree.tar"))
    with tarfile.open(tmp_path / "tree.tar") as tree:
        names = {name.rpartition("/")[2] for name in tree.getnames() if "bin/" in name}
    assert set(programs) <= names


def test_a_registry_that_is_not_there_is_said(store: Store) -> None:
    with pytest.raises(InfraError, match=r"the registry at 127\.0\.0\.1:9 does not answer"):
        publish(store, "127.0.0.1:9")
