"""The checksums of what the mirror serves below bin/ are those of the bytes that arrive."""

from __future__ import annotations

import hashlib
from pathlib import Path

from harness.artifacts.catalogue import Catalogue
from harness.artifacts.product.sums import checksums
from harness.artifacts.recipe import Source
from harness.artifacts.store import Store
from tests.unit.artifacts.conftest import Site, archive
from tests.unit.artifacts.product.conftest import get


def test_a_file_and_an_archive_have_the_checksums_of_what_is_sent(
    site: Site, small: Catalogue, cache: Path, url: str
) -> None:
    site.offer("/v1.2.3/tool", b"tool")
    site.offer(
        "/pair-4.5.6.tgz", archive({f"pair-4.5.6/bin/{name}": name.encode() * 999 for name in ("left", "right")})
    )
    store = Store(cache / "artifacts", Source.RELEASE, small, {"http://site": site.url})
    found = checksums([store.obtain("tool", "1.2.3"), store.obtain("pair", "4.5.6")])
    sent = {"tool/1.2.3": "/bin/tool/1.2.3/tool", "pair/4.5.6": "/bin/pair/4.5.6/pair.tar"}
    assert found == {name: hashlib.sha256(get(f"{url}{path}")).hexdigest() for name, path in sent.items()}
