"""Objects in YAML, and their order."""

from __future__ import annotations

import pytest

from harness.errors import BadInput
from harness.kube.manifests import digest_of, objects_of


def one(kind: str, name: str = "a", **more: str) -> str:
    words = "".join(f", {key}: {value}" for key, value in more.items())
    return f"{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}{words}}}}}\n"


def test_what_others_lie_in_comes_first_and_all_else_in_its_order() -> None:
    text = "---\n".join(one(kind) for kind in ("Service", "APIService", "ConfigMap", "Namespace"))
    text += f"---\n{one('CustomResourceDefinition')}---\n# nothing\n"
    found = [obj["kind"] for obj in objects_of({"a": text})]
    assert found == ["Namespace", "CustomResourceDefinition", "Service", "ConfigMap", "APIService"]


def test_a_list_is_its_items_and_texts_follow_each_other() -> None:
    text = "{apiVersion: v1, kind: List, items: [" + one("Secret").strip() + ", " + one("Service").strip() + "]}"
    found = objects_of({"a": text, "b": one("Service", "b")})
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in found] == [
        ("Secret", "a"),
        ("Service", "a"),
        ("Service", "b"),
    ]


def test_the_same_name_in_two_namespaces_is_two_objects() -> None:
    assert len(objects_of({"a": one("Service"), "b": one("Service", namespace="x")})) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "f.yml:1: malformed YAML"),
        ("a: b", "f.yml, document 1: no apiVersion, kind and metadata.name"),
        (one("Service") + "---\n[1]", "f.yml, document 2"),
        ("{apiVersion: v1, kind: Service, metadata: {name: 5}}", "document 1"),
        ("{apiVersion: v1, kind: Service, metadata: }", "document 1"),
        (one("Service") + "---\n" + one("Service"), "f.yml: Service a is there twice"),
        ("", "f.yml: no object"),
        ("&a [*a]", "f.yml"),
    ],
)
def test_what_is_no_object_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        objects_of({"f.yml": text})
    assert words in refused.value.summary


def test_a_digest_is_of_the_content_and_not_of_the_order_of_keys() -> None:
    assert digest_of([{"a": 1, "b": 2}]) == digest_of([{"b": 2, "a": 1}]) != digest_of([{"a": 1}])
