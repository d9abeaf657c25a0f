"""The lock: cells stay when the matrix grows; what is stale or wrong in it is said by file and line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.paths import MATRIX, packaged_dir
from harness.plan import lock
from harness.plan.build import longest
from harness.plan.lock import FILE, Lock, load_lock, not_runnable, runnable
from harness.plan.tiers import all_tier_cells, tier_cells
from harness.spec import Spec, lines, load_spec
from tests.unit.plan.planned import edit, write
from tests.unit.plan.planned import locked_matrix as matrix
from tests.unit.plan.small import plan_all

__all__ = ["matrix"]

SCENARIOS = "      - {id: upgrade, slug: up, label: upgraded, class: upgrade}\n"


def refused(matrix: Path, tier: str = "nightly") -> BadInput:
    with pytest.raises(BadInput) as caught:
        tier_cells(load_spec(matrix), tier, "kubevirt", load_lock(matrix))
    assert caught.value.exit_code == 2
    assert "vmatrix plan --write" in f"{caught.value.summary} {caught.value.hint}"
    return caught.value


def test_a_tier_is_its_pinned_cells_and_then_its_locked_ones(matrix: Path) -> None:
    lock = load_lock(matrix)
    cells = tier_cells(load_spec(matrix), "nightly", "kubevirt", lock)
    assert dict(cells[0].values) == {"kubernetes": "1.35", "os": "debian-13", "topology": "two", "scenario": "fresh"}
    assert [(cell.id, dict(cell.values)) for cell in cells[1:]] == list(lock.cells("kubevirt", "nightly").items())


@pytest.mark.parametrize("seed", ["0", "1"])
def test_the_lock_is_the_same_in_every_process(matrix: Path, seed: str) -> None:
    code = (
        "from pathlib import Path; from harness.spec import load_spec\n"
        "from harness.plan.build import lock_text, plan_tier\n"
        f"s = load_spec(Path({str(matrix)!r}))\n"
        "print(lock_text(s, [plan_tier(s, t, i) for i in s.infras for t in s.tiers]), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (matrix / FILE).read_text()


def test_a_pinned_cell_that_the_infra_cannot_run_is_left_out_and_said(matrix: Path) -> None:
    edit(
        matrix / "tiers.yml",
        '{kubernetes: "1.35", os: debian-13, topology: one, scenario: fresh}',
        '{kubernetes: "1.34", os: cloud, topology: one, scenario: fresh}',
    )
    spec = load_spec(matrix)
    assert tier_cells(spec, "smoke", "embedded") == ()
    sentences = not_runnable(spec, "smoke", "embedded")
    assert len(sentences) == 2
    assert all("os cloud needs internet, which the embedded infrastructure does not offer" in s for s in sentences)
    assert not_runnable(spec, "smoke", "kubevirt") == ()


def test_an_empty_lock_is_stale_for_planned_tiers_only(matrix: Path) -> None:
    (matrix / FILE).write_text("axes: [kubernetes, os, topology, scenario]\nplan: {}\n")
    spec = load_spec(matrix)
    assert len(tier_cells(spec, "smoke", "kubevirt", load_lock(matrix))) == 2
    assert "out of date" in refused(matrix).summary


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("axes.yml", "class: two", "class: one"),
        ("axes.yml", "slug: t2", "slug: tt"),
        ("axes.yml", "  - name: topology\n", "  - name: topology\n    default: one\n"),
        ("axes.yml", SCENARIOS, ""),
        ("axes.yml", "needs: [internet]", "needs: []"),
        ("constraints.yml", "{not: three}", "{not: two}"),
        ("infras.yml", "offers: [internet]", "offers: [internet, vm-kernel]"),
        ("tiers.yml", "cover: {strength: 2}", "cover: {strength: 3}"),
        ("tiers.yml", "topology: two", "topology: three"),
        ("scenarios.yml", ", values: {kubernetes: minor}", ""),
    ],
)
def test_what_the_plan_depends_on_makes_the_lock_stale(matrix: Path, file: str, old: str, new: str) -> None:
    edit(matrix / file, old, new)
    spec = load_spec(matrix)
    changed = [plan for plan in plan_all(spec, load_lock(matrix)) if plan.tier == "nightly"]
    known = load_lock(matrix)
    stale = [p.inputs != found.inputs for p in changed if (found := known.tier(p.infra, p.tier)) is not None]
    if file == "infras.yml":  # a feature that no value needs changes nothing
        assert stale == [False, False]
    else:
        assert any(stale)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("axes.yml", "label: two machines", "label: a pair"),
        ("constraints.yml", "why: three", "why: because three"),
        ("tiers.yml", "label: all pairs", "label: every pair"),
        ("tiers.yml", "cells: 20", "cells: 30"),
        ("topologies.yml", "memory: 2Gi", "memory: 3Gi"),
    ],
)
def test_what_it_does_not_depend_on_does_not(matrix: Path, file: str, old: str, new: str) -> None:
    edit(matrix / file, old, new)
    assert all_tier_cells(load_spec(matrix), "kubevirt", load_lock(matrix))["nightly"]


def test_a_stale_lock_names_its_line(matrix: Path) -> None:
    line = (matrix / FILE).read_text().splitlines().index("  kubevirt:") + 3
    edit(matrix / "axes.yml", "class: two", "class: one")
    assert f"{FILE}:{line}: plan.kubevirt.nightly.inputs: the plan of nightly on kubevirt is out of date" in str(
        refused(matrix)
    )


def locked_line(matrix: Path, infra: str, tier: str) -> tuple[int, str]:
    """Return the line number of the values of a tier's first locked cell, and its text."""
    lock = load_lock(matrix)
    number = lock.document.line_of(("plan", infra, tier, "cells", 0, "values"))
    return number, (matrix / FILE).read_text().splitlines()[number - 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("['1.35', debian-13, one, upgrad]", "unknown value of axis scenario 'upgrad'; did you mean 'upgrade'?"),
        (
            "['1.35', debian-12, three, fresh]",
            "the cell breaks a constraint: three machines are too many for Debian 12",
        ),
        ("['1.35', debian-13, two, fresh]", "these values belong to k35-d13-t2-fr-"),
    ],
)
def test_an_edited_cell_is_refused_by_line(matrix: Path, values: str, message: str) -> None:
    number, line = locked_line(matrix, "embedded", "nightly")
    edit(matrix / FILE, line, f"          values: {values}")
    with pytest.raises(BadInput) as caught:
        tier_cells(load_spec(matrix), "nightly", "embedded", load_lock(matrix))
    assert f"{FILE}:{number}: plan.embedded.nightly.cells[0].values: {message}" in caught.value.summary


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("      inputs: ", "      input: ", "unknown key; did you mean inputs?"),
        ("      inputs: ", "      inputs: x", "got 'x"),
        ("axes: [kubernetes, ", "axes: [os, ", "axes: duplicate axis"),
        ("axes: [kubernetes, ", "axes: [", "4 values for 3 axes"),
        ("plan:\n", "plans:\n", "unknown key; did you mean plan?"),
        ("plan:\n", "plan: [\n", "malformed YAML"),
        ("  embedded:\n", "  embedded:\n    nightly: {}\n", "duplicate key"),
    ],
)
def test_a_malformed_lock_is_refused_by_line(matrix: Path, old: str, new: str, message: str) -> None:
    edit(matrix / FILE, old, new)
    with pytest.raises(BadInput) as caught:
        load_lock(matrix)
    assert f"{FILE}:" in caught.value.summary
    assert message in caught.value.summary


def test_a_cell_that_stands_twice_is_refused(matrix: Path) -> None:
    lock: Lock = load_lock(matrix)
    first = next(iter(lock.cells("embedded", "nightly")))
    edit(
        matrix / FILE,
        f"        - id: {first}\n",
        f"        - id: {first}\n          values: [a, b, c, d]\n        - id: {first}\n",
    )
    with pytest.raises(BadInput, match="duplicate cell"):
        load_lock(matrix)


def test_unknown_tiers_and_infras_name_the_nearest(matrix: Path) -> None:
    spec: Spec = load_spec(matrix)
    with pytest.raises(BadInput, match="unknown tier 'nigtly'; did you mean 'nightly'"):
        tier_cells(spec, "nigtly", "embedded")
    with pytest.raises(BadInput, match="unknown infra profile 'embeded'; did you mean 'embedded'"):
        tier_cells(spec, "nightly", "embeded")


LATER = """\
  - name: product
    label: Product
    default: playbooks
    values:
      - {id: playbooks, slug: pb, label: playbooks, class: playbooks}
      - {id: other, slug: o, label: something else, class: other}
"""


def test_an_axis_with_a_default_that_comes_later_only_adds_lines(matrix: Path) -> None:
    before = (matrix / FILE).read_text().splitlines()
    (matrix / "axes.yml").write_text((matrix / "axes.yml").read_text() + LATER)
    write(matrix)
    after = (matrix / FILE).read_text().splitlines()
    rest = iter(after)
    assert all(line in rest for line in before), "a line that was there has changed or moved"
    assert any("also: {product: other}" in line for line in after)
    lock, spec = load_lock(matrix), load_spec(matrix)
    for infra in spec.infras:
        for tier in spec.tiers:
            assert all("product" in cell for cell in lock.cells(infra, tier).values())
            tier_cells(spec, tier, infra, lock)  # neither stale nor wrong


def test_a_tier_that_keeps_to_the_default_does_not_notice_a_later_axis(matrix: Path) -> None:
    (matrix / "axes.yml").write_text((matrix / "axes.yml").read_text() + LATER)
    edit(matrix / "tiers.yml", "    cover:", "    where: {product: playbooks}\n    cover:")
    write(matrix)
    changed = load_lock(matrix)
    first = next(iter(changed.plan["kubevirt"]))
    assert changed.plan["kubevirt"][first].later is None


def test_a_later_axis_that_changes_makes_the_plans_stale_that_use_it(matrix: Path) -> None:
    (matrix / "axes.yml").write_text((matrix / "axes.yml").read_text() + LATER)
    write(matrix)
    edit(matrix / "axes.yml", "class: other}", "class: third}")
    assert "is out of date" in refused(matrix).summary


def test_a_cell_with_a_value_on_an_unknown_later_axis_is_refused(matrix: Path) -> None:
    edit(matrix / FILE, "          values: ", "          also: {colour: red}\n          values: ")
    with pytest.raises(BadInput, match=r"also\.colour: unknown later axis 'colour'"):
        load_lock(matrix)


LOCK = """\
# Generated by `vmatrix plan --write`
axes: [kubernetes, topology]
later: {product: playbooks}
plan:
  embedded:
    mr:
      inputs: ab12
      later: cd34
      cells:
        - id: k1363-c1w1-7eee9a
          values: [1.36.3, '1.36']
          also: {product: operator}
        - id: k1363-c1w2-7eee9b
          values: [1.36.3, cp1-w2]
    nightly:
      inputs: ab12
      cells: []
"""
EDITS = {
    "a duplicate key": ("      later: cd34\n", "      later: cd34\n      later: cd35\n"),
    "a duplicate tier": ("    nightly:\n", "    mr:\n"),
    "a duplicate word of a mapping": ("{product: operator}", "{product: operator, product: playbooks}"),
    "a number": ("'1.36'", "1.36"),
    "a date": ("'1.36'", "2026-11-26"),
    "a truth": ("'1.36'", "yes"),
    "nothing": ("'1.36'", ""),
    "a quoted comma": ("'1.36'", "'a, b'"),
    "a list in a list": ("'1.36'", "[a]"),
    "an anchor": ("'1.36'", "&a b"),
    "a comment behind a line": ("      later: cd34\n", "      later: cd34 # why\n"),
    "a space behind a line": ("      later: cd34\n", "      later: cd34 \n"),
    "a line that goes on": ("      later: cd34\n", "      later: cd34\n        ef\n"),
    "cells without any": ("      cells: []\n", "      cells:\n"),
    "a tier without anything": ("      inputs: ab12\n      cells: []\n", ""),
    "a cell below a word": ("      cells: []\n", "      cells: []\n      more: x\n        - id: y\n"),
    "a cell after a list": ("      cells: []\n", "      cells: []\n        - id: y\n"),
    "a key below another key's word": ("      cells: []\n", "      cells: []\n          values: [a]\n"),
    "an indentation of its own": ("          also:", "           also:"),
    "two documents": ("    nightly:\n", "---\n    nightly:\n"),
    "a tabulator": ("      later: cd34\n", "\tlater: cd34\n"),
    "no list": ("axes: [kubernetes, topology]\n", "axes: [kubernetes,\n  topology]\n"),
    "the other end of a line": ("\n", "\r\n"),
    "another key first": ("axes: [", "plans: [x]\naxes: ["),
    "a key after the plan": ("      cells: []\n", "      cells: []\nmore: [x]\n"),
}


@pytest.fixture
def small_matrix(tmp_path: Path) -> Path:
    return tmp_path / MATRIX


def test_the_lock_that_ships_is_read_by_its_lines() -> None:
    file = packaged_dir() / MATRIX / FILE
    assert lock.read(file.read_text()) == lines.read(file)[0].content


def test_quoted_words_and_later_axes_are_read_too() -> None:
    content = lock.read(LOCK)
    assert content == lines.parse(Path(FILE), LOCK)[0].content
    assert content is not None
    assert content["plan"]["embedded"]["mr"]["cells"][0]["values"] == ["1.36.3", "1.36"]


@pytest.mark.parametrize(("old", "new"), EDITS.values(), ids=EDITS)
def test_what_somebody_has_changed_is_read_as_a_parser_reads_it_or_left_to_one(old: str, new: str) -> None:
    assert old in LOCK
    text = LOCK.replace(old, new)
    document, problems = lines.parse(Path(FILE), text)
    content = lock.read(text)
    assert content is None or (content == document.content and not problems)


@pytest.mark.parametrize("number", range(len(LOCK.splitlines())))
@pytest.mark.parametrize("change", ["removed", "twice", "further in", "further out"])
def test_no_line_that_is_out_of_place_changes_what_is_read(change: str, number: int) -> None:
    whole = LOCK.splitlines(keepends=True)
    line = whole[number]
    changed = {"removed": "", "twice": line * 2, "further in": f"  {line}", "further out": line.removeprefix("  ")}
    text = "".join([*whole[:number], changed[change], *whole[number + 1 :]])
    document, problems = lines.parse(Path(FILE), text)
    content = lock.read(text)
    assert content is None or (content == document.content and not problems)


def test_places_are_those_of_the_parser() -> None:
    places = lock.Places(Path(FILE), LOCK)
    assert dict(places) == dict(lines.parse(Path(FILE), LOCK)[0].lines)
    assert len(places) == len(dict(places))


def test_a_mistake_in_a_lock_as_written_has_its_line(small_matrix: Path) -> None:
    small_matrix.mkdir()
    text = LOCK.replace("[1.36.3, cp1-w2]", "[1.36.3]").replace("ab12", "ab" * 32).replace("cd34", "cd" * 32)
    (small_matrix / FILE).write_text(text)
    assert lock.read(text) is not None
    number = text.splitlines().index("          values: [1.36.3]") + 1
    with pytest.raises(BadInput, match=rf"{FILE}:{number}: .*1 values for 2 axes"):
        load_lock(small_matrix)


def test_a_lock_that_cannot_be_read_says_why(small_matrix: Path) -> None:
    small_matrix.mkdir()
    (small_matrix / FILE).write_bytes(b"axes: [\xff]\n")
    with pytest.raises(BadInput, match=FILE):
        load_lock(small_matrix)


def test_the_packaged_lock_is_short_and_knows_what_its_nights_cover() -> None:
    spec, lock = load_spec(packaged_dir() / "matrix"), load_lock(packaged_dir() / "matrix")
    for infra, tiers in lock.plan.items():
        for name, locked_tier in tiers.items():
            known = locked_tier.figures
            cells = len(locked_tier.cells) + len(runnable(spec, name, infra))
            assert known.scratch is not None
            assert cells <= longest(int(known.scratch))
            if spec.tiers[name].rotates:
                assert cells <= 70
                assert int(known.week or 0) >= 0.95 * int(known.possible or 0)
                assert int(known.month or 0) >= 0.99 * int(known.possible or 0)
