"""A cell's life with a product of programs: real programs, in a life without an infra cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cell.life import Life
from harness.cell.product.kinds import kind_of
from harness.cell.provision import Attempt
from harness.cell.site import Site
from harness.cell.steps import Steps
from harness.errors import InfraError, ProductError
from harness.model import Mirror
from harness.paths import project_dir
from harness.record import Recorder
from harness.spec import load_spec
from harness.spec.models import Product
from tests.unit.cell.product.phases import Phased
from tests.unit.cell.test_life import KUBECONFIG
from tests.unit.shipped_timeouts import TIMEOUTS

LEAVES_ONE = f"cat > \"$VMATRIX_GUEST_KUBECONFIG\" <<'END'\n{KUBECONFIG}END"


@pytest.fixture
def life(phased: Phased, monkeypatch: pytest.MonkeyPatch) -> Life:
    """The life of a cell whose machines are there."""
    monkeypatch.setattr(Life, "machines_changed", lambda _self, _names: "")
    nobody: Any = None
    site = Site(
        cluster=nobody,
        spec=load_spec(project_dir() / "matrix").model_copy(update={"product": phased.product}),
        timeouts=TIMEOUTS,
        mirror=Mirror("http://m", "r:5000"),
        guest_vars={},
        image=nobody,
        storage_class=None,
        project=phased.folder,
        expiry_hours=1,
    )
    environment = phased.environment()
    steps = Steps(Recorder(phased.folder), "one", 1)
    return Life(site, Attempt("run111", environment.cell, 1, environment.directory), steps, environment=environment)


def test_a_program_that_leaves_a_kubeconfig_has_deployed(life: Life, phased: Phased) -> None:
    phased.script(LEAVES_ONE)
    guest = life.apply(1)
    assert guest.kubeconfig.read_text(encoding="utf-8") == KUBECONFIG
    assert [machine.name for machine in guest.environment.machines] == ["cp-0", "w-0", "w-1"]


def test_a_program_that_leaves_no_kubeconfig_is_told_which_variable_names_it(life: Life, phased: Phased) -> None:
    phased.script("exit 0")
    with pytest.raises(
        ProductError, match=r"^run\.sh succeeded but left no kubeconfig at .*/one/kubeconfig$"
    ) as failed:
        life.apply(0)
    assert "VMATRIX_GUEST_KUBECONFIG" in failed.value.hint


def test_a_changed_machine_counts_whatever_the_program_says(
    life: Life, phased: Phased, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter(("", "w-0 was replaced"))
    monkeypatch.setattr(Life, "machines_changed", lambda _self, _names: next(said))
    phased.script('echo \'{"blame": "user", "summary": "no licence"}\' >"$VMATRIX_RESULT"; exit 1')
    with pytest.raises(InfraError, match="changed machines during the phase deploy: w-0 was replaced") as failed:
        life.apply(0)
    assert "no licence" in failed.value.detail


def test_a_product_of_programs_needs_no_preparation_and_says_how_it_is_run(life: Life, phased: Phased) -> None:
    kind = life.site.kind_of(life.cell)
    kind.prepare(lambda _: pytest.fail("nothing takes a while"), TIMEOUTS)
    folder = phased.folder / "deploy"
    variables = Path(phased.folder / "one" / "inventory" / "phase.env")
    assert kind.command("reset", phased.environment()) == f". {variables} && cd {folder} && {folder}/run.sh 'a b'"


def test_a_program_and_its_arguments_may_lie_in_the_products_sources(phased: Phased) -> None:
    given = {
        **phased.product.model_dump(by_alias=True),
        "sources": {"path": "deploy"},
        "phases": {"deploy": {"command": ["{sources}/run.sh", "{sources}/x"], "environment": {"LIB": "{sources}/lib"}}},
    }
    product = Product.model_validate(given)
    phased.script(f'echo "$1 $LIB" > {phased.folder}/seen')
    kind_of(product, phased.folder).run(phased.wanted())
    folder = phased.folder / "deploy"
    assert (phased.folder / "seen").read_text(encoding="utf-8") == f"{folder}/x {folder}/lib\n"


def test_a_program_that_is_run_again_may_say_what_it_changed(life: Life, phased: Phased) -> None:
    phased.script(f'{LEAVES_ONE}\necho \'{{"changed": ["the kubelet was restarted"]}}\' > "$VMATRIX_RESULT"')
    life.apply(0)
    assert life.again(0).changed == ("the kubelet was restarted",)
