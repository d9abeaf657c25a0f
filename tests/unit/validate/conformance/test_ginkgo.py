"""The command that runs specs, its processes in turn, and specs that cannot run."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from harness import proc
from harness.errors import InfraError
from harness.model import Mirror
from harness.validate.conformance.ginkgo import (
    ConformanceSpec,
    Extent,
    Tools,
    cut_short,
    focus,
    ginkgo_command,
    in_turn,
    quoted,
    refuse_missing,
    repository_list,
    run_specs,
)
from harness.validate.conformance.verdicts import SpecOutcome, SpecVerdict
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


SAYS = '#!/bin/sh\necho "$(nice)"\nfor word; do echo "$word"; done\n'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what is called in place of a program that says its priority and its arguments, on two processors."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    (tmp_path / "the cache").mkdir()
    program = tmp_path / "the cache" / "e2e.test"
    program.write_text(SAYS, encoding="utf-8")
    program.chmod(0o755)
    return in_turn(program, tmp_path)


@pytest.mark.parametrize(("number", "behind"), [(1, 0), (2, 0), (3, 3), (4, 6), (6, 10), (12, 10)])
def test_a_process_gives_way_to_those_before_it(number: int, behind: int, script: Path) -> None:
    words = [
        "--test.timeout=0",
        f"--ginkgo.parallel.process={number}",
        "--ginkgo.focus=^a (b|c) \\[d\\]$",
        "--",
        "-x y",
    ]
    said = proc.run([script, *words], timeout=20).stdout.splitlines()
    assert int(said[0]) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + behind)
    assert said[1:] == words


def test_a_process_without_a_number_goes_first(script: Path) -> None:
    assert proc.run([script, "--list-tests"], timeout=20).stdout.splitlines() == [
        str(os.getpriority(os.PRIO_PROCESS, 0)),
        "--list-tests",
    ]


def test_ginkgo_takes_it_for_a_suite(script: Path) -> None:
    assert script.suffix == ".test", "ginkgo would compile it"


def test_where_nothing_can_be_executed_all_get_ready_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert in_turn(Path("/t/e2e.test"), tmp_path) == Path("/t/e2e.test")


def of(registry: str) -> Mirror:
    """Return a mirror whose images a registry has."""
    return Mirror("", registry)


def test_specs_without_their_images_are_not_run_and_say_which(registry: str, tmp_path: Path) -> None:
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    specs = [ConformanceSpec("a", ("nginx:1", "e2e-test-images/agnhost:2.63.0"))]
    verdicts = run_specs(
        specs,
        tools,
        kubeconfig=tmp_path / "k",
        mirror=of(registry),
        directory=tmp_path / "out",
        timeouts=TIMEOUTS,
    )
    assert verdicts["a"].outcome is SpecOutcome.NOT_RUN
    assert verdicts["a"].text == "image nginx:1 missing"
    refuse_missing(verdicts.values(), {"nginx:1"})
    with pytest.raises(InfraError, match="the mirror lacks nginx:1") as refused:
        refuse_missing(verdicts.values(), ())
    assert "may_be_missing" in refused.value.hint


def test_specs_have_failed_when_ginkgo_cannot_be_started(registry: str, tmp_path: Path) -> None:
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    verdicts = run_specs(
        [ConformanceSpec("a", ())],
        tools,
        kubeconfig=tmp_path / "k",
        mirror=of(registry),
        directory=tmp_path / "out",
        timeouts=TIMEOUTS,
    )
    assert verdicts["a"].outcome is SpecOutcome.FAILED
    assert "could not be started" in verdicts["a"].text


def test_an_earlier_runs_report_is_not_taken_for_this_runs(registry: str, tmp_path: Path) -> None:
    (tmp_path / "junit_01.xml").write_text(
        "<testsuites><testcase name='[It] a' status='passed' time='1'/></testsuites>", encoding="utf-8"
    )
    tools = Tools(tmp_path / "absent", tmp_path / "absent", tmp_path / "absent")
    specs = [ConformanceSpec("a", ())]
    verdicts = run_specs(
        specs, tools, kubeconfig=tmp_path / "k", mirror=of(registry), directory=tmp_path, timeouts=TIMEOUTS
    )
    assert verdicts["a"].outcome is SpecOutcome.FAILED


def test_files_that_specs_leave_are_gone_with_the_run(registry: str, tmp_path: Path) -> None:
    ginkgo = tmp_path / "ginkgo"
    left = 'touch "$TMPDIR/test-kuberc1"; mkdir -p "$HOME/.kube" "$KUBECACHEDIR/discovery"'
    said = 'echo "in $TMPDIR and $HOME, $KUBECACHEDIR, which is $(realpath "$TMPDIR")"'
    ginkgo.write_text(f"#!/bin/sh\n{left}\n{said}\n", encoding="utf-8")
    ginkgo.chmod(0o755)
    directory = tmp_path / ("out" * 30)  # a path of a socket has at most 107 bytes
    tools = Tools(tmp_path / "e2e.test", ginkgo, tmp_path / "kubectl")
    specs = [ConformanceSpec("a", ())]
    run_specs(specs, tools, kubeconfig=tmp_path / "k", mirror=of(registry), directory=directory, timeouts=TIMEOUTS)
    log = (directory / "ginkgo.log").read_text(encoding="utf-8")
    found = re.search(rf"in (\S+) and \1, \1/kube, which is {directory}/tmp-\w+$", log, re.MULTILINE)
    assert found
    assert len(f"{found[1]}/kubectl-proxy-unix1234567890/test") <= 107
    assert sorted(path.name for path in directory.iterdir()) == ["ginkgo.log", "repositories.yml"]


@pytest.mark.parametrize("processes", [0, 8])
def test_only_processes_of_curated_specs_get_ready_in_turn(registry: str, tmp_path: Path, processes: int) -> None:
    ginkgo = tmp_path / "ginkgo"
    ginkgo.write_text('#!/bin/sh\nfor word; do echo "$word"; done\necho "GOGC=$GOGC"\n', encoding="utf-8")
    ginkgo.chmod(0o755)
    own, directory = tmp_path / "e2e.test", tmp_path / "out"
    run_specs(
        [ConformanceSpec("a", ())],
        Tools(own, ginkgo, tmp_path / "kubectl"),
        kubeconfig=tmp_path / "k",
        mirror=of(registry),
        directory=directory,
        timeouts=TIMEOUTS,
        extent=Extent(60.0, processes),
    )
    said = (directory / "ginkgo.log").read_text(encoding="utf-8").splitlines()
    (called,) = (Path(word) for word in said if word.endswith("/e2e.test"))
    assert (called == own) is bool(processes)
    assert called.is_relative_to(directory) is not bool(processes)
    assert ("GOGC=200" in said) is not bool(processes)


SHORT = TIMEOUTS.model_copy(update={"conformance_overrun": 2.0})
REPORTED = """<testsuites><testcase name='[It] a' status='passed' time='1'/>
<testcase name='[It] b' status='interrupted' time='9'><failure message='[INTERRUPTED]'/></testcase>
<testcase name='[It] c' status='skipped' time='0'><skipped message='skipped'/></testcase></testsuites>"""
SAID = f"""{"-" * 30}
• [1.500 seconds]
a
{"-" * 30}
"""


def hanging(tmp_path: Path, on_term: str) -> Tools:
    """Return a ginkgo that has run a spec, hangs in the next one, and ends as it is told."""
    (tmp_path / "said").write_text(SAID, encoding="utf-8")
    (tmp_path / "reported").write_text(REPORTED, encoding="utf-8")
    (tmp_path / "part").write_text(f"trap '{on_term}' TERM\nwhile :; do sleep 1; done\n", encoding="utf-8")
    ginkgo = tmp_path / "ginkgo"
    ginkgo.write_text(
        f"#!/bin/sh\ncat {tmp_path}/said\ntrap 'wait; exit 1' TERM\nsh {tmp_path}/part & wait\n", encoding="utf-8"
    )
    ginkgo.chmod(0o755)
    return Tools(tmp_path / "e2e.test", ginkgo, tmp_path / "kubectl")


@pytest.mark.parametrize("obeys", [True, False])
def test_a_run_that_its_time_out_ends_keeps_the_verdicts_of_the_specs_that_ended(
    registry: str, tmp_path: Path, obeys: bool
) -> None:
    directory = tmp_path / "out"
    verdicts = run_specs(
        [ConformanceSpec(name, ()) for name in "abc"],
        hanging(tmp_path, f"cp {tmp_path}/reported {directory}/junit_01.xml; exit" if obeys else ":"),
        kubeconfig=tmp_path / "k",
        mirror=of(registry),
        directory=directory,
        timeouts=SHORT,
        extent=Extent(0.5),
    )
    assert verdicts["a"].outcome is SpecOutcome.PASSED
    assert verdicts["b"].outcome is (SpecOutcome.FAILED if obeys else SpecOutcome.NOT_RUN)
    assert verdicts["c"].outcome is SpecOutcome.NOT_RUN
    said = cut_short(verdicts, directory / "ginkgo.log")
    assert f"2 of 3 specs had ended; {1 if obeys else 2} of them had not begun" in said
    assert ("running: b" in said) is obeys


def test_a_run_that_is_killed_keeps_the_verdicts_of_the_specs_that_ended(registry: str, tmp_path: Path) -> None:
    (tmp_path / "said").write_text(SAID, encoding="utf-8")
    ginkgo = tmp_path / "ginkgo"
    ginkgo.write_text(f"#!/bin/sh\ncat {tmp_path}/said\nkill -KILL $$\n", encoding="utf-8")
    ginkgo.chmod(0o755)
    verdicts = run_specs(
        [ConformanceSpec(name, ()) for name in "ab"],
        Tools(tmp_path / "e2e.test", ginkgo, tmp_path / "kubectl"),
        kubeconfig=tmp_path / "k",
        mirror=of(registry),
        directory=tmp_path / "out",
        timeouts=TIMEOUTS,
    )
    assert verdicts["a"].outcome is SpecOutcome.PASSED
    assert verdicts["b"].outcome is SpecOutcome.FAILED
    assert "killed" in verdicts["b"].text


def test_nothing_is_said_of_specs_that_had_enough_time(tmp_path: Path) -> None:
    verdicts = {
        "a": SpecVerdict(SpecOutcome.PASSED),
        "b": SpecVerdict(SpecOutcome.FAILED, text="wrong"),
        "c": SpecVerdict(SpecOutcome.NOT_RUN, text="image x:1 missing"),
    }
    assert cut_short(verdicts, tmp_path) == ""
