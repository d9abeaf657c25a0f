"""An object has what a patch asks for, whatever else it has."""

from __future__ import annotations

from typing import Any

import pytest

from harness.validate.judge.inclusion import lacking, unapplied

POD = {"metadata": {"labels": {"a/b": "c"}}, "spec": {"containers": [{"name": "x", "image": "i", "args": ["1", "2"]}]}}


@pytest.mark.parametrize(
    ("asked", "lack"),
    [
        ({"spec": {"containers": [{"name": "x", "image": "i"}]}}, None),
        ({"Spec": {"Containers": [{"name": "x"}]}}, None),
        ({"metadata": {"labels": {"$retainKeys": ["a/b"]}, "annotations": None}}, None),
        ({"spec": {"hostNetwork": False}}, None),
        ({"spec": {"containers": [{"name": "y"}]}}, ("spec.containers[y].name", "y", None)),
        ({"spec": {"containers": [{"name": "x", "args": ["1"]}]}}, ("spec.containers[x].args", ["1"], ["1", "2"])),
        ({"metadata": {"labels": {"a/b": None}}}, ("metadata.labels.a/b", None, "c")),
        ({"metadata": {"labels": {"a/b": "d"}}}, ("metadata.labels.a/b", "d", "c")),
        ({"status": {"phase": "Running"}}, ("status.phase", "Running", None)),
    ],
)
def test_what_is_lacking_is_told_with_its_path(asked: Any, lack: Any) -> None:
    assert list(lacking(asked, POD)) == ([] if lack is None else [lack])


@pytest.mark.parametrize(
    ("operation", "lack"),
    [
        ({"op": "add", "path": "/metadata/labels/a~1b", "value": "c"}, None),
        ({"op": "add", "path": "/spec/containers/0/args/-", "value": "2"}, None),
        ({"op": "add", "path": "/spec/containers/0/args/0", "value": "2"}, None),
        ({"op": "remove", "path": "/spec/nodeName"}, None),
        ({"op": "remove", "path": "/spec/containers/0"}, None),
        ({"op": "test", "path": "/spec/nodeName", "value": "w"}, None),
        ({"op": "replace", "path": "/spec/containers/0/image", "value": "j"}, ("/spec/containers/0/image", "j", "i")),
        ({"op": "add", "path": "/spec/containers/3/image", "value": "j"}, ("/spec/containers/3/image", "j", None)),
        ({"op": "remove", "path": "/metadata/labels/a~1b"}, ("/metadata/labels/a~1b", None, "c")),
    ],
)
def test_operations_that_left_no_trace_are_told(operation: Any, lack: Any) -> None:
    assert list(unapplied([operation], POD)) == ([] if lack is None else [lack])
