"""What kubectl would use."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.errors import BadInput
from harness.operator.kubectl import usual_kubeconfig, usual_namespace


def written(path: Path, **context: str) -> Path:
    """Write a kubeconfig whose current context is this one."""
    contexts = [{"name": "other", "context": {"namespace": "elsewhere"}}, {"name": "mine", "context": context}]
    path.write_text(yaml.safe_dump({"current-context": "mine", "contexts": contexts}), encoding="utf-8")
    return path


def test_the_variable_wins_over_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".kube").mkdir()
    at_home, named = written(tmp_path / ".kube" / "config", namespace="a"), written(tmp_path / "named", namespace="b")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert (usual_kubeconfig(), usual_namespace()) == (at_home, "a")
    monkeypatch.setenv("KUBECONFIG", str(named))
    assert (usual_kubeconfig(), usual_namespace()) == (named, "b")
    assert usual_namespace(at_home) == "a"


def test_a_context_without_a_namespace_means_default(tmp_path: Path) -> None:
    assert usual_namespace(written(tmp_path / "config", cluster="x")) == "default"


@pytest.mark.parametrize("text", [None, "", "contexts: 7\n", "no: [yaml"])
def test_what_cannot_be_read_is_left_to_whoever_opens_it(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    assert usual_namespace(path) == "default"


def test_no_kubeconfig_is_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(BadInput, match="there is no kubeconfig"):
        usual_kubeconfig()
    assert usual_namespace() == "default"


def test_of_several_files_the_first_that_says_something_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", written(tmp_path / "second", namespace="b")
    first.write_text("contexts: [{name: mine, context: {namespace: a}}]\n")
    monkeypatch.setenv("KUBECONFIG", f"{first}:{tmp_path / 'none'}:{second}")
    assert usual_kubeconfig() == (first, tmp_path / "none", second)
    assert usual_namespace() == "a"
