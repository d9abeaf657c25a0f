"""How the webhooks are registered."""

from __future__ import annotations

from harness.embedded.admission.webhooks import WEBHOOKS, configurations


def test_the_webhooks_are_configured_by_their_real_names() -> None:
    made = configurations(url="https://10.0.0.1:8443", ca_bundle=b"PEM", trusted="kubevirt")

    entries = {entry["name"]: entry for body in made for entry in body["webhooks"]}
    assert set(entries) == {webhook.name for webhook in WEBHOOKS}
    assert {body["metadata"]["name"] for body in made} == {
        "virt-api-mutator",
        "virt-api-validator",
        "cdi-api-datavolume-mutate",
        "cdi-api-datavolume-validate",
    }
    assert all(entry["failurePolicy"] == "Fail" for entry in entries.values())
    mutator = entries["virtualmachines-mutator.kubevirt.io"]
    assert mutator["clientConfig"]["url"] == "https://10.0.0.1:8443/virtualmachines-mutate"
