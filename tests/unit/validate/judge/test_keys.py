"""Keys of other certificates, second CAs and strange kubeconfigs are found."""

from __future__ import annotations

import pytest

from harness.validate.facts.keys import MachineKeys, keys_of
from harness.validate.findings import Unjudged
from harness.validate.judge.keys import strange_kubeconfigs, unfit_keys
from tests.unit.validate import foreign, guests
from tests.unit.validate.guests import Change, Json

EXPECTED = guests.expected()
PKI, CONF = "/etc/kubernetes/pki", "/etc/kubernetes"
SERVER, CA = "https://127.0.0.1:6445", "the CA"


def raw_keys(name: str) -> Json:
    """Return what a machine of the recorded guest prints, with the certificates that were recorded."""
    certificates = guests.raw_facts("cp-0")["certificates"]
    files = ("admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf") if name == "cp-0" else ()
    made = {
        f"{CONF}/{file}": {"server": SERVER, "authority": CA, "certificate": certificates[f"{CONF}/{file}"]}
        for file in files
    }
    own = {f"{CONF}/kubelet.conf": {"server": SERVER, "authority": CA, "certificate": ""}}
    return {
        "pairs": {f"{PKI}/apiserver.crt": "", "/var/lib/kubelet/pki/kubelet.crt": ""},
        "counts": {f"{PKI}/ca.crt": 1, f"{PKI}/front-proxy-ca.crt": 1},
        "kubeconfigs": {**made, **own},
        "authority": CA,
        "accounts": {f"{PKI}/sa.pub": "a", f"{PKI}/sa.key": "a"} if name == "cp-0" else {},
    }


def keys(change: Change = lambda _: None, *, of: str = "cp-0") -> dict[str, MachineKeys]:
    raw = {name: raw_keys(name) for name in ("cp-0", "w-0")}
    change(raw[of])
    return {name: keys_of(one) for name, one in raw.items()}


def test_only_a_well_guest_passes() -> None:
    assert [str(one) for one in unfit_keys(keys(), EXPECTED)] == []
    assert [str(one) for one in strange_kubeconfigs(keys(), EXPECTED)] == []
    assert unfit_keys({}, EXPECTED)
    assert strange_kubeconfigs({}, EXPECTED)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw["pairs"].update({f"{PKI}/apiserver.crt": "key values mismatch"}), "apiserver.crt"),
        (lambda raw: raw.update(pairs={}), "certificates with their keys"),
        (lambda raw: raw["counts"].update({f"{PKI}/ca.crt": 2}), "ca.crt: expected one certificate; saw 2"),
        (lambda raw: raw["accounts"].update({f"{PKI}/sa.key": "b"}), "sa.key"),
        (lambda raw: raw["accounts"].pop(f"{PKI}/sa.pub"), "sa.pub"),
    ],
)
def test_an_unfit_key_is_found(change: Change, words: str) -> None:
    found = unfit_keys(keys(change), EXPECTED)
    assert words in str(found[0])


def test_a_machine_without_openssl_tells_nothing_of_the_private_key() -> None:
    assert unfit_keys(keys(lambda raw: raw["accounts"].pop(f"{PKI}/sa.key")), EXPECTED) == []


def copied(source: str, target: str) -> Change:
    def change(raw: Json) -> None:
        raw["kubeconfigs"][f"{CONF}/{target}"] = raw["kubeconfigs"][f"{CONF}/{source}"]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (copied("super-admin.conf", "extra.conf"), "extra.conf: expected no such file"),
        (copied("super-admin.conf", "controller-manager.conf"), "saw 'CN=kubernetes-super-admin,O=system:masters'"),
        (copied("kubelet.conf", "scheduler.conf"), "saw 'no certificate in it'"),
        (lambda raw: raw["kubeconfigs"][f"{CONF}/admin.conf"].update(authority="another"), "another CA, or none"),
        (
            lambda raw: raw["kubeconfigs"][f"{CONF}/admin.conf"].update(server="https://192.0.2.1:6443"),
            "saw https://192.0.2.1",
        ),
        (lambda raw: raw["kubeconfigs"][f"{CONF}/admin.conf"].update(certificate="none"), "no certificate in it"),
        (lambda raw: raw["kubeconfigs"].clear(), "kubelet's kubeconfig"),
    ],
)
def test_a_strange_kubeconfig_is_found(change: Change, words: str) -> None:
    (found,) = strange_kubeconfigs(keys(change), EXPECTED)
    assert words in str(found)


def test_the_api_server_of_the_machine_itself_is_as_good() -> None:
    def change(raw: Json) -> None:
        raw["kubeconfigs"][f"{CONF}/scheduler.conf"]["server"] = "https://10.222.1.2:6443"

    assert strange_kubeconfigs(keys(change), EXPECTED) == []


def test_of_a_product_that_says_nothing_only_pairs_are_judged() -> None:
    unsaid = guests.expected(leaves=foreign.UNSAID)
    wrong = keys(lambda raw: raw["pairs"].update({"/x.crt": "key values mismatch"}))
    assert [isinstance(one, Unjudged) for one in unfit_keys(wrong, unsaid)] == [False, True]
    (found,) = strange_kubeconfigs(keys(), unsaid)
    assert isinstance(found, Unjudged)
