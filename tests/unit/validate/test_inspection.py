"""A guest under inspection whose API does not answer."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from harness.errors import ProductError
from harness.validate.inspection import Inspection
from tests.unit.validate import guests


def test_an_api_that_does_not_answer_is_the_products_fault(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "guest", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": "admin", "context": {"cluster": "guest", "user": "admin"}}],
        "current-context": "admin",
    }
    kubeconfig.write_text(json.dumps(text), encoding="utf-8")
    guest = dataclasses.replace(guests.guest(), kubeconfig=kubeconfig)
    with pytest.raises(ProductError, match=r"does not answer at https://127\.0\.0\.1:1") as failed:
        Inspection(guest, ssh_options=(), settle_seconds=0).wait_for_api()
    assert "vmatrix login cell-1 cp-0" in failed.value.hint
    assert "refused" in failed.value.detail
