"""The programs of a build's pod say at their end how far they came, whatever is in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import BadInput
from harness.operator.api.delivery import GitSource, ImageBuild
from harness.operator.build import buildkit, dockerfile, job, oci, program, remote, signature
from harness.operator.build.job import BuildInputs, BuildReport
from harness.operator.build.program import Places
from harness.until import Deadline
from tests.unit.operator.build.registries import Registry, played

SHA = "0123456789abcdef0123456789abcdef01234567"
COMMITTED = 1767225600


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return folders with a fetched revision."""
    names = ("inputs", "workspace", "secrets", "tools", "sockets", "state", "report")
    made = Places(*(tmp_path / name for name in names))
    for name in names[:-1]:
        (tmp_path / name).mkdir()
    tree = tmp_path / "workspace" / "tree"
    tree.mkdir()
    (tree / "Dockerfile").write_text("FROM scratch\nCOPY a /a\n", encoding="utf-8")
    facts = {"revision": SHA, "folder": str(tree), "committed": COMMITTED}
    (tmp_path / "workspace" / program.FETCHED_FILE).write_text(json.dumps(facts), encoding="utf-8")
    tell(made)
    return made


def tell(places: Places, **build: Any) -> None:
    """Write what the pod is told."""
    source = GitSource.model_validate({"git": "https://git.test/app", "secretRef": {"name": "git"}})
    image = ImageBuild.model_validate({"image": "r.test/app", **build})
    inputs = BuildInputs("app", SHA, source, image, ("r.test",), seconds=5.0)
    (places.inputs / job.INPUTS_FILE).write_bytes(job.INPUTS_FORM.dump_json(inputs, by_alias=True))


def reported(places: Places) -> BuildReport:
    """Return the termination message."""
    return job.REPORT_FORM.validate_json(places.report.read_text(encoding="utf-8"))


class Builder:
    """BuildKit, as far as it is asked: the image that it pushes, and what it fails with before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, registry: Registry, *failures: Exception) -> None:
        self.registry, self.failures = registry, list(failures)
        self.builds: list[buildkit.Build] = []
        monkeypatch.setattr(buildkit.Build, "run", lambda build, *_: self.run(build))
        monkeypatch.setattr(buildkit, "wait_for_daemon", lambda *_: None)
        monkeypatch.setattr(program, "SHORTEST_PAUSE", 0.0)

    def run(self, build: buildkit.Build) -> tuple[str, tuple[str, ...]]:
        self.builds.append(build)
        if self.failures:
            raise self.failures.pop(0)
        raw = oci.document({"mediaType": oci.MANIFEST, "layers": []})
        self.registry.content[f"app/manifests/{oci.digest_of(raw)}"] = raw
        return oci.digest_of(raw), ()


def test_an_image_gets_its_tag_last(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    registry = played(monkeypatch, Registry())
    Builder(monkeypatch, registry)
    assert program.main("build", places) == 0
    report = reported(places)
    assert (report.outcome, report.stage, report.revision) == ("succeeded", "Pushed", SHA)
    assert report.committed == "2026-01-01T00:00:00Z"
    assert registry.requests[-1].url.endswith("/manifests/0123456789ab")
    raw = registry.content["app/manifests/0123456789ab"]
    assert report.image == f"r.test/app@{oci.digest_of(raw)}"
    assert len([path for path in registry.content if "/manifests/sha256:" in path]) >= 3  # it and two documents


def test_there_is_no_tag_of_an_image_that_cannot_be_described(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    registry = played(monkeypatch, Registry())
    Builder(monkeypatch, registry)
    monkeypatch.setattr(oci.Repository, "attach", lambda *_: (_ for _ in ()).throw(oci.RegistryRefused("no", hint="h")))
    assert program.main("build", places) == 1
    assert (reported(places).reason, reported(places).stage) == ("PushRefused", "Built")
    assert "app/manifests/0123456789ab" not in registry.content


def away() -> buildkit.BuildFailed:
    return buildkit.failure_of("error: dial tcp: connection refused", "Dockerfile")


def gone() -> buildkit.BuildFailed:
    return buildkit.failure_of("error: code = Unavailable desc = x", "Dockerfile")


def test_a_registry_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    registry = played(monkeypatch, Registry())
    builder = Builder(monkeypatch, registry, away(), away(), away(), away(), away())
    assert program.main("build", places) == 0
    assert len(builder.builds) == 6


def test_a_builder_that_ends_each_time_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    registry = played(monkeypatch, Registry())
    builder = Builder(monkeypatch, registry, *(gone() for _ in range(9)))
    assert program.main("build", places) == 1
    assert len(builder.builds) == program.MOST_ENDS + 1
    assert (reported(places).reason, reported(places).transient) == ("BuilderEnded", True)


def test_a_registry_that_fails_after_the_push_is_asked_again(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    registry = played(monkeypatch, Registry(failing=[503, 500]))
    Builder(monkeypatch, registry)
    assert program.main("build", places) == 0


FAILURES: dict[str, tuple[Exception, str, bool]] = {
    "an instruction": (
        buildkit.failure_of("error: process x did not complete successfully: exit code: 2", "Dockerfile"),
        "InstructionFailed",
        False,
    ),
    "a node": (buildkit.BuilderRefused("no", hint="h"), "BuilderRefused", False),
    "an error of ours": (KeyError("x"), "BuilderBug", False),
    "the disk": (OSError(28, "No space left on device"), "DiskFull", True),
    "anything of ours": (BadInput("no", hint="h"), "BuilderBug", False),
}


@pytest.mark.parametrize("case", FAILURES)
def test_whatever_is_in_the_way_is_reported(monkeypatch: pytest.MonkeyPatch, places: Places, case: str) -> None:
    error, reason, transient = FAILURES[case]
    Builder(monkeypatch, played(monkeypatch, Registry()), error)
    assert program.main("build", places) == 1
    report = reported(places)
    assert (report.outcome, report.reason, report.transient) == ("failed", reason, transient)
    assert report.message
    assert report.revision == SHA


CHECKS: dict[str, tuple[dict[str, Any], str]] = {
    "no Dockerfile": ({"dockerfile": "none"}, dockerfile.MISSING),
    "no context": ({"context": "none"}, remote.SubPathNotFound.reason),
    "no stage": ({"target": "x"}, dockerfile.NO_TARGET),
    "a frontend": ({"args": {"BUILDKIT_SYNTAX": "x"}}, dockerfile.NOT_ALLOWED),
    "no key": ({"signingSecretRef": {"name": "signing"}}, signature.BadKey.reason),
}


@pytest.mark.parametrize("case", CHECKS)
def test_what_can_be_known_before_is_refused_before(monkeypatch: pytest.MonkeyPatch, places: Places, case: str) -> None:
    build, reason = CHECKS[case]
    builder = Builder(monkeypatch, played(monkeypatch, Registry()))
    tell(places, **build)
    assert program.main("build", places) == 1
    assert (reported(places).reason, reported(places).stage) == (reason, "Fetched")
    assert not builder.builds


def test_a_link_leads_to_no_file_outside(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    Builder(monkeypatch, played(monkeypatch, Registry()))
    (places.workspace / "tree" / "Dockerfile").unlink()
    (places.workspace / "tree" / "Dockerfile").symlink_to(places.inputs / job.INPUTS_FILE)
    assert program.main("build", places) == 1
    assert reported(places).reason == dockerfile.MISSING


def test_a_log_in_that_is_none_is_found_before_the_build(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    builder = Builder(monkeypatch, played(monkeypatch, Registry()))
    (places.secrets / "push").mkdir()
    (places.secrets / "push" / ".dockerconfigjson").write_text("none", encoding="utf-8")
    assert program.main("build", places) == 1
    assert not builder.builds


def test_fetch_reports_what_git_says(monkeypatch: pytest.MonkeyPatch, places: Places) -> None:
    fetched = remote.Fetched(SHA, places.workspace / "tree", COMMITTED)
    monkeypatch.setattr(remote.Fetching, "into", lambda *_: fetched)
    assert program.main("fetch", places) == 0
    assert reported(places) == BuildReport("succeeded", SHA, "Fetched", committed="2026-01-01T00:00:00Z")
    assert places.fetched() == fetched

    def refuse(*_: object) -> None:
        raise remote.Unreachable("no", hint="h")

    monkeypatch.setattr(remote.Fetching, "into", refuse)
    assert program.main("fetch", places) == 1
    assert reported(places) == BuildReport("failed", SHA, "", "Unreachable", "no (h)", transient=True)


def test_there_are_three_programs(places: Places) -> None:
    with pytest.raises(BadInput, match="other"):
        program.main("other", places)


def test_time_that_is_up_ends_every_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "SHORTEST_PAUSE", 10.0)

    def attempt() -> None:
        raise away()

    with pytest.raises(buildkit.BuildFailed):
        program._patiently(attempt, Deadline.after(0.1))
