"""matrix/quarantine.yml: failures that are known and do not fail a run."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import StringConstraints

from harness.spec.base import CHECK, Model, Text, Url

CheckGlob = Annotated[str, StringConstraints(pattern=CHECK)]


class QuarantineEntry(Model):
    """What runs and reports but does not fail a run: cells by glob; of them one check (`suite: name`, a glob) or all.

    until: the last day (date) on which the entry counts.
    """

    cell: Text
    check: CheckGlob | None = None
    issue: Url
    reason: Text
    until: date
