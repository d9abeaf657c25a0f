"""An executor says that it begins, and does not begin what was given up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import InfraError
from harness.operator.execute.own_objects import OwnObjects


class Api:
    """An API with one Job, to which every patch is applied."""

    def __init__(self, **annotations: str) -> None:
        self.annotations = {f"cluster.vmatrix.dev/{name}": value for name, value in annotations.items()}

    def merge(self, _kind: Any, _name: str, patch: Any, _namespace: str) -> Any:
        self.annotations |= patch["metadata"]["annotations"]
        return {"metadata": {"annotations": self.annotations}, "status": {}}


def own(api: Any) -> OwnObjects:
    folder: Any = SimpleNamespace(namespace="ns", job="guest-1-deploy")
    return OwnObjects(folder, api)


def test_it_says_that_it_begins() -> None:
    api = Api()
    assert own(api).elapsed() == 0
    assert "cluster.vmatrix.dev/progress" in api.annotations


def test_what_was_given_up_does_not_begin() -> None:
    given_up = Api(**{"given-up": "true"})
    with pytest.raises(InfraError, match="given up before it began"):
        own(given_up).elapsed()
