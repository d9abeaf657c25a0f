"""What is written of a recorded API server's roles and bindings is what the folder of policies has of its minor."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ci import bootstrap_policy
from harness.kube.resources import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from harness.paths import MATRIX, packaged_dir
from tests.unit.validate.kept import recorded

MINOR = "1.36"  # of the recorded cell, which has add-ons with roles of their own


def test_a_recorded_api_server_has_the_policy_of_its_minor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = recorded("installed.json")
    kinds = (CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING)
    items = [{**one, "kind": kind.kind} for kind in kinds for one in objects[kind.plural]]
    (tmp_path / "listed.yml").write_text(yaml.safe_dump({"items": items}), encoding="utf-8")
    monkeypatch.setattr(bootstrap_policy, "FOLDER", tmp_path)
    assert bootstrap_policy.main([MINOR, str(tmp_path / "listed.yml")]) == 0
    kept = packaged_dir() / MATRIX / "policy" / f"{MINOR}.yml"
    assert (tmp_path / kept.name).read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")
