"""Which storage class a DataVolume gets."""

from __future__ import annotations

from typing import Any

from harness.embedded.cdi.classes import default_class


def test_the_class_for_virtual_machines_comes_before_the_default_one() -> None:
    def named(name: str, annotation: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "annotations": {annotation: "true"}}}

    general = named("general", "storageclass.kubernetes.io/is-default-class")
    virtual = named("virtual", "storageclass.kubevirt.io/is-default-virt-class")
    assert default_class([general, virtual]) == "virtual"
    assert default_class([general]) == "general"
    assert default_class([]) == ""
