"""YAML that is allowed and that no file needs, names that would break a line, and content that must not crash it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.spec.lines import DEEPEST, LARGEST, parse, read, read_all
from harness.spec.loader import FILES
from tests.unit.spec.conftest import MATRIX, mistakes

# A few examples each, so that the suite is quick; `pytest --hypothesis-profile`-like runs raise the number by hand.
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=10**30, max_value=10**40),
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.binary(max_size=8),
    st.text(max_size=8),
    st.sampled_from(["", "~", "<<", "deploy", "v1", "fresh", "os", "2Gi", "*", "[", "network: x", "0", "-1", "a" * 99]),
)


CONTENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(max_size=6), st.sampled_from(["axes", "values", "id", "if"])), inner, max_size=4
        ),
    ),
    max_leaves=12,
)


TRICKS = (
    "&a [*a]",
    "{<<: {a: 1}}",
    "&a {b: *a}",
    "!!timestamp x",
    "!!bool x",
    '!!int ""',
    "!!float x",
    "!!python/object:os.system {}",
    "!!binary x",
    "!!set {a, b}",
    "!!omap [a: 1]",
    "2026-02-30",
    "0000-00-00",
    "2026-01-01T25:00:00+99:99",
    "9" * 5000,
    "0x" + "f" * 5000,
    "1e999",
    ".nan",
    "-.inf",
    "1:30:00",
    "? [a]\n: b",
    "? {a: b}\n: c",
    "[" * 100 + "]" * 100,
    "[" * 100_000,
    "{a: " * 100_000,
    "%YAML 9.9\n--- a",
    "a\n---\nb",
    "\x00",
    "\ufeffaxes: []",
    "axes:\t- a",
    "*nobody",
    "'",
    "",
    "---\n...",
)


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: repr(trick[:20]))
@pytest.mark.parametrize("place", ["whole file", "a value"])
def test_what_yaml_allows_and_no_file_needs(matrix: Path, trick: str, place: str) -> None:
    text = trick if place == "whole file" else MATRIX["product.yml"].replace("the product", trick)
    (matrix / "product.yml").write_text(text, encoding="utf-8")
    assert all("product.yml:" in line for line in mistakes(matrix))


def test_aliases_that_multiply_are_refused_in_time(matrix: Path) -> None:
    levels = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20)]
    text = "\n".join(["product:", "  a0: &a0 [x]", *levels])
    (matrix / "product.yml").write_text(text, encoding="utf-8")
    said = mistakes(matrix)
    assert len([line for line in said if f"more than {LARGEST} values" in line]) == 1


def test_an_anchor_may_save_words(matrix: Path) -> None:
    file = matrix / "topologies.yml"
    text = file.read_text(encoding="utf-8").replace("groups: [node]", "groups: &n [node]")
    file.write_text(
        text + "  more:\n    machines: [{name: x, count: 1, groups: *n, cpus: 1, memory: 1Gi, disk: 1Gi}]\n"
    )
    assert mistakes(matrix) == [
        "topologies.yml:9: topologies.more: no machine is in the group control_plane or etcd; "
        "every cluster needs all of them"
    ]


def test_a_name_that_would_break_the_line_is_quoted_where_known_ones_are_listed(matrix: Path) -> None:
    scenarios = (matrix / "scenarios.yml").read_text(encoding="utf-8")
    (matrix / "scenarios.yml").write_text(scenarios.replace("  fresh:", '  "\\x1e":'), encoding="utf-8")
    said = [line for line in mistakes(matrix) if "unknown scenario (scenarios.yml) 'fresh'" in line]
    assert said
    assert all("known: '\\x1e'" in line for line in said)


def test_a_key_that_would_break_the_line_is_quoted(matrix: Path) -> None:
    (matrix / "product.yml").write_text('"a\\nb\\e[31m": 1\n' + MATRIX["product.yml"], encoding="utf-8")
    assert any(line.startswith("product.yml:1: 'a\\nb\\x1b[31m': unknown key") for line in mistakes(matrix))


def fresh(matrix: Path) -> None:
    """Write the small matrix anew: the examples of one test share a directory."""
    for name, text in MATRIX.items():
        (matrix / name).write_text(text, encoding="utf-8")


@FEW
@given(name=st.sampled_from(sorted(FILES)), content=st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_no_text_makes_it_crash(matrix: Path, name: str, content: str | bytes) -> None:
    fresh(matrix)
    raw = content if isinstance(content, bytes) else content.encode("utf-8", errors="surrogatepass")
    (matrix / name).write_bytes(raw)
    mistakes(matrix)


@FEW
@given(name=st.sampled_from(sorted(FILES)), content=CONTENTS)
def test_no_content_makes_it_crash(matrix: Path, name: str, content: Any) -> None:
    fresh(matrix)
    (matrix / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    mistakes(matrix)


@FEW
@given(data=st.data())
def test_no_change_of_a_right_file_makes_it_crash(matrix: Path, data: st.DataObject) -> None:
    """Some values somewhere in some files dropped, replaced, doubled or taken from elsewhere."""
    fresh(matrix)
    for name in data.draw(st.lists(st.sampled_from(sorted(MATRIX)), min_size=1, max_size=3, unique=True)):
        document, problems = read(matrix / name)
        assert problems == []
        changed = document.content
        for _ in range(data.draw(st.integers(1, 3))):
            changed = _changed(changed, data.draw)
        (matrix / name).write_text(yaml.safe_dump(changed, sort_keys=False), encoding="utf-8")
    mistakes(matrix)


def _changed(content: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """Return content with one change at a place that is drawn."""
    if not isinstance(content, dict | list) or not content or draw(st.integers(0, 4)) == 0:
        return draw(CONTENTS)
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    key = draw(st.sampled_from(keys))
    made: Any = dict(content) if isinstance(content, dict) else list(content)
    what = draw(st.sampled_from(["deeper", "deeper", "deeper", "drop", "double", "rename"]))
    if what == "drop":
        del made[key]
    elif isinstance(made, list) and what == "double":
        made.append(made[key])
    elif isinstance(made, dict) and what == "rename":
        made[draw(st.one_of(SCALARS.filter(lambda s: not isinstance(s, float)), st.sampled_from(keys)))] = made.pop(key)
    else:
        made[key] = _changed(made[key], draw)
    return made


def test_a_file_of_several_documents_keeps_the_lines_of_each(tmp_path: Path) -> None:
    file = tmp_path / "objects.yml"
    file.write_text("a: 1\n---\n# nothing\n---\nb:\n  c: 2\n", encoding="utf-8")
    documents, problems = read_all(file)
    assert [document.content for document in documents] == [{"a": 1}, {"b": {"c": 2}}]
    assert documents[1].line_of(("b", "c")) == 6
    assert problems == []


def test_a_byte_that_is_not_utf_8_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "latin.yml"
    file.write_bytes(b"a: 1\nb: \xe9\n")
    assert [str(problem) for problem in read_all(file)[1]] == [
        f"{file}:2: is not UTF-8 text: invalid continuation byte in line 2, at byte 8: save it as UTF-8"
    ]


def test_mistakes_of_all_documents_are_told(tmp_path: Path) -> None:
    file = tmp_path / "objects.yml"
    file.write_text("a: 1\na: 2\n---\nb: 1\nb: 2\n", encoding="utf-8")
    assert [problem.line for problem in read_all(file)[1]] == [2, 5]


def test_one_document_is_all_that_a_file_of_the_matrix_may_have(tmp_path: Path) -> None:
    file = tmp_path / "axes.yml"
    file.write_text("a: 1\n---\nb: 2\n", encoding="utf-8")
    assert "the file has a second document" in str(read(file)[1][0])


@pytest.mark.parametrize("opening", ["[", "{a: "])
@pytest.mark.parametrize("inside", ["", "x"])
def test_the_deepest_level_that_is_allowed_is_read_and_the_next_one_is_not(opening: str, inside: str) -> None:
    closing = "]" if opening == "[" else "}"
    within, beyond = (f"{opening * n}{inside}{closing * n}" for n in (DEEPEST, DEEPEST + 1))
    assert parse(Path("matrix.yml"), within)[1] == []
    said = f"matrix.yml:2: malformed YAML: nested too deeply; at most {DEEPEST} levels are allowed"
    assert [str(problem) for problem in parse(Path("matrix.yml"), f"# deep\n{beyond}")[1]] == [said]
