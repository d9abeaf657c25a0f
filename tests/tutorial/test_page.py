"""How the tutorial's blocks are read and compared."""

from __future__ import annotations

import pytest

from tests.tutorial.page import Command, File, fits, steps

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
        ("14 passed, 1 failed  1.7 s\n", "15 passed  1.7 s\n", False),
    ],
)
def test_only_what_always_differs_may_differ(prints: str, seen: str, fit: bool) -> None:
    assert fits(prints, seen) is fit
