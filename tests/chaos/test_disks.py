"""Disks that do not come: whose fault it is, in the importer's words, in time, and never under a used name again."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness import proc
from harness.cell.golden import ensure_golden
from harness.errors import EXIT_RETRY, BadImage, Blame, InfraError, InfraRetriable, VmatrixError
from harness.kube import Cluster
from harness.kube.client import ApiFailure, Json
from harness.kube.resources import DATA_VOLUME, STORAGE_CLASS
from harness.machines.kubevirt.disks import TOO_SMALL, CloneStuck, condition
from harness.machines.kubevirt.manifests import GOLDEN_NAMESPACE, GoldenImage
from harness.until import TimedOut
from tests.chaos.cells import Ground, bring_up, cell_of, told

rows = pytest.mark.row
FAIL_FAST_SECONDS = 45.0


@contextmanager
def importing(ground: Ground, **faults: dict[str, object]) -> Iterator[GoldenImage]:
    """Yield an image whose import is befallen by faults; what was imported of it is gone afterwards."""
    image = ground.fresh_image()
    rule = {
        "kind": "DataVolume",
        "namespace": GOLDEN_NAMESPACE,
        "name": f"{image.name}*",
        "faults": {name.replace("_", "-"): given for name, given in faults.items()},
    }
    try:
        with ground.scenario([rule]):
            yield image
    finally:
        for volume in ground.cluster.list(DATA_VOLUME, GOLDEN_NAMESPACE).items:
            if volume["metadata"]["name"].startswith(image.name):
                ground.cluster.delete(DATA_VOLUME, volume["metadata"]["name"], GOLDEN_NAMESPACE)


def failure(ground: Ground, **faults: dict[str, object]) -> tuple[VmatrixError, float]:
    """Import an image that is befallen by faults; return the error and how long it took."""
    with importing(ground, **faults) as image:
        began = time.monotonic()
        with pytest.raises(VmatrixError) as caught:
            ensure_golden(ground.site(), image)
        return caught.value, time.monotonic() - began


@rows("F3")
def test_an_import_that_restarts_for_ever_fails_fast_in_the_importers_own_words(ground: Ground) -> None:
    message = "Unable to connect to http data source: expected status code 200, got 404. Status: 404 Not Found"
    error, took = failure(ground, import_fails={"message": message})
    assert isinstance(error, BadImage)
    assert "got 404" in error.summary
    assert "restarts" in error.summary
    assert "images.yml" in error.hint
    assert took < FAIL_FAST_SECONDS


@rows("F3")
def test_a_certificate_that_importers_do_not_trust_is_said(ground: Ground) -> None:
    message = "Unable to connect to http data source: x509: certificate signed by unknown authority"
    error, _ = failure(ground, import_fails={"message": message})
    assert error.blame is not Blame.PRODUCT
    assert "x509" in error.summary
    assert "certificates" in error.hint


@rows("F3")
def test_a_wrong_checksum_is_the_users_to_mend(ground: Ground) -> None:
    message = "Unable to process data: checksum mismatch: expected sha256:a, calculated sha256:b"
    error, took = failure(ground, import_fails={"message": message, "fatal": True})
    assert isinstance(error, BadImage)
    assert "checksum" in error.summary
    assert took < FAIL_FAST_SECONDS


@rows("F4")
def test_an_import_that_stands_still_is_given_up_by_its_lack_of_progress(ground: Ground) -> None:
    error, took = failure(ground, import_stalls={"at": 42.0})
    assert isinstance(error, InfraRetriable)
    assert "made no progress for" in error.summary
    assert "42.00%" in error.summary
    assert took < FAIL_FAST_SECONDS


@rows("F4")
def test_an_import_that_is_slow_but_gets_on_is_waited_for(ground: Ground) -> None:
    with importing(ground, import_slow={"extra": 14.0}) as image:
        site = ground.site({"golden_stall": 7.0})
        ensure_golden(site, image)
        volume = ground.cluster.get(DATA_VOLUME, image.name, GOLDEN_NAMESPACE)
    assert volume is not None
    assert volume["status"]["phase"] == "Succeeded"


@rows("F5")
def test_a_used_up_quota_is_said_although_no_importer_ever_was(ground: Ground) -> None:
    error, took = failure(ground, no_importer={})
    assert isinstance(error, InfraRetriable)
    assert "ErrExceededQuota" in error.summary
    assert "exceeded quota: cell" in error.summary
    assert "quota" in error.hint
    assert took < FAIL_FAST_SECONDS


@rows("F6")
def test_an_image_that_is_larger_than_its_disk_is_the_users_to_mend(ground: Ground, tmp_path: Path) -> None:
    proc.run(["qemu-img", "create", "-q", "-f", "qcow2", tmp_path / "large.qcow2", "5G"], timeout=30)
    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(tmp_path)))
    with serving as server, importing(ground) as small:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        checksum = hashlib.sha256((tmp_path / "large.qcow2").read_bytes()).hexdigest()
        url = f"http://127.0.0.1:{server.server_address[1]}/large.qcow2"
        with pytest.raises(VmatrixError) as caught:
            ensure_golden(
                ground.site({"golden_stall": 60.0}), replace(small, url=url, checksum=f"sha256:{checksum}", size="1Gi")
            )
        (volume,) = _imported(ground, small)
        server.shutdown()
    assert running_message(volume) == TOO_SMALL
    assert isinstance(caught.value, BadImage)
    assert f"virtual image size {5 * 2**30} is larger than" in caught.value.summary
    assert "size_gib" in caught.value.hint


@rows("F6")
@pytest.mark.parametrize(
    ("why", "hint"), [("no space left on device", "is full"), ("disk quota exceeded", "quota of its own")]
)
def test_storage_that_is_full_is_the_infras_lack(ground: Ground, why: str, hint: str) -> None:
    message = (
        "Unable to process data: Unable to transfer source data to scratch space: unable to write to file: "
        f"write /scratch/tmpimage: {why}"
    )
    with importing(ground, import_fails={"message": message}) as image:
        with pytest.raises(VmatrixError) as caught:
            ensure_golden(ground.site(), image)
        volumes = _imported(ground, image)
    assert {running_message(v) for v in volumes} == {TOO_SMALL}
    assert len(volumes) == 2  # it may pass: it is tried once more
    assert isinstance(caught.value, InfraRetriable)
    assert message in caught.value.summary
    assert hint in caught.value.hint


def _imported(ground: Ground, image: GoldenImage) -> list[Json]:
    found = ground.cluster.list(DATA_VOLUME, GOLDEN_NAMESPACE).items
    return [v for v in found if v["metadata"]["name"].startswith(image.name)]


def running_message(volume: Json) -> str:
    return str(condition(volume, "Running").get("message", ""))


@rows("F7")
def test_a_missing_certificate_map_is_named(ground: Ground) -> None:
    error, took = failure(ground, importer_waits={})
    assert 'configmap "images-ca" not found' in told(error)
    assert error.blame in {Blame.USER, Blame.INFRA}
    assert took < FAIL_FAST_SECONDS


@rows("F8")
def test_a_transient_failure_is_tried_again_under_another_name(ground: Ground) -> None:
    message = "nbdkit: curl: error: pread: curl_easy_perform: Input/output error"
    with importing(ground) as image:
        faults = {"import-fails": {"message": message}}
        rule = {"kind": "DataVolume", "namespace": GOLDEN_NAMESPACE, "name": image.name, "faults": faults}
        with ground.scenario([rule]):
            life = ground.life(ground.site({"ssh": 1.0}, image=image))
            with pytest.raises(VmatrixError):  # no guest is in this image: it ends at the login, or at its boot
                life.provision()
        volumes = {v["metadata"]["name"]: v for v in ground.cluster.list(DATA_VOLUME, GOLDEN_NAMESPACE).items}
        life.teardown()
    assert volumes[f"{image.name}-2"]["status"]["phase"] == "Succeeded"


@rows("F9")
def test_a_class_that_cannot_make_the_claim_is_named_with_its_provisioners_words(ground: Ground) -> None:
    error, took = failure(ground, claim_pending={})
    assert isinstance(error, InfraError)
    assert "multi-node access is not supported" in told(error)
    assert took < FAIL_FAST_SECONDS


@rows("F10")
def test_a_clone_that_does_not_begin_is_replaced_by_an_import(ground: Ground) -> None:
    life = ground.life(ground.site({"ssh": 1.0}))
    namespace = f"*-{life.attempt.run}-*"
    rules = [
        {"kind": "DataVolume", "namespace": namespace, "faults": {"clone-blocked": {}}},
        {"kind": "VirtualMachine", "namespace": namespace, "faults": {"no-guest": {}}},
    ]
    with ground.scenario(rules):
        with pytest.raises(TimedOut, match="to accept logins"):  # there is no guest: its disk is what this is about
            life.provision()
        (disk,) = ground.cluster.list(DATA_VOLUME, life.attempt.namespace).items
        life.teardown()
    assert life.attempts == 2
    ends = [e for e in ground.recorded(life) if e["event"] == "step-end" and e["step"] == ["provision"]]
    assert "CloneSourceInUse" in ends[0]["summary"]
    assert "http" in disk["spec"]["source"]
    assert disk["status"]["phase"] == "Succeeded"
    assert issubclass(CloneStuck, InfraRetriable)
    assert CloneStuck.exit_code == EXIT_RETRY


@rows("F11")
def test_an_image_that_succeeded_is_not_imported_again(ground: Ground) -> None:
    with importing(ground) as image:
        site = ground.site()
        ensure_golden(site, image)
        first = ground.cluster.get(DATA_VOLUME, image.name, GOLDEN_NAMESPACE) or {}
        ensure_golden(site, image)
        second = ground.cluster.get(DATA_VOLUME, image.name, GOLDEN_NAMESPACE) or {}
    assert first["metadata"]["uid"] == second["metadata"]["uid"]


@rows("F11")
def test_each_attempt_has_names_of_its_own(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, unschedulable={}), pytest.raises(InfraRetriable):
        life.provision()
    starts = [e for e in ground.recorded(life) if e["event"] == "step-start" and e["step"] == ["provision"]]
    assert [e["attempt"] for e in starts] == [1, 2]
    assert life.attempt.namespace.endswith("-2")
    life.teardown()


@pytest.fixture
def waiting_class(cluster: Cluster) -> Iterator[str]:
    """Have a storage class that binds a claim only for its consumer."""
    (usual,) = [c for c in cluster.list(STORAGE_CLASS).items if c["metadata"]["name"] == "local"]
    name = "chaos-waits"
    meta = {"name": name}
    body = {**usual, "metadata": meta, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.ensure(STORAGE_CLASS, body)
    yield name
    cluster.delete(STORAGE_CLASS, name)


@rows("F1", "F2")
def test_a_disk_that_waits_for_its_consumer_gets_it(ground: Ground, waiting_class: str) -> None:
    with importing(ground) as image:
        life = ground.life(replace(ground.site(image=image), storage_class=waiting_class))
        with ground.befallen(life, no_guest={}):
            (machine,) = bring_up(life)
            (disk,) = ground.cluster.list(DATA_VOLUME, life.attempt.namespace).items
            life.teardown()
    assert machine.address
    assert disk["status"]["phase"] == "Succeeded"


@rows("F27")
def test_a_disks_size_is_final_and_the_guest_grows_into_it(ground: Ground) -> None:
    life = ground.life(ground.site())
    with ground.befallen(life, no_guest={}):
        bring_up(life)
        namespace = life.attempt.namespace
        patch = {"spec": {"storage": {"resources": {"requests": {"storage": "2Gi"}}}}}
        with pytest.raises(ApiFailure, match="Cannot update DataVolume Spec"):
            ground.cluster.merge(DATA_VOLUME, "m-0", patch, namespace)
        life.teardown()
    assert "growpart" in (life.site.templates / "cloud-init.yml.j2").read_text(encoding="utf-8")


@rows("F27")
def test_a_machine_whose_disk_is_smaller_than_its_image_is_the_users_to_mend(ground: Ground) -> None:
    big = replace(ground.fresh_image(), size="2Gi")
    with ground.scenario([]):
        life = ground.life(ground.site(image=big), cell_of(1))
        with pytest.raises(VmatrixError) as caught:
            life.provision()
        life.teardown()
        for volume in ground.cluster.list(DATA_VOLUME, GOLDEN_NAMESPACE).items:
            if volume["metadata"]["name"].startswith(big.name):
                ground.cluster.delete(DATA_VOLUME, volume["metadata"]["name"], GOLDEN_NAMESPACE)
    assert isinstance(caught.value, BadImage)
    assert "disk_gib" in caught.value.hint
