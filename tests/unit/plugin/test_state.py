"""pytest has the options of a run, each from the table."""

from __future__ import annotations

import argparse

import pytest

from harness.plugin.state import add_options
from harness.spec.options import OPTIONS, RUN
from harness.streams import TOLD


class Group:
    """Takes options as pytest's group does, into a parser of its own."""

    def __init__(self) -> None:
        self.parser = argparse.ArgumentParser(prog="pytest", allow_abbrev=False)

    def addoption(self, *flags: str, **attributes: object) -> None:
        """Add one."""
        self.parser.add_argument(*flags, **attributes)  # type: ignore[arg-type]


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    monkeypatch.setenv(TOLD, "")
    monkeypatch.setenv("COLUMNS", "300")
    group = Group()
    add_options(group)  # type: ignore[arg-type]
    return group.parser


def test_help_has_every_option_with_its_text_and_choices(parser: argparse.ArgumentParser) -> None:
    said = " ".join(parser.format_help().split())
    for name in RUN:
        assert OPTIONS[name].flag in said
        assert OPTIONS[name].help in said
    assert "--provider PROVIDER" in said
    assert "--infra-kind" not in said


def test_what_is_not_given_is_none_so_that_files_and_variables_count(parser: argparse.ArgumentParser) -> None:
    given = vars(parser.parse_args([]))
    assert (given.pop("cell"), given.pop("suite")) == ([], [])
    assert (given.pop("recheck"), given.pop("recheck_run")) == (None, None)
    assert (given.pop("inventory"), given.pop("facts")) == ([], None)
    assert given.pop("own_checks") is False
    assert given == dict.fromkeys(RUN)


def test_values_have_the_type_of_the_setting(parser: argparse.ArgumentParser) -> None:
    given = parser.parse_args(["--max-machines", "3", "--timeout-scale", "2", "--no-keep-on-failure", "--cell", "a"])
    assert (given.max_machines, given.timeout_scale, given.keep_on_failure, given.cell) == (3, 2.0, False, ["a"])


@pytest.mark.parametrize(
    ("old", "name"),
    [("--infra-kind", "infra_profile"), ("--infra-kubeconfig", "kubeconfig"), ("--infra-namespace", "namespace")],
)
def test_a_former_flag_sets_the_present_option_and_is_told_once(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str], old: str, name: str
) -> None:
    assert getattr(parser.parse_args([old, "x"]), name) == "x"
    assert getattr(parser.parse_args([old, "x"]), name) == "x"
    assert capsys.readouterr().err == f"note: {old} is now called {OPTIONS[name].flag}\n"
