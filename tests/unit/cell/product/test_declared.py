"""A declared phase says what controllers had to do when it is run again, and reads what its template is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.cell.product.declared import new_traces, read_values
from harness.errors import ProductError
from harness.spec.models.product_declared import InObject

TAKEN = InObject(kind="EtcdBackup", name="before", path="{.status.taken}")


def test_another_generation_and_a_new_job_are_changes() -> None:
    before = {"generation of ClusterDeployment guest": "3", "Job guest-1": "uid-1"}
    assert new_traces(before, before) == ()
    after = {"generation of ClusterDeployment guest": "4", "Job guest-2": "uid-2"}
    assert new_traces(before, after) == ("generation of ClusterDeployment guest: 3, then 4", "Job guest-2 is new")


def test_a_template_is_given_values_of_objects_that_are_there() -> None:
    there: Any = SimpleNamespace(value=lambda where: f"{where.name} at {where.path}")
    assert read_values(cast("Any", there), {"taken": TAKEN}) == {"taken": "before at {.status.taken}"}


def test_a_value_that_is_not_there_is_named() -> None:
    options = SimpleNamespace(object=SimpleNamespace(kind="ClusterDeployment", name="guest"))
    nothing: Any = SimpleNamespace(value=lambda _: None, options=options)
    with pytest.raises(ProductError, match=r"there is no \{\.status\.taken\} of EtcdBackup before"):
        read_values(cast("Any", nothing), {"taken": TAKEN})
