"""`vmatrix infra` and `vmatrix doctor`: what they print, and the exit codes a script sees."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from harness import proc, providers
from harness.cli import doctor, infra
from harness.errors import EXIT_BAD_INPUT, EXIT_INFRA, EXIT_NOTHING_SELECTED, EXIT_OK, BadInput, InfraError, NotUp
from harness.infra.findings import Finding
from harness.infra.host import preflight
from harness.infra.host.layout import layout_of
from harness.infra.host.preflight import Requirement
from harness.infra.host.status import InstanceStatus, ProgramStatus, SeenMachine, State
from harness.model import Mirror
from harness.providers import Opening
from harness.spec.settings import Settings
from harness.streams import TOLD

app = typer.Typer()
doctor.register(app)
app.add_typer(infra.app, name="infra")
runner = CliRunner()


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this host have everything."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "PROGRAMS", ())
    monkeypatch.setattr(preflight, "BUILDERS", ())
    monkeypatch.setattr(preflight, "KERNEL", ())
    monkeypatch.setattr(preflight, "COMPILER", Requirement("sh", "everything", ("sh", "-c", "exit 0"), ""))
    monkeypatch.setattr(preflight, "check_ports", lambda *_: [])
    monkeypatch.setattr(preflight, "check_disk", lambda *_: [])


def test_status_of_what_is_not_there_says_how_to_bring_it_up() -> None:
    done = runner.invoke(app, ["infra", "status", "--name", "unit-none"])
    assert done.exit_code == EXIT_NOTHING_SELECTED
    assert done.output == "infra unit-none is down; to create it: vmatrix infra up --infra-name unit-none\n"


def test_the_variable_of_the_setting_names_the_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMATRIX_INFRA_NAME", "unit-named")
    assert runner.invoke(app, ["infra", "status"]).output.startswith("infra unit-named is down")


def test_status_for_programs_is_json() -> None:
    done = runner.invoke(app, ["infra", "status", "--name", "unit-none", "--json"])
    assert done.exit_code == EXIT_NOTHING_SELECTED
    assert json.loads(done.output)["state"] == "down"


def test_remains_without_a_record_are_broken_and_named() -> None:
    layout = layout_of("unit-remains", "embedded")
    layout.root.mkdir(parents=True)
    done = runner.invoke(app, ["infra", "status", "--name", "unit-remains"])
    assert done.exit_code == EXIT_INFRA
    assert f"left on this host: file {layout.root}" in done.output
    assert "to delete it: vmatrix infra down --infra-name unit-remains" in done.output


def test_every_state_has_its_own_exit_code() -> None:
    assert infra.EXIT_CODES == {State.UP: EXIT_OK, State.BROKEN: EXIT_INFRA, State.DOWN: EXIT_NOTHING_SELECTED}


def test_a_broken_program_and_its_log_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    programs = (ProgramStatus("etcd", 7, 61, 44, ""), ProgramStatus("mirror", None, 0, 0, "ended; /x/mirror.log"))
    infra.show("unit", InstanceStatus(State.BROKEN, programs), {"server": "https://10.213.0.1:6443"})
    shown = capsys.readouterr().out
    assert "infra unit is broken" in shown
    assert "0:01:01" in shown
    assert "/x/mirror.log" in shown
    assert "to repair it: vmatrix infra up --infra-name unit" in shown


@pytest.mark.parametrize(("node", "said"), [("", "off (vmatrix infra up --pods)"), ("n-pods", "on node n-pods")])
def test_it_is_told_whether_pods_run(node: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    infra.show("unit", InstanceStatus(State.UP, (ProgramStatus("etcd", 7, 61, 44, ""),), pods=node), {})
    assert f"pods         {said}" in capsys.readouterr().out


def test_a_narrow_terminal_breaks_no_namespace(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = "vmatrix-k1363-d13-c2-fl-nf-c1w1-fresh-m-o-e99977-abcdef-1"
    machine = SeenMachine(namespace, "cp-0", "Running", "10.213.0.14")
    program = ProgramStatus("etcd", 7, 61, 44, "")
    monkeypatch.setattr(infra, "out", Console(width=80, soft_wrap=True, highlight=False))
    infra.show("unit", InstanceStatus(State.UP, (program,), machines=(machine,)), {})
    lines = capsys.readouterr().out.splitlines()
    assert any(namespace in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_problems_are_shown_with_their_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    problem = "the installation of KubeVirt and CDI did not come to its end"
    seen = InstanceStatus(State.BROKEN, (ProgramStatus("mirror", 7, 61, 44, ""),), problems=(problem,))

    infra.show("unit", seen, {}, "kind")

    shown = capsys.readouterr().out
    assert f"  problem: {problem}\n" in shown
    assert "to repair it: vmatrix infra up --provider kind --infra-name unit\n" in shown


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_describe_of_half_an_instance_shows_it_and_fails(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    seen = InstanceStatus(
        State.BROKEN, (ProgramStatus("mirror", None, 0, 0, "not started"),), problems=("CDI is gone",)
    )

    class Half:
        def describe(self) -> dict[str, str]:
            return {"name": "unit"}

        def mirror(self) -> Mirror:
            return Mirror(http="http://m", registry="m:5000")

        def deliveries(self) -> str:
            return "d:5001"

        def pulls(self) -> str:
            return "d:5002"

        def status(self) -> InstanceStatus:
            return seen

    monkeypatch.setattr(infra, "_instance", lambda *_: Half())

    done = runner.invoke(app, ["infra", "describe", "--name", "unit", *words])

    assert "broken" in done.stdout
    assert all(text in done.stdout for text in ("d:5001", "d:5002"))
    assert isinstance(done.exception, InfraError)
    assert done.exception.exit_code == EXIT_INFRA
    assert done.exception.detail == "mirror: not started\nCDI is gone"
    assert done.exception.hint == "repair it: vmatrix infra up --infra-name unit"


@pytest.mark.parametrize("there", [True, False])
def test_a_shell_gets_addresses_and_kubectl(there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Whole:
        def kubeconfig(self) -> Path:
            return tmp_path / "my config"

        def guest_vars(self) -> dict[str, list[str]]:
            return {"cluster_x": ["it's"]}

        def mirror(self) -> Mirror:
            return Mirror(http="http://m:8080", registry="m:5000")

        def status(self) -> InstanceStatus:
            return InstanceStatus(State.UP)

    folder = tmp_path / "programs of others"
    folder.mkdir()
    (folder / "kubectl").write_text("#!/bin/sh\n")
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setattr(infra, "_instance", lambda *_, **__: Whole())
    monkeypatch.setattr(providers, "kubectl", lambda _: folder / "kubectl")
    monkeypatch.setenv("PATH", str(folder if there else tmp_path))
    said = runner.invoke(app, ["infra", "env", "--name", "unit"]).stdout

    shown = 'echo "$KUBECONFIG|$MIRROR|$REGISTRY|$GUEST_VARS|$(command -v kubectl)"'
    told = proc.run(["/bin/sh", "-c", f"{said}{shown}"], timeout=10).stdout
    told_vars = """{"cluster_x": ["it's"]}"""
    assert told == f"{tmp_path}/my config|http://m:8080|m:5000|{told_vars}|{folder}/kubectl\n"
    assert ("PATH=" in said) is not there


def test_a_shell_gets_nothing_of_an_instance_that_is_down() -> None:
    done = runner.invoke(app, ["infra", "env", "--name", "unit-none"])
    assert done.stdout == ""
    assert isinstance(done.exception, NotUp)
    assert done.exception.exit_code == EXIT_NOTHING_SELECTED
    assert done.exception.hint == "vmatrix infra up --infra-name unit-none"


@pytest.mark.parametrize("option", ["--releases", "--file"])
def test_the_file_of_releases_has_one_name(option: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TOLD, "")
    asked: list[Path | None] = []

    def pin(file: Path | None) -> Iterator[tuple[str, str]]:
        asked.append(file)
        yield "0" * 64, "http://h/x.yaml"

    monkeypatch.setattr(providers, "pin_releases", pin)

    done = runner.invoke(app, ["infra", "pin", option, str(tmp_path / "mine.yml")])

    assert done.exit_code == EXIT_OK, done.output
    assert asked == [tmp_path / "mine.yml"]
    assert done.stderr == ("" if option == "--releases" else "note: --file is now called --releases\n")
    assert "--file" not in runner.invoke(app, ["infra", "pin", "--help"], env={"COLUMNS": "200"}).output


def test_up_takes_the_file_of_releases_from_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vmatrix.yml").write_text("provider: kind\nreleases: mine.yml\nkvm: hide\n")
    asked: list[Settings] = []

    def instance(_: object, opening: Opening) -> None:
        asked.append(opening.settings)
        raise BadInput("enough")

    monkeypatch.setattr("harness.providers.kind.KindDefinition.instance", instance)

    runner.invoke(app, ["infra", "up", "--name", "unit-new"])

    (settings,) = asked
    assert (settings.releases, settings.kvm) == (Path("mine.yml"), "hide")


def test_a_provider_that_cannot_be_brought_up_is_bad_input() -> None:
    done = runner.invoke(app, ["infra", "up", "--provider", "kubeconfig"])
    assert isinstance(done.exception, BadInput)


@pytest.mark.usefixtures("complete")
def test_doctor_finds_nothing_on_a_complete_host() -> None:
    done = runner.invoke(app, ["doctor", "--json"])
    assert [f for f in json.loads(done.output) if f["fatal"]] == []
    assert done.exit_code == EXIT_OK


@pytest.mark.usefixtures("complete")
def test_doctor_shows_what_is_missing_and_a_command_that_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = (
        Requirement("no-such-one", "machines need it", ("no-such-one",), "apt-get install --yes no-such-one"),
        Requirement("no-such-two", "machines need it", ("no-such-two",), "apt-get install --yes no-such-two"),
    )
    monkeypatch.setattr(preflight, "PROGRAMS", absent)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    done = runner.invoke(app, ["doctor"])
    assert done.exit_code == EXIT_BAD_INPUT
    assert "  apt-get install --yes no-such-one no-such-two\n" in done.output
    assert "this is user 1000, not root" in done.output.replace("\n", " ")
    assert "this host lacks 3 things" in done.output


@pytest.mark.usefixtures("complete")
def test_doctor_says_that_memory_is_too_little() -> None:
    done = runner.invoke(app, ["doctor", "--memory", str(2**30), "--json"])
    assert done.exit_code == EXIT_BAD_INPUT
    (finding,) = [f for f in json.loads(done.output) if f["fatal"]]
    assert finding["what"].endswith("MiB of memory are available")


def test_doctor_of_an_unreachable_cluster_exits_with_bad_input(tmp_path: Path) -> None:
    done = runner.invoke(app, ["doctor", "--kubeconfig", str(tmp_path / "none")])
    assert done.exit_code == EXIT_BAD_INPUT
    assert "lacks 1 thing\n" in done.output


@pytest.mark.parametrize(
    ("file", "variable", "words", "expected"),
    [
        (None, None, [], "embedded"),
        ("kind", None, [], "kind"),
        ("kind", "embedded", [], "embedded"),
        ("embedded", "embedded", ["--provider", "kind"], "kind"),
        ("kind", None, ["--kubeconfig", "x"], "kubeconfig"),
    ],
)
def test_doctor_looks_at_the_provider_that_a_run_would_use(
    file: str | None,
    variable: str | None,
    words: list[str],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    if file is not None:
        (tmp_path / "vmatrix.yml").write_text(f"provider: {file}\n")
    if variable is not None:
        monkeypatch.setenv("VMATRIX_PROVIDER", variable)
    looked: list[str] = []

    class Looked:
        def check(self, settings: Settings, *_: object) -> tuple[str, list[Finding]]:
            looked.append(settings.provider)
            return "it", []

    monkeypatch.setattr(providers, "of", lambda _: Looked())

    assert runner.invoke(app, ["doctor", *words]).exit_code == EXIT_OK
    assert looked == [expected]


def test_doctor_refuses_a_kubeconfig_for_another_provider() -> None:
    done = runner.invoke(app, ["doctor", "--provider", "kind", "--kubeconfig", "x"])
    assert isinstance(done.exception, BadInput)
    assert done.exception.summary == "--kubeconfig is for provider kubeconfig, not kind"


def test_doctor_of_an_unknown_provider_is_bad_input() -> None:
    done = runner.invoke(app, ["doctor", "--provider", "cloud"])
    assert isinstance(done.exception, BadInput)


@pytest.mark.parametrize(
    "word", ["--infra-name unit-none", "--infra-name=unit-none", "--name unit-none", "--name=unit-none"]
)
def test_the_former_option_for_the_name_is_taken_and_not_shown(word: str) -> None:
    assert "infra unit-none is down" in runner.invoke(app, ["infra", "status", *word.split()]).output
    assert " --name" not in runner.invoke(app, ["infra", "status", "--help"]).output


@pytest.mark.parametrize(
    ("options", "name"), [([], "unit-of-file"), (["--infra-name", "unit-given"], "unit-given")], ids=["file", "option"]
)
def test_the_instance_is_the_one_of_the_settings(
    options: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vmatrix.yml").write_text("infra_name: unit-of-file\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VMATRIX_PROJECT", raising=False)
    done = CliRunner().invoke(app, ["infra", "status", *options])
    assert done.output.startswith(f"infra {name} is down")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (Path("/a"), "/a"),
        (3, "3"),
        (None, "-"),
        (True, "yes"),
        (("a", "b"), "a, b"),
        ([None, False], "no"),
        ({"http": "http://m", "registry": "m:5000"}, "http://m, m:5000"),
        ({"a": {"b": None}}, "-"),
        (State.BROKEN, "broken"),
    ],
)
def test_facts_are_printed_without_words_of_python(value: object, text: str) -> None:
    assert infra._text(value) == text


def test_addresses_of_a_mirror_are_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    of_ipv6 = Mirror("http://[fd76:6d78:d5::1]:8080", "[fd76:6d78:d5::1]:5000")
    mirror = asdict(Mirror("http://10.213.0.1:8080", "10.213.0.1:5000", ipv6=of_ipv6))
    infra.show("a", InstanceStatus(State.UP), {"mirror": infra._text(mirror)})
    assert capsys.readouterr().out.splitlines()[1].split(maxsplit=1)[1].split(", ") == [
        "http://10.213.0.1:8080",
        "10.213.0.1:5000",
        "http://[fd76:6d78:d5::1]:8080",
        "[fd76:6d78:d5::1]:5000",
    ]
