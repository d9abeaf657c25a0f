"""What the command says of itself, and what each command loads: nothing that it does not need."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from harness import __version__
from harness.cli import app
from harness.cli.root import KNOWN, MODULES, POD_COMMANDS, late, loaded, program
from harness.spec.settings import Settings

runner = CliRunner()


def commands(command: object, *names: str) -> list[list[str]]:
    """Return the words of every command and of every group of commands."""
    inner: dict[str, object] = getattr(command, "commands", {})
    return [list(names), *(words for name in inner for words in commands(inner[name], *names, name))]


@pytest.mark.parametrize("words", commands(typer.main.get_command(app)), ids=" ".join)
def test_help_says_what_a_command_does(words: list[str]) -> None:
    result = runner.invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage: vmatrix" in result.output.replace("root", "vmatrix")
    described = [line for line in result.output.splitlines()[2:] if line.strip()]
    assert described
    assert not described[0].lstrip().startswith("╭"), "no sentence says what it is for"


def test_every_part_has_its_command() -> None:
    known = {" ".join(words) for words in commands(typer.main.get_command(app))}
    assert known >= {
        *("run", "list", "explain", "status", "login", "reap", "doctor", "config", "version"),
        *("infra up", "infra down", "infra status", "artifacts build", "artifacts serve", "image build"),
    }


def test_config_for_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vmatrix.yml").write_text("infra_name: desk\nexpiry_hours: 2\n", encoding="utf-8")
    result = runner.invoke(app, ["config", "--json"], env={"VMATRIX_EXPIRY_HOURS": "3"})
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told.keys() == Settings.model_fields.keys()
    assert told["infra_name"] == {"value": "desk", "from": "vmatrix.yml:1"}
    assert told["expiry_hours"] == {"value": 3.0, "from": "VMATRIX_EXPIRY_HOURS"}
    assert told["provider"] == {"value": "embedded", "from": "default"}


def test_version() -> None:
    assert runner.invoke(app, ["version"]).stdout.strip() == __version__


LOADED = """\
import sys
from harness.cli.root import program
assert program(["operator", sys.argv[1]]) is not None
print([name for name in ("harness.cli.run", "harness.session", "harness.report") if name in sys.modules])
"""


def command(whole: typer.Typer, name: str) -> Any:
    """Return `operator NAME` of an app, as typer's own kind of command (typer may have click in it or beside it)."""
    group: Any = typer.main.get_command(whole)
    found = group.commands["operator"].commands[name]
    assert found.params
    return found


@pytest.mark.parametrize("name", POD_COMMANDS)
def test_it_is_the_same_command_as_among_all_others(name: str) -> None:
    alone = program(["operator", name, "--whatever"])
    assert alone is not None
    mine, theirs = command(alone, name), command(app, name)
    assert [(p.name, p.opts, p.required) for p in mine.params] == [(p.name, p.opts, p.required) for p in theirs.params]
    assert mine.help == theirs.help


@pytest.mark.parametrize("name", POD_COMMANDS)
def test_it_loads_nothing_of_the_other_commands(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, name], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "words", [[], ["operator"], ["operator", "log"], ["run"], ["--project", ".", "operator", "run"]]
)
def test_every_other_command_line_is_left_to_all_commands(words: list[str]) -> None:
    assert program(words) is None


HEAVY = ("kubernetes", "harness.spec.models", "harness.session.plan", "harness.providers", "pytest")
LOADED_BY = f"""\
import sys
import harness.cli
sys.argv = ["vmatrix", *sys.argv[1:]]
try:
    harness.cli.main()
except SystemExit as ended:
    sys.stderr.write(f"{{ended.code}} {{[name for name in {HEAVY!r} if name in sys.modules]}}")
"""


def whole() -> Any:
    """Return all commands, loaded."""
    return typer.main.get_command(app)


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--version"], ["version"], []], ids=" ".join)
def test_a_short_answer_loads_nothing_of_the_commands(words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED_BY, *words], capture_output=True, text=True, check=True)
    code, _, heavy = done.stderr.partition(" ")
    assert code == ("2" if not words else "0")  # without a command, the help is what one gets for a mistake
    assert heavy == "[]"
    assert done.stdout.strip() == __version__ if "version" in str(words) else "Usage: vmatrix" in done.stdout


def test_every_command_is_known_with_its_first_sentence() -> None:
    commands = whole().commands
    assert set(commands) == set(KNOWN) == set(MODULES)
    said = {name: " ".join(str(one.help).partition("\n\n")[0].split()) for name, one in commands.items()}
    assert said == KNOWN


# What a command does without: of results, of planning anew, of a run's cells, of pytest.
UNUSED = {
    "list": ("harness.report", "harness.history.record", "harness.session.plan", "harness.plan.build", "pytest"),
    "run": ("harness.cell.life", "harness.session.run", "harness.plugin.single_process", "_pytest"),
}


@pytest.mark.parametrize(("name", "unused"), UNUSED.items(), ids=UNUSED)
def test_a_command_loads_nothing_that_it_does_not_use(name: str, unused: tuple[str, ...]) -> None:
    program = f"import sys; from harness.cli.root import loaded; loaded({name!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    there = set(done.stdout.split())
    assert f"harness.cli.{MODULES[name]}" in there
    assert not there & set(unused)


def test_cells_are_listed_without_what_reads_results(tmp_path: Any) -> None:
    (tmp_path / "vmatrix.yml").touch()
    program = (
        "import sys, harness.cli\nsys.argv = ['vmatrix', 'list', '--tier', 'smoke']\ntry:\n    harness.cli.main()\n"
    )
    program += "except SystemExit as ended:\n    print(ended.code, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    *listed, last = done.stdout.splitlines()
    code, *there = last.split()
    assert (code, any("smoke" in line.split() for line in listed)) == ("0", True)
    assert not set(there) & {*UNUSED["list"], "harness.schedule.past_runs"}


def test_what_checks_values_is_made_with_the_first_value() -> None:
    program = (
        "from harness.spec import models; print(models.Tier.__pydantic_complete__, models.Tier.model_fields != {})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"


def test_no_search_for_garbage_goes_through_what_was_imported() -> None:
    program = (
        "import gc; from harness.cli.root import loaded; loaded('list'); print(gc.isenabled(), gc.get_freeze_count())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    enabled, frozen = done.stdout.split()
    assert (enabled, int(frozen) > 0) == ("True", True)


@pytest.mark.parametrize("name", KNOWN)
def test_a_command_that_is_loaded_later_is_the_same(name: str) -> None:
    alone, among = loaded(name), whole().commands[name]
    assert [(p.name, p.opts, p.required) for p in alone.params] == [(p.name, p.opts, p.required) for p in among.params]
    assert list(getattr(alone, "commands", {})) == list(getattr(among, "commands", {}))


def test_a_word_that_is_no_command_is_refused() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED_BY, "nope"], capture_output=True, text=True, check=True)
    assert "No such command 'nope'" in " ".join(done.stderr.split())
    assert done.stderr.endswith("2 []")


def test_options_before_the_command_count(tmp_path: Any) -> None:
    words = ["--project", str(tmp_path / "nope"), "list"]
    done = subprocess.run([sys.executable, "-c", LOADED_BY, *words], capture_output=True, text=True, check=True)
    assert "nope is not a project" in done.stderr


def options(command: Any, *names: str) -> list[tuple[str, Any, Any]]:
    inner = getattr(command, "commands", {})
    context = command.context_class(command, info_name="vmatrix")
    own = [(" ".join(names), context, one) for one in command.get_params(context)]
    return own + [found for name in inner for found in options(inner[name], *names, name)]


def test_no_help_shows_a_type_of_python() -> None:
    found = options(whole())
    assert len(found) > 200
    for where, context, one in found:
        said = one.display_type_rich(context) if hasattr(one, "display_type_rich") else one.metavar
        assert not set(str(said or "")) & set("<>|"), (where, one.name, said)


def test_the_help_of_late_commands_is_complete() -> None:
    assert late().list_commands(None) == list(KNOWN)
