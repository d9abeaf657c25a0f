"""What is known of commands before they are loaded is what they say themselves, and a short answer loads nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from harness import __version__
from harness.cli import app
from harness.cli.front import late
from harness.cli.later import KNOWN, MODULES, loaded

HEAVY = ("kubernetes", "harness.spec.models", "harness.session.plan", "harness.providers", "pytest")
LOADED = f"""\
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
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
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
    program = f"import sys; from harness.cli.later import loaded; loaded({name!r}); print(*sys.modules)"
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
        "import gc; from harness.cli.later import loaded; loaded('list'); print(gc.isenabled(), gc.get_freeze_count())"
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
    done = subprocess.run([sys.executable, "-c", LOADED, "nope"], capture_output=True, text=True, check=True)
    assert "No such command 'nope'" in " ".join(done.stderr.split())
    assert done.stderr.endswith("2 []")


def test_options_before_the_command_count(tmp_path: Any) -> None:
    words = ["--project", str(tmp_path / "nope"), "list"]
    done = subprocess.run([sys.executable, "-c", LOADED, *words], capture_output=True, text=True, check=True)
    assert "nope is no project" in done.stderr


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
