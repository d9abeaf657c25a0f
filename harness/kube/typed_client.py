"""The Python client of Kubernetes over a Cluster's connection, for people who write checks with its models.

Nothing inside of vmatrix uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import urllib3

from harness.kube.api import timeouts
from harness.kube.client import Cluster
from harness.kube.connection import ApiConnection, ApiRequest

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


def typed_client(cluster: Cluster) -> ApiClient:
    """Return an `ApiClient` of the Python client of Kubernetes, for `kubernetes.client.CoreV1Api` and the like.

    People who write checks in Python know its models and API classes. Nothing inside of vmatrix uses it. Address, TLS,
    proxy and login are the Cluster's, decided by the rules of kubectl, and not by the client's own
    (docs/decisions/kubeconfig.md).

    Its calls raise what they always do (`kubernetes.client.ApiException`, `urllib3.exceptions.HTTPError`), and time out
    as the cluster's own requests do unless `_request_timeout` (seconds, or connect and read seconds) is given.
    """
    import kubernetes  # takes half a second, which commands and checks without it are spared

    settings = kubernetes.client.Configuration(host=cluster.connection.server)
    client = kubernetes.client.ApiClient(settings)
    rest: Any = client.rest_client
    rest.pool_manager = _Requests(cluster.connection, timeouts(cluster.patience))
    return client


class _Requests:
    """Sends what the client would hand to a pool of urllib3."""

    def __init__(self, connection: ApiConnection, limits: tuple[float, float]) -> None:
        self._connection = connection
        self._limits = limits  # of the connection and of silence, in seconds

    def request(
        self,
        method: str,
        url: str,
        *,
        body: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: urllib3.Timeout | None = None,
        fields: Mapping[str, Any] | None = None,
        **_of_the_pool: Any,
    ) -> urllib3.BaseHTTPResponse:
        """Send a request.

        Args:
            fields: of a form, which no API of Kubernetes takes: ValueError where there are any.
        """
        if fields:
            raise ValueError(f"{method} {url}: an API of Kubernetes takes no form; send a body")
        connect, silence = self._limits
        if timeout is not None:
            connect, silence = _seconds(timeout.connect_timeout, connect), _seconds(_silence(timeout), silence)
        content = body.encode() if isinstance(body, str) else body or b""
        path = url.removeprefix(self._connection.server)
        return self._connection.send(ApiRequest(method, path, dict(headers or {}), content, (connect, silence)))

    def clear(self) -> None:
        """Close nothing: the connections are the cluster's."""


def _silence(timeout: urllib3.Timeout) -> object:
    """Return how long an answer may take; urllib3 tells it of a whole that has not begun only as that whole."""
    return timeout.read_timeout if timeout.total is None else timeout.total


def _seconds(limit: object, usual: float) -> float:
    return float(limit) if isinstance(limit, int | float) else usual
