"""Lists of checksums."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from harness.artifacts import download
from harness.artifacts.catalogue import Catalogue, Recipes, ReleaseRecipe
from harness.artifacts.download import listed
from harness.artifacts.recipe import Ref, Source
from harness.artifacts.store import Store
from harness.errors import BadInput, InfraError, InfraRetriable
from tests.unit.artifacts.conftest import Site, archive


def test_a_list_of_checksums_is_searched_by_file_name() -> None:
    text = f"{'a' * 64}  etcd-v1-linux-arm64.tar.gz\n{'b' * 64} *./etcd-v1-linux-amd64.tar.gz\n"
    assert listed(text, "etcd-v1-linux-amd64.tar.gz") == f"sha256:{'b' * 64}"


A, B = "a" * 64, "b" * 64
LONG, OTHER = "c" * 128, "d" * 128
SIGNED = f"""-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

{{}}
-----BEGIN PGP SIGNATURE-----

{A}
=abcd
-----END PGP SIGNATURE-----
"""
# Form -> a list with the file of name and digest, and another file. Who publishes such: GNU: Ubuntu, Debian, Talos,
# Arch, openSUSE (signed); BSD: Rocky, Alma, CentOS, Fedora (signed); several algorithms: Flatcar, Gentoo.
FORMS = {
    "gnu": f"{B}  other.img\n{A}  f.img\n",
    "gnu, binary": f"{B} *other.img\n{A} *f.img\n",
    "gnu, one space": f"{A} f.img\n",
    "gnu, tab": f"{A}\tf.img\n",
    "gnu, path": f"{B}  ./other.img\n{A}  ./images/f.img\n",
    "gnu, absolute path": f"{A}  /srv/images/f.img\n",
    "gnu, escaped": f"\\{A}  f.img\n",
    "gnu, upper case": f"{A.upper()}  f.img\n",
    "gnu, line ends of Windows": f"{B}  other.img\r\n{A}  f.img\r\n",
    "gnu, byte order mark": f"\ufeff{A}  f.img\n",
    "gnu, comments": f"# f.img: 1234 bytes\n{A}  f.img\n",
    "gnu, indented": f"  {A}  f.img  \n",
    "gnu, signed": SIGNED.format(f"{B}  other.img\n{A}  f.img"),
    "bsd": f"SHA256 (other.img) = {B}\nSHA256 (f.img) = {A}\n",
    "bsd, comments": f"# f.img: 1234 bytes\nSHA256 (f.img) = {A}\n",
    "bsd, line ends of Windows": f"# f.img: 1 bytes\r\nSHA256 (f.img) = {A}\r\n",
    "bsd, path": f"SHA256 (./x/f.img) = {A}\n",
    "bsd, signed": SIGNED.format(f"# f.img: 12 bytes\nSHA256 (f.img) = {A}\nSHA256 (other.img) = {B}"),
    "openssl": f"SHA256(other.img)= {B}\nSHA256(f.img)= {A}\n",
    "openssl 3": f"SHA2-256(f.img)= {A}\n",
    "with its algorithm": f"sha256:{A}  f.img\n",
    "alone": A,
    "alone, upper case": f"{A.upper()}\n",
    "alone, line end of Windows": f"{A}\r\n",
    "others' algorithms": f"# MD5\n{'e' * 32}  f.img\nSHA1 (f.img) = {'e' * 40}\n{'e' * 96}  f.img\n{A}  f.img\n",
    "openssl, with a hyphen": f"SHA-256(f.img)= {A}\n",
    **{
        f"beside {name}": f"{name} (f.img) = {digest}\nSHA256 (f.img) = {A}\n"
        for name, digest in (
            *((name, "e" * 128) for name in ("BLAKE2b", "SHA3-512", "WHIRLPOOL", "BLAKE2B-512")),
            *((name, "e" * 64) for name in ("BLAKE2s", "SHA3-256", "SHA512/256", "SM3", "BLAKE3", "SHA512-256")),
        )
    },
    "twice": f"{A}  f.img\n{A}  ./f.img\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_list_is_read(form: str) -> None:
    assert listed(FORMS[form], "f.img") == f"sha256:{A}"


@pytest.mark.parametrize(
    "text",
    [
        f"{A}  f.img\n{LONG}  f.img\n",
        f"{LONG}  f.img\n{A}  f.img\n",
        f"SHA512 (f.img) = {LONG}\nSHA256 (f.img) = {A}\n",
        f"# SHA512 HASH\n{LONG}  f.img\n# SHA512 HASH\n{OTHER}  other.img\n",
    ],
)
def test_of_several_algorithms_the_strongest_counts(text: str) -> None:
    assert listed(text, "f.img") == f"sha512:{LONG}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{A}  other.img\n",
        f"{A}  f.img.sig\n",
        f"SHA256 (other.img) = {A}\n",
        f"{A}  f.img\n{B}  f.img\n",
        f"{'g' * 64}  f.img\n",
        f"-----BEGIN PGP SIGNATURE-----\n{A}  f.img\n",
    ],
)
def test_what_a_list_does_not_say_is_not_guessed(text: str) -> None:
    assert listed(text, "f.img") is None


PLAIN = "/v1.2.3/tool"


PAIR = "/pair-4.5.6.tgz"


TOOL = Ref("tool", "1.2.3")


@pytest.fixture
def store(tmp_path: Path, small: Catalogue, site: Site) -> Store:
    return Store(tmp_path, Source.RELEASE, small, {"http://site": site.url})


def nothing_kept(store: Store) -> bool:
    """Tell whether the cache holds neither a finished artifact nor a piece of one."""
    left = [path for path in store.root.rglob("*") if path.is_file() and ".logs" not in path.parts]
    return all(path.name.startswith(".lock-") for path in left) and not list(store.root.rglob(".tmp-*"))


def test_a_plain_file_is_kept_and_executable(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    path = store.obtain("tool", "1.2.3").file("tool")
    assert path.read_bytes() == b"program"
    assert path.stat().st_mode & 0o777 == 0o755


def test_a_second_time_asks_nothing(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    first = store.obtain("tool", "1.2.3")
    asked = len(site.asked)
    assert store.obtain("tool", "1.2.3") == first
    assert len(site.asked) == asked


def test_only_named_members_are_taken_out_of_an_archive(store: Store, site: Site) -> None:
    site.offer(PAIR, archive({"./pair-4.5.6/bin/left": b"l", "../evil": b"e", "pair-4.5.6/bin/right": b"r", "x": b"x"}))
    found = store.obtain("pair", "4.5.6")
    assert {name: path.read_bytes() for name, path in found.files.items()} == {"left": b"l", "right": b"r"}
    assert not list(store.root.rglob("evil"))


def test_a_bare_digest_is_a_checksum_file_too(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    site.content[f"{PLAIN}.sha256"] = site.content[f"{PLAIN}.sha256"].split()[0]
    assert store.obtain("tool", "1.2.3").source == "release"


def wrong_checksum(site: Site) -> None:
    site.content[PLAIN] = b"another program"


def truncated(site: Site) -> None:
    site.announced[PLAIN] = 1000


def missing(site: Site) -> None:
    del site.content[PLAIN]


def missing_checksum(site: Site) -> None:
    del site.content[f"{PLAIN}.sha256"]


def checksum_of_others(site: Site) -> None:
    site.content[f"{PLAIN}.sha256"] = b"0" * 64 + b"  other\n"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (wrong_checksum, "wrong checksum"),
        (truncated, "was cut off"),
        (missing, "answered 404"),
        (missing_checksum, "answered 404"),
        (checksum_of_others, "lists no SHA-256 of tool"),
    ],
)
def test_a_fault_is_one_clear_error_and_leaves_nothing(
    store: Store, site: Site, fault: Callable[[Site], None], message: str
) -> None:
    site.offer(PLAIN, b"program")
    fault(site)
    with pytest.raises(InfraError, match=message) as raised:
        store.obtain("tool", "1.2.3")
    assert site.url in raised.value.summary
    assert nothing_kept(store)
    assert store.cached(TOOL) is None


def test_a_fault_can_be_mended_by_trying_again(store: Store, site: Site) -> None:
    site.offer(PLAIN, b"program")
    site.announced[PLAIN] = 1000
    with pytest.raises(InfraRetriable):
        store.obtain("tool", "1.2.3")
    site.announced.clear()
    assert store.obtain("tool", "1.2.3").file("tool").read_bytes() == b"program"


def test_an_archive_without_the_member_is_refused(store: Store, site: Site) -> None:
    site.offer(PAIR, archive({"pair-4.5.6/bin/left": b"l"}))
    with pytest.raises(InfraError, match=r"does not contain pair-4\.5\.6/bin/right"):
        store.obtain("pair", "4.5.6")
    assert nothing_kept(store)


def test_what_is_no_archive_is_refused(store: Store, site: Site) -> None:
    site.offer(PAIR, b"<html>please log in</html>" * 100)
    with pytest.raises(InfraError, match="not a readable archive"):
        store.obtain("pair", "4.5.6")
    assert nothing_kept(store)


def test_a_site_that_does_not_answer_is_named(tmp_path: Path, small: Catalogue) -> None:
    store = Store(tmp_path, Source.RELEASE, small, {"http://site": "http://127.0.0.1:9"})
    with pytest.raises(InfraRetriable, match=r"http://127\.0\.0\.1:9/v1\.2\.3/tool\.sha256 cannot be reached"):
        store.obtain("tool", "1.2.3")


def test_reachability_is_asked_once(site: Site) -> None:
    url = f"{site.url}/unused"  # HEAD is not served: 501, so this site counts as not reachable
    assert download.reachable(url) is False
    assert download.reachable(url) is False
    assert download.reachable.cache_info().hits >= 1


def pinned(small: Catalogue, url: str, content: bytes, members: dict[str, str] | None = None) -> Catalogue:
    """Return the catalogue with a tool of which a project knows the address and the checksum."""
    tool = small.program("tool")
    recipe = ReleaseRecipe(
        base="", url=url, checksum_url="", checksum=f"sha256:{sha256(content).hexdigest()}", members=members or {}
    )
    recipes = Recipes(gomod=tool.gomod, pinned=recipe, where="matrix/artifacts.yml:3: artifacts.tool.1.2.9")
    other = tool.model_copy(update={"versions": ["1.2.3", "1.2.9"], "other": {"1.2.9": recipes}})
    return small.model_copy(update={"programs": {**small.programs, "tool": other}})


@pytest.mark.parametrize("source", Source)
def test_an_address_with_a_checksum_is_the_only_source(
    tmp_path: Path, small: Catalogue, site: Site, source: Source
) -> None:
    site.content["/own/tool-1.2.9"] = b"ours"
    store = Store(tmp_path, source, pinned(small, f"{site.url}/own/tool-{{version}}", b"ours"))
    assert store.obtain("tool", "1.2.9").file("tool").read_bytes() == b"ours"
    assert site.asked == ["/own/tool-1.2.9"]


def test_an_archive_at_an_address_gives_its_members(tmp_path: Path, small: Catalogue, site: Site) -> None:
    content = archive({"bin/tool": b"inside"})
    site.content["/a.tgz"] = content
    store = Store(tmp_path, Source.AUTO, pinned(small, f"{site.url}/a.tgz", content, {"tool": "bin/tool"}))
    assert store.obtain("tool", "1.2.9").file("tool").read_bytes() == b"inside"


def test_what_has_another_checksum_is_not_kept(tmp_path: Path, small: Catalogue, site: Site) -> None:
    site.content["/tool"] = b"other"
    store = Store(tmp_path, Source.AUTO, pinned(small, f"{site.url}/tool", b"ours"))
    with pytest.raises(InfraError, match="wrong checksum") as raised:
        store.obtain("tool", "1.2.9")
    assert "correct matrix/artifacts.yml:3: artifacts.tool.1.2.9" in raised.value.hint
    assert nothing_kept(store)


def test_an_address_that_has_nothing_is_refused_before_anything_is_made(
    tmp_path: Path, small: Catalogue, site: Site
) -> None:
    url = f"{site.url}/nothing"
    store = Store(tmp_path, Source.AUTO, pinned(small, url, b"ours"))
    with pytest.raises(BadInput, match=rf"^matrix/artifacts\.yml:3: artifacts\.tool\.1\.2\.9\.url: {url} answers 404"):
        store.refuse_absent([Ref("tool", "1.2.9")])
    Store(tmp_path, Source.AUTO, pinned(small, "http://127.0.0.1:9/a", b"")).refuse_absent([Ref("tool", "1.2.9")])
