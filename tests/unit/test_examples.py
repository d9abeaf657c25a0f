"""The projects of examples/ are projects as they stand: their files are valid and their tiers have cells."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from harness.cli import app
from harness.spec import load_spec
from tests.unit.pages import ROOT

SCRIPT = ROOT / "examples" / "script"


def test_the_scripts_phases_are_those_that_it_knows() -> None:
    product = load_spec(SCRIPT / "matrix").product
    cases = [
        line.split(")")[0].strip() for line in (SCRIPT / "cluster.sh").read_text().splitlines() if ") run_on " in line
    ]
    assert [phase.command for phase in product.phases.values()] == [("./cluster.sh", case) for case in cases]


def test_the_script_has_a_cell_for_each_phase() -> None:
    done = CliRunner().invoke(app, ["--project", str(SCRIPT), "list", "--json"])
    assert done.exit_code == 0, done.output
    phases = [cell["phases"] for cell in json.loads(done.stdout)]
    assert phases == [["deploy"], ["deploy", "scale-out"], ["deploy", "reset", "deploy-2"]]
