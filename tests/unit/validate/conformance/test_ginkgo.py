"""The command that runs specs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from harness.validate.conformance.ginkgo import Extent, Tools, focus, ginkgo_command, quoted, repository_list
from tests.unit.shipped_timeouts import TIMEOUTS

TOOLS = Tools(Path("/t/e2e.test"), Path("/t/ginkgo"), Path("/t/kubectl"))
NAME = "[sig-node] a {b} (c) *should* not. be|restarted ^$ [Conformance]"


def command(extent: Extent | None, *names: str) -> list[str]:
    """Return the command that runs the named specs."""
    given = {"kubeconfig": Path("/k"), "report_dir": Path("/r")}
    return ginkgo_command(TOOLS, names or (NAME,), **given, timeouts=TIMEOUTS, extent=extent)


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
    words = command(None)
    assert words[0] == "/t/ginkgo"
    assert "--procs=1" in words
    assert words.index("/t/e2e.test") < words.index("--") < words.index("--kubeconfig=/k")
    assert "--node-schedulable-timeout=60s" in words


@pytest.mark.parametrize(
    ("cores", "mib", "wanted"),
    [(1, 64_000, 3), (2, 64_000, 6), (8, 64_000, 6), (2, 7_500, 5), (8, 5_000, 3), (8, 900, 2), (1, 900, 2)],
)
def test_curated_specs_have_as_many_processes_as_the_host_has_room_for(
    monkeypatch: pytest.MonkeyPatch, cores: int, mib: int, wanted: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr("harness.validate.conformance.ginkgo.memory_available_mib", lambda: mib)
    names = [f"{NAME} {number}" for number in range(40)]
    curated, whole = (command(extent, *names) for extent in (None, Extent(60.0, 8)))
    assert f"--procs={wanted}" in curated
    assert "--procs=8" in whole


def test_an_order_is_asked_for_where_there_is_one() -> None:
    asked, any_order = (command(Extent(60.0, seed=seed)) for seed in (7, 0))
    assert "--seed=7" in asked[: asked.index("/t/e2e.test")]
    assert not [word for word in any_order if "seed" in word]


def test_specs_leave_their_namespaces_only_where_they_are_told_to() -> None:
    left, deleted = (command(Extent(60.0, stays=stays)) for stays in (True, False))
    assert "--delete-namespace=false" in left[left.index("--") :]
    assert not [word for word in deleted if "delete-namespace" in word]
