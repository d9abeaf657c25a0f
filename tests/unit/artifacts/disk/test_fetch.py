"""The checksum of a published image, from the list beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.artifacts.disk import fetch
from harness.errors import InfraError, InfraRetriable
from harness.spec.models import UrlSource
from tests.unit.artifacts.disk.conftest import Site

PATH = "/a.qcow2"


def test_a_list_without_the_image_is_an_error(site: Site) -> None:
    site.files["/SUMS"] = b"0123  other.qcow2\n"
    source = UrlSource(kind="url", url=site.url + PATH, checksum_url=f"{site.url}/SUMS")
    with pytest.raises(InfraError, match=r"lists no checksum of a.qcow2"):
        fetch.checksum(source)


def test_a_site_that_does_not_answer_is_worth_a_retry(tmp_path: Path) -> None:
    source = UrlSource(kind="url", url="http://127.0.0.1:9/a.qcow2", checksum_url="http://127.0.0.1:9/SUMS")
    with pytest.raises(InfraRetriable, match="cannot be reached"):
        fetch.checksum(source)
