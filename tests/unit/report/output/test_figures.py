"""The figures in the report's document: kinds by number, what is slower in words, a value for every night."""

from __future__ import annotations

from harness.history.lines import History
from harness.report.analysis.analyse import RecordFilter, analyse
from harness.report.analysis.planned import Planned
from harness.report.output import note
from harness.report.output.document import document
from harness.validate.performance.comparison import NOW, PAST
from tests.unit.history.make import record
from tests.unit.history.synthetic import NOW as MOMENT

OF = PAST + NOW


def told(*, factor: float) -> tuple[dict[str, object], str]:
    """Return the document and the note of a history whose last runs took so many times as long as those before."""
    values = [(4.0 if night < PAST else 4.0 * factor) for night in range(OF)]
    figures = [{"deploy": {"pod_start_p99 w-0": (value, 0.0)}} for value in values]
    records = [record(night, of=OF, figures=one) for night, one in enumerate(figures)]
    found = analyse(records, Planned(None, {}, None, ()), RecordFilter(), MOMENT)
    return document(found, History()), note.render(found, History(), url="")


def test_what_is_slower_and_over_its_slo_is_named() -> None:
    found, said = told(factor=2.0)
    figures = found["figures"]
    assert isinstance(figures, dict)
    assert [(one["cell"], one["ratio"]) for one in figures["slower"]] == [(0, 2.0)]
    assert "Pod start, p99 (w-0): 8 s" in figures["slower"][0]["said"]
    assert figures["over"] == [{"cell": 0, "said": "Pod start, p99 (w-0) 8 s", "slo": 5.0}]
    assert (figures["compared"], figures["young"]) == (1, 0)
    assert "slower figures" in said


def test_what_is_as_fast_as_usual_is_not() -> None:
    found, said = told(factor=1.0)
    figures, cells = found["figures"], found["cells"]
    assert isinstance(figures, dict)
    assert isinstance(cells, list)
    assert (figures["slower"], figures["over"]) == ([], [])
    assert [kind["name"] for kind in figures["kinds"]] == ["pod_start_p99"]
    assert cells[0]["figures"] == [{"kind": 0, "values": [4.0] * OF}]
    assert "slower figures" not in said
