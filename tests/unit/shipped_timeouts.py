"""The shipped matrix/timeouts.yml, for tests of what takes timeouts."""

from __future__ import annotations

from pathlib import Path

import yaml

from harness.spec.models import Timeouts

FILE = Path(__file__).parents[2] / "matrix" / "timeouts.yml"
TIMEOUTS = Timeouts(**yaml.safe_load(FILE.read_text(encoding="utf-8"))["timeouts"])
