"""How the tutorial's blocks are read and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tutorial.page import Command, File, fits, parted, section, steps
from tests.tutorial.reader import Reader

PAGE = """\
```yaml
# a/b.yml
x: 1
```
```jinja
{# c.j2 #}
```
```sh
one
two
```
```console
$ three
said
$ four
```
```text
only read
```
"""


def test_blocks_are_files_and_commands_in_their_order() -> None:
    assert list(steps(PAGE)) == [
        File("a/b.yml", "# a/b.yml\nx: 1\n"),
        File("c.j2", "{# c.j2 #}\n"),
        Command("one\ntwo\n"),
        Command("three", "said\n"),
        Command("four", ""),
    ]


@pytest.mark.parametrize("block", ["```yaml\nx: 1\n```\n", "```console\nsaid\n```\n"])
def test_a_block_that_nobody_executes_is_refused(block: str) -> None:
    with pytest.raises(ValueError, match="block"):
        list(steps(block))


@pytest.mark.parametrize(
    ("prints", "seen", "fit"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("b\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("...\nb\n...\n", "a\nb\n", True),
        ("...\nx\n...\n", "a\nb\n", False),
        ("  took  1.2 s\n", "took 3 min 05 s\n", True),
        ("took 1.2 s: ok\n", "took 1.2 s: failed\n", False),
        ("runs/abc123/x\n", "runs/zzzzzz/x\n", True),
        ("m-0  10.213.1.2  12s\n", "m-0 10.214.11.20 3m4s\n", True),
        ("m-0  10.213.1.2  v1.36.3\n", "m-0  10.213.1.2  v1.36.1\n", False),
        ("m-0  12s\n", "m-0  <none>\n", False),
        ("a ...\na ok\n", "a ...\na: Pull images (28.2 s so far)\na ok\n", True),
        ("a ...\na ok\n", "a ...\na: failed (28.2 s)\na ok\n", False),
        ("14 passed, 1 failed  1.7 s\n", "15 passed  1.7 s\n", False),
    ],
)
def test_only_what_always_differs_may_differ(prints: str, seen: str, fit: bool) -> None:
    assert fits(prints, seen) is fit


def test_a_section_ends_where_the_next_begins() -> None:
    page = "# Page\n\n## First\na\n### Part\nb\n## Second\nc\n"
    assert section(page, "First") == "a\n### Part\nb\n"
    assert section(page, "Second") == "c\n"
    with pytest.raises(ValueError, match="no section 'Third'"):
        section(page, "Third")


def reader(folder: Path) -> Reader:
    (folder / "empty").mkdir()
    return Reader(folder / "empty", {"PATH": "/usr/bin:/bin"}, folder / "exported", lambda _line: None)


def test_what_a_command_exports_is_there_for_the_next(tmp_path: Path) -> None:
    page = "```sh\nexport WORD='a b'\nPATH=$PATH:/more\n```\n```console\n$ echo $WORD ${PATH##*:}\na b /more\n```\n"
    assert reader(tmp_path).does(page) == []


def test_what_is_printed_otherwise_is_told(tmp_path: Path) -> None:
    (told,) = reader(tmp_path).does("```text\nx\n```\n```console\n$ echo a\nb\n$ echo c\nc\n```\n")
    assert told == "$ echo a\nthe page says:\nb\n\nit printed:\na\n"


@pytest.mark.parametrize(
    "block", ["```sh\nfalse\ntrue\n```\n", "```sh\nfalse | true\n```\n", "```console\n$ false\n```\n"]
)
def test_a_command_that_fails_ends_it(tmp_path: Path, block: str) -> None:
    with pytest.raises(AssertionError, match="false"):
        reader(tmp_path).does(block)


def test_a_page_is_parted_at_a_heading() -> None:
    assert parted("a\n### x\nb\n", "### x") == ("a\n", "b\n")
    with pytest.raises(ValueError, match="there is no '### y'"):
        parted("a\n### x\nb\n", "### y")
