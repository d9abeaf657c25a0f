"""Lists of checksums."""

from __future__ import annotations

import pytest

from harness.artifacts.download import listed


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
