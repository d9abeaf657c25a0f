"""Settings: the file, then the environment, then options; each value knows where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import BadInput
from harness.spec.settings import load_settings


def test_later_sources_win_and_are_named(tmp_path: Path) -> None:
    (tmp_path / "vmatrix.yml").write_text("# mine\ntimeout_scale: 2\nruns: a\ninfra_name: mine\n")
    found = load_settings(
        tmp_path, environment={"VMATRIX_RUNS": "b", "VMATRIX_INFRA_NAME": "env"}, options={"runs": "c"}
    )
    assert (found.settings.timeout_scale, found.origin["timeout_scale"]) == (2.0, "vmatrix.yml:2")
    assert (found.settings.infra_name, found.origin["infra_name"]) == ("env", "VMATRIX_INFRA_NAME")
    assert (str(found.settings.runs), found.origin["runs"]) == ("c", "--runs")
    assert found.origin["provider"] == "default"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("providr: local\n", "vmatrix.yml:1: providr: unknown key; did you mean provider?"),
        ("runs: x\nprovider: cloud\n", "vmatrix.yml:2: provider: Input should be 'local', 'kubeconfig' or 'kind'"),
        ("timeout_scale: 0\n", "vmatrix.yml:1: timeout_scale: Input should be greater than 0"),
        ("- a\n", "vmatrix.yml:1: "),
    ],
)
def test_a_mistake_in_the_file_names_line_and_field(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "vmatrix.yml").write_text(text)
    with pytest.raises(BadInput) as caught:
        load_settings(tmp_path, environment={})
    assert said in caught.value.summary


def test_an_unknown_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="VMATRIX_RUN is not a setting"):
        load_settings(tmp_path, environment={"VMATRIX_RUN": "x"})


def test_a_malformed_variable_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"VMATRIX_TIMEOUT_SCALE: .*got 'fast'"):
        load_settings(tmp_path, environment={"VMATRIX_TIMEOUT_SCALE": "fast"})
