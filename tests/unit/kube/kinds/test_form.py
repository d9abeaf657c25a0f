"""What has not the form of a ClusterDeployment is told by field, in the API server's words, once."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.kube.kinds.form import mistakes_of_form, path_of
from tests.unit.operator.api.objects import defaulted, deployment, wanted_set

Json = dict[str, Any]


def told(obj: Json) -> list[str]:
    """Return what is told of an object that has another form."""
    with pytest.raises(ValidationError) as caught:
        defaulted(obj)
    return [mistake.text for mistake in mistakes_of_form(caught.value)]


def test_a_mistake_in_an_entry_is_not_told_of_the_list_again() -> None:
    obj = deployment(wanted_set("cp", "boss"))
    assert told(obj) == [
        'spec.machineSets[0].roles[0]: Unsupported value: "boss": '
        'supported values: "control-plane", "etcd", "worker"'
    ]  # fmt: skip


def test_mistakes_in_several_fields_are_all_told() -> None:
    obj = deployment(wanted_set("Cp", "worker"), version=1, jobs={"retries": 99})
    assert [text.partition(": ")[0] for text in told(obj)] == [
        "spec.version",
        "spec.machineSets[0].name",
        "spec.jobs.retries",
    ]


@pytest.mark.parametrize("obj", [{}, {"metadata": {"name": "guest"}}, {**deployment(), "spec": None}])
def test_an_object_without_a_spec_is_told_to_have_one(obj: Json) -> None:
    assert any(text.startswith("spec: ") for text in told(obj))


def test_paths_are_written_as_the_api_server_does() -> None:
    assert path_of("spec", "machineSets", 0, ".roles") == "spec.machineSets[0].roles"
    assert path_of(".metadata.name") == "metadata.name"
    assert path_of("spec", "network", "") == "spec.network"
