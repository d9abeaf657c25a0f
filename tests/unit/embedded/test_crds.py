"""The definitions that are carried."""

from __future__ import annotations

from harness.embedded.crds import crds, schema


def test_the_definitions_are_carried_whole() -> None:
    names = {definition["metadata"]["name"] for definition in crds()}
    assert names == {
        *(f"{plural}.kubevirt.io" for plural in ("kubevirts", "virtualmachines", "virtualmachineinstances")),
        *(f"{plural}.cdi.kubevirt.io" for plural in ("cdiconfigs", "cdis", "datasources", "datavolumes")),
        "storageprofiles.cdi.kubevirt.io",
    }
    assert (
        "checksum"
        in schema("datavolumes", "cdi.kubevirt.io")["properties"]["spec"]["properties"]["source"]["properties"]["http"][
            "properties"
        ]
    )
