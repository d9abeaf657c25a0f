"""The documentation as a site: links, lists and reference, without building it; tests/web builds it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
import yaml

from ci.site import checks, commands, decisions, exit_codes, files, settings
from ci.site.links import for_site
from ci.site.markdown import anchor, for_python_markdown
from ci.site.tables import shown, table
from harness import errors
from harness.cli import app
from harness.paths import project_dir
from harness.spec.schemas import schemas
from harness.spec.settings import Settings
from tests.unit import pages

PLACES = {"README.md": "README.md", "docs/a.md": "a.md", "docs/b/c.md": "b/c.md", "CHANGELOG.md": "changelog.md"}
SOURCE = "https://gitlab.example/group/vmatrix/-/blob/0123"


@pytest.mark.parametrize(
    ("page", "link", "made"),
    [
        ("README.md", "[x](docs/a.md#part)", "[x](a.md#part)"),
        ("docs/b/c.md", "[x](../../CHANGELOG.md)", "[x](../changelog.md)"),
        ("docs/b/c.md", "[x](../a.md)", "[x](../a.md)"),
        ("docs/a.md", "[x](#part)", "[x](#part)"),
        ("docs/a.md", "[x](https://kubevirt.io/)", "[x](https://kubevirt.io/)"),
        ("docs/a.md", "[two\nlines](b/c.md)", "[two\nlines](b/c.md)"),
        ("docs/a.md", "[x](../matrix/axes.yml)", f"[x]({SOURCE}/matrix/axes.yml)"),
        ("docs/a.md", "```\n[x](../README.md)\n```", "```\n[x](../README.md)\n```"),
    ],
)
def test_a_link_leads_to_the_same_place_in_the_site(page: str, link: str, made: str) -> None:
    assert for_site(link, page, PLACES, SOURCE) == made


def test_a_link_to_a_file_that_is_nowhere_to_be_read_is_text() -> None:
    assert for_site("see [axes](../matrix/axes.yml).", "docs/a.md", PLACES, "") == "see axes."


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("text:\n- one\n- two", "text:\n\n- one\n- two"),
        ("- one\n  goes on\n- two", "- one\n    goes on\n- two"),
        ("- one\n  - in it\n- two", "- one\n    - in it\n- two"),
        ("- one\n\n  more of it\n- two", "- one\n\n    more of it\n\n- two"),
        ("text\n| a |\n|---|", "text\n\n| a |\n|---|"),
        ("```\n- one\n  - in it\n```", "```\n- one\n  - in it\n```"),
    ],
)
def test_lists_and_tables_are_what_git_hosts_make_of_them(written: str, made: str) -> None:
    assert for_python_markdown(written) == made


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(pages.ROOT)))
def test_anchors_are_those_of_git_hosts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = [line.text.lstrip("#").strip() for line in pages.lines(text) if not line.code and line.text[:1] == "#"]
    assert {anchor(heading) for heading in headings} == pages.anchors(text)


def test_no_letter_of_a_text_becomes_markup() -> None:
    assert shown("a_b <c> `<d|e>` [f](g) *h*") == r"a\_b &lt;c&gt; `<d|e>` \[f\](g) \*h\*"
    assert table(("x",), [("a | b",)]).endswith("| a &#124; b |")


def leaves(name: str, command: object) -> list[tuple[str, object]]:
    """Return every visible command below one, with its whole name."""
    below = [(f"{name} {word}", one) for word, one in getattr(command, "commands", {}).items() if not one.hidden]
    return [(name, command), *(leaf for word, one in below for leaf in leaves(word, one))]


def test_every_command_and_option_is_in_the_reference() -> None:
    made = commands.text()
    for name, command in leaves("vmatrix", typer.main.get_command(app)):
        assert f"## {name}\n" in made
        section = made.split(f"## {name}\n")[1].split("\n## ")[0]
        for one in getattr(command, "params", []):
            if one.param_type_name == "option" and not one.hidden and one.name != "help":
                assert all(f"`{flag}`" in section for flag in one.opts), f"{name} {one.opts}"


def test_every_setting_is_in_the_reference_with_its_variable_and_default() -> None:
    rows = {line.split(" | ")[0].strip("| `"): line for line in settings.text().splitlines() if line.startswith("| `")}
    assert set(rows) == set(Settings.model_fields)
    assert "`--max-machines`" in rows["max_machines"]
    assert "`VMATRIX_EXPIRY_HOURS`" in rows["expiry_hours"]
    assert "| `4.0` |" in rows["expiry_hours"]
    assert "`portforward`" in rows["access"]


def test_every_file_has_its_keys_and_its_schema() -> None:
    made = files.text()
    for name, schema in schemas().items():
        assert f"(../schemas/{name}.json)" in made
        assert all(f"`{key}`" in made for key in json.loads(schema).get("properties", {}))


def test_every_exit_code_is_in_the_reference() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_") and name != "EXIT_OK"}
    assert {int(code) for code in re.findall(r"^\| `(\d+)`", exit_codes.text(), flags=re.MULTILINE)} == codes


def test_every_check_says_what_it_asserts() -> None:
    found = list(checks.checks())
    assert len(found) > 180
    assert [check.name for check in found if not re.search(r"\w{3}", check.claim)] == [], "a docstring is missing"
    made = checks.text()
    assert [one.name for one in found if one.suite != "life" and f"`{one.name}` in `tests/cells/" not in made] == []


CHECK = """
def test_a(inspection, expected):
    require(wrong(inspection), claim="all is well", look="the log", do=on_machine(expected, "cat FILE"))

def test_b(inspection, expected):
    \"\"\"Nothing is left.\"\"\"
    require([], claim=f"{expected.x} is there", look=expected.look, do=kubectl(expected, "get pods", "get nodes"))
"""


def test_a_check_is_read_from_its_test(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "test_x.py").write_text(CHECK)
    first, second = checks.checks(tmp_path)
    assert (first.suite, first.claim, first.look, first.commands) == ("nodes", "all is well", "the log", ("cat FILE",))
    assert (second.claim, second.look) == ("Nothing is left.", checks.OF_PLUGIN)
    assert second.commands == tuple(f"kubectl --kubeconfig kubeconfig get {kind}" for kind in ("pods", "nodes"))


def test_every_decision_is_listed_by_its_title() -> None:
    folder = project_dir() / "docs/decisions"
    made = decisions.page(folder)
    assert made.count("\n- [") == len(list(folder.glob("*.md"))) > 50
    assert "- [The documentation is a site; its reference is made when the site is built](site.md)" in made


def test_the_site_asks_nothing_of_other_hosts() -> None:
    made = yaml.safe_load((project_dir() / "mkdocs.yml").read_text(encoding="utf-8"))
    assert made["theme"]["font"] is False
    assert made["plugins"] == ["search"]
    assert "extra_javascript" not in made
    assert [path for path in made["extra_css"] if not (project_dir() / "docs" / path).is_file()] == []
