"""Real S3 servers for the tests of buckets."""

from collections.abc import Callable, Iterator

import pytest

from tests.embedded.s3_gateway import Gateway, gateways


@pytest.fixture(scope="module")
def start_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Gateway]]:
    """Return what starts servers."""
    with gateways(tmp_path_factory) as begin:
        yield begin


@pytest.fixture(scope="module")
def gateway(start_gateway: Callable[..., Gateway]) -> Gateway:
    """Return a server without TLS."""
    return start_gateway()
