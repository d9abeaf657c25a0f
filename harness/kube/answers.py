"""What an API answered, understood: the objects and lists of Kubernetes, or the words of something else at its address.

A login page, a proxy's portal or another program's API answer as well, often with 200. What they say is never taken for
an object, and a "not found" of theirs is never taken for the absence of one.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from harness.errors import EXIT_INFRA
from harness.kube.failures import Answer, Json, Unreachable

SHOWN = 120  # characters of a foreign answer
HINT = (
    "is `server` in the kubeconfig the address of an API server? A web page, a login or a proxy answers there; "
    "`kubectl cluster-info` with the same kubeconfig shows the same"
)


class NotAnApi(Unreachable):
    """Something answers at the API's address that is no Kubernetes API."""

    exit_code = EXIT_INFRA

    def __init__(self, where: str, answered: str) -> None:
        super().__init__(f"{where}: this is not a Kubernetes API: it {answered}", hint=HINT)

    @property
    def passing(self) -> bool:
        """Tell that no wait helps."""
        return False


def refuse_foreign(answer: Answer, where: str) -> None:
    """Refuse what no Kubernetes API answers: a redirection, a page, an error that is not an API's.

    Args:
        where: method and URL.

    Raises:
        NotAnApi: with what it answered. What a proxy says of an API that is down (5xx) is left to pass.
    """
    if 300 <= answer.code < 400:
        raise NotAnApi(where, f"redirects to {answer.location or 'nowhere'} ({answer.code})")
    if answer.code >= 500:
        return
    page = isinstance(answer.body, str) and answer.body.lstrip()[:1] == "<"
    if page and (answer.code >= 400 or "html" in answer.content_type):
        raise NotAnApi(where, f"answered {answer.code} with {shown(answer.body)}")
    if answer.code == HTTPStatus.NOT_FOUND and not isinstance(answer.body, str) and not _is_status(answer.body):
        raise NotAnApi(where, f"answered 404 with {shown(answer.body)}")


def _is_status(body: Any) -> bool:
    return isinstance(body, dict) and body.get("kind") == "Status"


def an_object(body: Any, where: str) -> Json:
    """Return an answer that is an object; NotAnApi when it is anything else."""
    if isinstance(body, dict) and isinstance(body.get("kind"), str):
        return body
    raise NotAnApi(where, f"answered {shown(body)}")


def a_list(body: Any, where: str) -> Json:
    """Return an answer that is a list of objects; NotAnApi when it is anything else."""
    if isinstance(body, dict) and isinstance(body.get("metadata"), dict):
        items = body.get("items") or []
        if isinstance(items, list) and all(map(_is_item, items)):
            return body
    raise NotAnApi(where, f"answered {shown(body)}")


def _is_item(item: Any) -> bool:
    """Tell whether a part of a list is an object: every one has a name, and labels by name if it has some."""
    meta = item.get("metadata") if isinstance(item, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return False
    labels = meta.get("labels")
    return labels is None or (isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()))


def the_version(body: Any, where: str) -> str:
    """Return the release that an answer to GET /version names; NotAnApi when it names none."""
    if isinstance(body, dict) and isinstance(body.get("gitVersion"), str):
        return str(body["gitVersion"])
    raise NotAnApi(where, f"answered {shown(body)}")


def shown(body: Any) -> str:
    """Return the beginning of an answer for a message, on one line."""
    text = body if isinstance(body, str) else "nothing" if body is None else json.dumps(body, default=str)
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."
