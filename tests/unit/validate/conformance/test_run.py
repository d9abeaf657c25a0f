"""The command that runs specs, the images that they need, and the lists."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.errors import BadInput, InfraRetriable, ProductError
from harness.kube import Cluster
from harness.kube.resources import NAMESPACE
from harness.paths import project_dir
from harness.until import Deadline
from harness.validate.conformance import curated
from harness.validate.conformance.curated import ConformanceSpec, load_curated
from harness.validate.conformance.ginkgo import Tools, focus, ginkgo_command, quoted, repository_list
from harness.validate.conformance.registry import has_image, missing_images
from harness.validate.conformance.run import run_specs, wait_for_clean_up
from harness.validate.conformance.verdicts import SpecOutcome
from tests.unit.validate.guests import NOWHERE

NAME = "[sig-node] a {b} (c) *should* not. be|restarted ^$ [Conformance]"


class Registry(BaseHTTPRequestHandler):
    """Answers for one image; /v2/broken is an error."""

    def do_HEAD(self) -> None:
        wanted = "application/vnd.oci.image.manifest.v1+json" in self.headers["Accept"]
        there = self.path == "/v2/e2e-test-images/agnhost/manifests/2.63.0" and wanted
        self.send_response(500 if "broken" in self.path else 200 if there else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_name_is_matched_to_the_letter() -> None:
    assert re.fullmatch(quoted(NAME), NAME)
    assert not re.fullmatch(quoted(NAME), NAME.replace("*", "x"))


def test_focus_is_anchored_at_both_ends() -> None:
    pattern = focus([NAME, "another"]).removeprefix("--focus=")
    assert re.search(pattern, "Kubernetes e2e suite another")
    assert re.search(pattern, f"Kubernetes e2e suite {NAME}")
    assert not re.search(pattern, f"Kubernetes e2e suite {NAME} [Slow]")
    assert not re.search(pattern, f"Kubernetes e2e suite again {NAME}")


def test_every_registry_that_specs_pull_from_is_the_mirror() -> None:
    read = yaml.safe_load(repository_list("10.0.0.1:5000"))
    assert read["promoterE2eRegistry"] == "10.0.0.1:5000/e2e-test-images"
    assert all(str(value).startswith("10.0.0.1:5000") for value in read.values())
    assert not {"invalidRegistry", "privateRegistry"} & set(read)


def test_the_command_has_no_more_processes_than_specs() -> None:
    tools = Tools(Path("/t/e2e.test"), Path("/t/ginkgo"), Path("/t/kubectl"))
    command = ginkgo_command(tools, [NAME], kubeconfig=Path("/k"), report_dir=Path("/r"), seconds=60)
    assert command[0] == "/t/ginkgo"
    assert "--procs=1" in command
    assert command.index("/t/e2e.test") < command.index("--") < command.index("--kubeconfig=/k")
    assert "--node-schedulable-timeout=60s" in command


def test_an_image_is_there_or_not(registry: str) -> None:
    assert has_image(registry, "e2e-test-images/agnhost:2.63.0")
    assert missing_images(registry, ["e2e-test-images/agnhost:2.63.0", "nginx:1"]) == {"nginx:1"}


def test_a_broken_registry_is_not_a_missing_image(registry: str) -> None:
    with pytest.raises(InfraRetriable, match="500"):
        has_image(registry, "broken:1")


def test_a_dead_registry_is_not_a_missing_image() -> None:
    with pytest.raises(InfraRetriable, match="does not answer"):
        has_image("127.0.0.1:1", "agnhost:1")


def test_specs_without_their_images_are_not_run_and_say_which(registry: str, tmp_path: Path) -> None:
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    specs = [ConformanceSpec("a", ("nginx:1", "e2e-test-images/agnhost:2.63.0"))]
    verdicts = run_specs(
        specs, tools, kubeconfig=tmp_path / "k", registry=registry, directory=tmp_path / "out", seconds=1
    )
    assert verdicts["a"].outcome is SpecOutcome.NOT_RUN
    assert verdicts["a"].text == "image nginx:1 missing"


def test_specs_have_failed_when_ginkgo_cannot_be_started(registry: str, tmp_path: Path) -> None:
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    verdicts = run_specs(
        [ConformanceSpec("a", ())],
        tools,
        kubeconfig=tmp_path / "k",
        registry=registry,
        directory=tmp_path / "out",
        seconds=1,
    )
    assert verdicts["a"].outcome is SpecOutcome.FAILED
    assert "could not be started" in verdicts["a"].text


def test_an_earlier_runs_report_is_not_taken_for_this_runs(registry: str, tmp_path: Path) -> None:
    (tmp_path / "junit_01.xml").write_text(
        "<testsuites><testcase name='[It] a' status='passed' time='1'/></testsuites>", encoding="utf-8"
    )
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    specs = [ConformanceSpec("a", ())]
    verdicts = run_specs(specs, tools, kubeconfig=tmp_path / "k", registry=registry, directory=tmp_path, seconds=1)
    assert verdicts["a"].outcome is SpecOutcome.FAILED


def test_every_list_in_the_matrix_can_be_loaded() -> None:
    lists = sorted((project_dir() / "matrix" / "conformance").glob("*.yml"))
    assert lists
    for path in lists:
        loaded = load_curated(path.stem)
        assert all(spec.name.endswith("[Conformance]") for spec in loaded.specs)
        assert not [spec.name for spec in loaded.specs if "[Serial]" in spec.name or "[Slow]" in spec.name]


def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    path = tmp_path / "1.99.yml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(curated, "curated_path", lambda _: path)


@pytest.mark.parametrize(
    "text",
    [
        "- not a mapping",
        "kubernetes: '1.98'\nimages: {agnhost: a:1}\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {}\nspecs: [{name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: []",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{name: x}, {name: x}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{name: x, images: [nginx]}]",
        "kubernetes: '1.99'\nimages: {agnhost: a:1}\nspecs: [{images: [agnhost]}]",
        "kubernetes: [",
    ],
)
def test_a_malformed_list_is_refused_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    write(tmp_path, monkeypatch, text)
    with pytest.raises(BadInput, match="malformed") as refused:
        load_curated("1.99")
    assert refused.value.paths == (tmp_path / "1.99.yml",)


def test_a_minor_without_a_list_is_refused_with_what_to_write() -> None:
    with pytest.raises(BadInput, match=r"1\.7") as refused:
        load_curated("1.7")
    assert "--list-tests" in refused.value.hint


class Emptying(Cluster):
    """An API whose namespaces of specs, and whose pods, are fewer at each look."""

    def __init__(self, *looks: list[str]) -> None:
        super().__init__(NOWHERE)
        self.looks = list(looks)

    def list(self, resource: Any, *_: Any, labels: str = "", **__: Any) -> Any:
        if resource is NAMESPACE:
            assert labels == "e2e-framework"
            items = [{"metadata": {"name": "pods-1"}}]
        else:
            names = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
            items = [{"metadata": {"namespace": name.partition("/")[0], "name": name[-1]}} for name in names]
        return type("Listing", (), {"items": items})


def test_the_next_phase_waits_for_the_specs_pods_and_for_no_others() -> None:
    api = Emptying(["kube-system/a", "pods-1/b"], ["kube-system/a"])
    wait_for_clean_up(api, Deadline.after(30))
    assert api.looks == [["kube-system/a"]]


def test_pods_of_specs_that_stay_are_named() -> None:
    with pytest.raises(ProductError, match="left: pods-1/b"):
        wait_for_clean_up(Emptying(["kube-system/a", "pods-1/b"]), Deadline.after(0))
