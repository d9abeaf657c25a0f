"""Documentation that cannot rot: lines, links, commands, options, environments, paths and words of every page."""

from __future__ import annotations

import configparser
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.cli import PAGE, app
from harness.cli.settings import pages as printed_pages
from tests.tutorial.page import section, steps
from tests.unit import pages
from tests.unit.pages import ROOT

COLUMNS = 120
PLACEHOLDER = re.compile(r"(?<![\w-])[A-Z][A-Z.]*(?![\w-])")  # NAME, MINOR, X.Y
OURS = ("ci", "deploy", "docs", "harness", "matrix", "playbooks", "templates", "tests", "vm-templates")
# Options of other programs that pages name on their own, in backticks.
FOREIGN = {
    "--host-address": "tests/contract",
    "--check --diff": "ansible-playbook",
    "--check": "ansible-playbook",
    "--diff": "ansible-playbook",
    "--limit": "ansible-playbook",
    "--json": "nft",
    "--record": "tests.bench",
    "--name": "tests.bench, former name of --infra-name in vmatrix infra",
    "--only": "tests.bench",
    "--keep-results": "tests/kill",
    "--authentication-config": "kube-apiserver",
    "--enable-aggregator-routing": "kube-apiserver",
    "--emulated-version": "kube-apiserver",
    "--etcd-servers": "kube-apiserver",
    "--oidc-*": "kube-apiserver",
    "--initial-cluster": "etcd",
    "--unsafe-no-fsync": "etcd",
    "--kubelet-certificate-authority": "metrics-server",
    "--kubelet-insecure-tls": "metrics-server",
    "--delete-namespace": "e2e.test",
    "--oci-worker-no-process-sandbox": "buildkitd",
}
# Words that the glossary of docs/architecture.md replaced, and phrases that read like a translation.
REPLACED = {
    r"kinds? of infra": "infra profile",
    r"infra[-_]kind": "infra profile",
    r"provider `?local\b": "embedded",
    r"\bway in\b": "connecting to machines",
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\banew\b": "again",
    r"\btaken? away\b": "remove, delete",
    r"\bonce more\b": "again",
    r"\bof its own\b": "own, separate",
    r"\ball the same\b": "still",
    r"\bwhatever became of\b": "even if",
    r"\bcannot be had\b": "is not available",
}
Finder = Callable[[str], list[str]]


def too_long(text: str) -> list[str]:
    """Return the lines that are too long, but for one URL and for lines of other files, shown in a diff."""
    return [
        f"{line.number}: {len(line.text)} columns"
        for line in pages.lines(text)
        if len(line.text) > COLUMNS and not line.diff and not re.fullmatch(r"\s*[-*]?\s*<?https?://\S+", line.text)
    ]


def paragraphs_in_tables(text: str) -> list[str]:
    """Return the cells of tables that hold more than one sentence."""
    return [f"{number}: {cell}" for number, cell in pages.cells(text) if re.search(r"[a-z)`][.?!] +[A-Z`]", cell)]


def old_words(text: str) -> list[str]:
    """Return the words of prose that have a better one."""
    prose = re.sub(r"\s+", " ", " ".join(line.text for line in pages.lines(text) if not line.code))
    found = ((re.search(old, prose, re.IGNORECASE), new) for old, new in REPLACED.items())
    return [f"{match.group()}: {new}" for match, new in found if match]


def unknown_commands(text: str) -> list[str]:
    """Return the calls of vmatrix whose command or options do not exist."""
    calls = [line for line in pages.shell(text) if re.match(r'vmatrix |.*"vmatrix ', line)]
    calls += [span for span in pages.spans(text) if span.startswith("vmatrix ")]
    named = (re.sub(r'^.*?vmatrix ([^"|]*).*$', r"\1", call) for call in calls)
    return [problem for call in named for problem in problems(call)]


def problems(call: str) -> Iterator[str]:
    """Yield what the command line would refuse of one call: `infra up --name X`."""
    words = call.split(" -- ")[0].split()
    command, depth = whole_command(), 0
    while depth < len(words) and hasattr(command, "commands") and not words[depth].startswith("-"):
        if words[depth] not in command.commands:
            yield f"vmatrix {call}: no command {words[depth]}"
            return
        command, depth = command.commands[words[depth]], depth + 1
    known = visible(command)
    for word in words[depth:]:
        option = word.strip("[],;:").partition("=")[0].split("|")[0]
        if option.startswith("-") and option not in known:
            yield f"vmatrix {call}: no option {option}"


@cache
def whole_command() -> Any:
    """Return `vmatrix` with all of its commands, which take a second to put together."""
    return typer.main.get_command(app)


def visible(command: object) -> set[str]:
    """Return the options of a command that its help shows; former names are hidden, and no page should teach them."""
    shown = [p for p in getattr(command, "params", []) if not getattr(p, "hidden", False)]
    return {option for p in shown for option in (*p.opts, *p.secondary_opts)} | {"--help"}


def every_option(command: object) -> set[str]:
    """Return the options of a command and of all commands below it."""
    below = getattr(command, "commands", {}).values()
    return visible(command).union(*(every_option(one) for one in below))


def unknown_options(text: str) -> list[str]:
    """Return the options that a page names on their own, and that no command has."""
    known = every_option(whole_command()) | set(FOREIGN)
    named = (re.match(r"--[a-z][a-z-]*\*?", span) for span in pages.spans(text))
    return [match.group() for match in named if match and match.group() not in known]


def unknown_environments(text: str) -> list[str]:
    """Return the tox environments that tox.ini does not have."""
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    known = {section.removeprefix("testenv:") for section in tox.sections()}
    named = [name for names in re.findall(r"tox (?:run |devenv )?-e ([\w,-]+)", text) for name in names.split(",")]
    return [name for name in named if name not in known]


def missing_paths(text: str) -> list[str]:
    """Return the paths of the project between backticks that do not exist; NAME and X.Y stand for any name."""
    shape = re.compile(rf"(?:{'|'.join(OURS)})/[\w./*-]+")
    named = (span.split("::")[0].rstrip("/") for span in pages.spans(text))
    return [path for path in named if shape.fullmatch(path) and not any(ROOT.glob(PLACEHOLDER.sub("*", path)))]


def broken_links(text: str, page: Path = ROOT / "README.md") -> list[str]:
    """Return the relative links of a page that lead to no file, or to no heading of it."""
    broken = []
    for link in pages.links(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        found = target.exists() and (not anchor or anchor in pages.anchors(target.read_text(encoding="utf-8")))
        broken += [] if found else [link]
    return broken


PLANTED: list[tuple[Finder, str, str]] = [
    (too_long, "x" * 121, "x" * 120),
    (too_long, f"```sh\n{'x' * 121}\n```", f"```diff\n+{'x' * 121}\n```"),
    (too_long, f"see https://example.org/{'x' * 120}", f"https://example.org/{'x' * 120}"),
    (paragraphs_in_tables, "| a | It starts. It ends. |", "| a | it starts, 1.5 s. |"),
    (old_words, "The kind of\ninfra decides.", "The infra profile decides."),
    (old_words, "`up` mends it.", "`up` repairs it."),
    (unknown_commands, "`vmatrix infra upp`", "`vmatrix infra up`"),
    (unknown_commands, "`vmatrix run\n--teir smoke`", "`vmatrix run\n--tier smoke`"),
    (
        unknown_commands,
        "```\n$ vmatrix run --shart 1/2  # --tier\n```",
        "```\n$ vmatrix run --shard 1/2  # --shart\n```",
    ),
    (unknown_commands, "    vmatrix kubectl CELL --contexts x", "    vmatrix kubectl CELL -- --contexts x"),
    (unknown_commands, '```\nssh -o P="vmatrix prox C"\n```', '```\nssh -o P="vmatrix proxy C"\n```'),
    (unknown_options, "`--parallell N`", "`--parallel N` and `--limit`"),
    (unknown_environments, "`tox -e lint,unti`", "`tox -e lint,unit`"),
    (missing_paths, "`harness/cli/rum.py`", "`harness/cli/run.py`"),
    (missing_paths, "`matrix/conformance/X.Y.yaml`", "`matrix/conformance/X.Y.yml`"),
    (missing_paths, "`tests/chaos/test_diskz.py::test_x`", "`tests/chaos/test_disks.py::test_x`"),
    (broken_links, "[matrix](docs/matrixx.md)", "[matrix](docs/matrix.md) [there](https://example.org)"),
    (broken_links, "[x](docs/matrix.md#planing)", "[x](docs/matrix.md#planning)"),
]


@pytest.mark.parametrize(
    ("find", "wrong", "right"), PLANTED, ids=[f"{p[0].__name__}-{n}" for n, p in enumerate(PLANTED)]
)
def test_a_planted_mistake_is_found_and_the_same_without_it_is_not(find: Finder, wrong: str, right: str) -> None:
    assert len(find(wrong)) == 1
    assert find(right) == []


def test_there_is_something_to_look_at() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages.pages())
    assert len(pages.pages()) > 40
    assert len([span for span in pages.spans(text) if span.startswith("vmatrix ")]) > 50
    assert len([line for line in pages.shell(text) if line.startswith("vmatrix ")]) > 40
    assert len(list(pages.links(text))) > 50


@pytest.mark.parametrize("page", pages.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_readable_and_names_what_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert too_long(text) == []
    assert paragraphs_in_tables(text) == []
    assert broken_links(text, page) == []
    if page.name != "CHANGELOG.md":  # it tells of what was, too
        for find in (old_words, unknown_commands, unknown_options, unknown_environments, missing_paths):
            assert find(text) == [], find.__name__


@pytest.mark.parametrize("name", ["tutorial.md", "operator.md", "operator/day-2.md"])
def test_what_is_executed_at_night_is_commands_files_and_text(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert list(steps(section(text, "Tutorial") if name == "operator.md" else text))


def test_every_option_of_other_programs_is_still_named() -> None:
    named = {span for page in pages.pages() for span in pages.spans(page.read_text(encoding="utf-8"))}
    unused = [option for option in FOREIGN if not any(option in span for span in named)]
    assert unused == []


SOURCES = [file for file in sorted((ROOT / "harness").rglob("*")) if file.suffix in (".py", ".yml", ".j2", ".in")]


def test_every_page_that_a_message_or_a_comment_of_ours_names_is_there() -> None:
    named = {
        (page, str(file.relative_to(ROOT)))
        for file in SOURCES
        if "packaged" not in file.parts
        for page in PAGE.findall(file.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    assert sorted(found for found in named if found[0] not in printed_pages()) == []
