"""Dates in a matrix that have passed: the support of values, the end of life of images, and quarantine.

They age with the calendar, while nobody changes anything. So `loader.load_spec` refuses them only where a plan is
checked or cells are to be started, and only what the project's own files say; whatever else there is, is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from harness.paths import MATRIX, packaged_dir
from harness.spec import lines
from harness.spec.declared import EACH, field, find, parsed
from harness.spec.lines import Document, Finding, Problem
from harness.spec.models import Axis, AxisValue, DiskImage, QuarantineEntry, Support

LONGEST_QUARANTINE = timedelta(days=90)  # a quarter: longer than that, and nobody looks any more


def check_dates(documents: Mapping[str, Document], today: date) -> list[Problem]:
    """Return what has expired: values out of support, images past their end of life, and quarantine.

    An entry of quarantine may not last longer than LONGEST_QUARANTINE from `today` on either. Where `today` is before
    the newest release of which vmatrix knows, the clock is wrong, and no entry is.
    """
    axes = documents["axes.yml"].content
    findings: dict[str, Iterator[Finding]] = {
        "axes.yml": _values(axes, today),
        "images.yml": _images(documents["images.yml"].content, axes, today),
        "quarantine.yml": _quarantine(documents["quarantine.yml"].content, today),
    }
    return [documents[name].problem(at, message) for name, all_ in findings.items() for at, message in all_]


def ending(axes: Iterable[Axis], until: date) -> Iterator[tuple[str, str, date]]:
    """Yield axis, value and last day of each value whose support by its makers has ended or ends until a day."""
    for axis in axes:
        for value in axis.values:
            if value.support is not None and value.support.until <= until:
                yield axis.name, value.id, value.support.until


def _values(content: Any, today: date) -> Iterator[Finding]:
    for at, value in find(content, "axes", EACH, "values", EACH, "support"):
        support = parsed(Support, value)
        if support is None or support.ends >= today:
            continue
        remedy = "add `extended` with a date and a reason" if support.extended is None else "extend it again"
        yield at, f"out of support since {support.ends}; remove the value, or {remedy}"


def _images(content: Any, axes: Any, today: date) -> Iterator[Finding]:
    kept = {
        field(value, "image")
        for _, value in find(axes, "axes", EACH, "values", EACH)
        if (full := parsed(AxisValue, value)) is not None and _extended(full, today)
    }
    for at, entry in find(content, "images", EACH):
        image = parsed(DiskImage, entry)
        if image is not None and image.end_of_life < today and image.name not in kept:
            message = f"out of support since {image.end_of_life}; remove it, or extend the value that uses it"
            yield (*at, "end_of_life"), message


def _extended(value: AxisValue, today: date) -> bool:
    return value.support is not None and value.support.extended is not None and value.support.ends >= today


def _quarantine(content: Any, today: date) -> Iterator[Finding]:
    entries = list(find(content, "quarantine", EACH))
    newest = _newest() if entries else today
    if today < newest:
        yield entries[0][0], f"cannot be judged: the clock of this host says {today}, before {newest}; set the clock"
        return
    latest = today + LONGEST_QUARANTINE
    for at, value in entries:
        entry = parsed(QuarantineEntry, value)
        if entry is None:
            continue
        if entry.until < today:
            message = f"expired on {entry.until}; remove the entry, or set a later `until` ({entry.issue})"
            yield (*at, "until"), message
        elif entry.until > latest:
            message = f"{entry.until} is more than {LONGEST_QUARANTINE.days} days away; use {latest} or earlier"
            yield (*at, "until"), message


def _newest() -> date:
    """Return the day of the newest release that vmatrix ships with: before it, there was no such vmatrix."""
    packaged, _ = lines.read(packaged_dir() / MATRIX / "axes.yml")
    supports = (parsed(Support, value) for _, value in find(packaged.content, "axes", EACH, "values", EACH, "support"))
    return max((support.from_ for support in supports if support is not None), default=date.min)
