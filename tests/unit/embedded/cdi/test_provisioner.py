"""Provisioner: storage classes, and the room that is left free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.embedded.cdi.provisioner import KEPT_FREE_BYTES, default_class, space_refusal


def test_the_class_for_virtual_machines_comes_before_the_default_one() -> None:
    def named(name: str, annotation: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": {annotation: "true"}}}

    general = named("general", "storageclass.kubernetes.io/is-default-class")
    virtual = named("virtual", "storageclass.kubevirt.io/is-default-virt-class")
    assert default_class([general, virtual]) == "virtual"
    assert default_class([general]) == "general"
    assert default_class([]) == ""


def test_what_is_left_of_the_host_is_kept_for_the_disks_that_are_there(tmp_path: Path) -> None:
    assert space_refusal(tmp_path, KEPT_FREE_BYTES) == ""
    refused = space_refusal(tmp_path, KEPT_FREE_BYTES - 2**20)
    assert refused.startswith(f"no space left: 2047 MiB are free below {tmp_path}, and 2048 MiB are kept")
