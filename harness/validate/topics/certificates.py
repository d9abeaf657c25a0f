"""Certificates: expiry, names, issuer, validity, keys that fit, and kubeconfigs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.x509.oid import NameOID

from harness.urls import joined
from harness.validate.expected import ExpectedGuest
from harness.validate.facts.files import Kubeconfig, MachineFiles, MachineKeys
from harness.validate.facts.node import KEY_USAGES, Certificate, NodeFacts
from harness.validate.findings import Mismatch, differs, on_every, together, unjudged
from harness.validate.layout import absent
from harness.validate.variables import CA_VALIDITY, VALIDITY, hours_of

Facts = Mapping[str, NodeFacts]
CERTIFICATE_MARGIN = timedelta(days=30)  # kubeadm issues for a year (its CA for ten): a fresh guest is far above this
KUBELET_CLIENT, API_SERVER = "kubelet's client", "API server"  # whose certificates, as machine/node.py calls them


def bad_certificates(facts: Facts, expected: ExpectedGuest, now: datetime | None = None) -> list[Mismatch]:
    """Return certificates that expire soon, are missing, or have another subject or other names than expected."""
    earliest = (now or datetime.now(UTC)) + CERTIFICATE_MARGIN

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        by_path = {certificate.path: certificate for certificate in node.certificates}
        for path, certificate in by_path.items():
            if certificate.not_after < earliest:
                requirement = f"{path} ({certificate.subject}) valid for {CERTIFICATE_MARGIN.days} more days"
                yield Mismatch(name, requirement, f"it expires {certificate.not_after:%Y-%m-%d %H:%M} UTC")
        path = client_path or node.whose_certificates.get(KUBELET_CLIENT, "")
        client = by_path.get(path)
        subject = f"CN=system:node:{name},O=system:nodes"
        if "kubelet" in judged and name in expected.nodes:
            whose = f"{name} {path or KUBELET_CLIENT}"
            yield from differs(whose, "subject", subject, client.subject if client else None)
        if name in expected.control_plane and "kube-apiserver" in judged:
            path = serving_path or node.whose_certificates.get(API_SERVER, "")
            serving = by_path.get(path)
            names = set(serving.names) if serving else set()
            missing = sorted(
                {name, *expected.addresses_of(name), f"kubernetes.default.svc.{expected.dns_domain}"} - names
            )
            yield from differs(f"{name} {path or API_SERVER}", "missing names", [], missing)

    leaves = expected.leaves
    client_path = leaves.kubelet.client_certificate
    serving_path = f"{leaves.certificates}/apiserver.crt" if leaves.certificates is not None else None
    paths = {"kubelet": client_path, "kube-apiserver": serving_path}
    judged = {program for program, path in paths.items() if path is not None or not absent(facts, program)}
    why = "no process of that name runs, and product.yml does not say where it is"
    unknown = [unjudged(f"the certificate of {program}", why) for program in sorted(set(paths) - judged)]
    every = on_every(expected.machines, facts, judge)
    seen_any = any(node.certificates for node in facts.values())
    return together(every, unknown) if judged or seen_any or not facts else together(unknown)


# kubeadm's authorities and, of other certificates than those of the first, whose they are
# (kubernetes.io, "PKI certificates and requirements").
CLUSTER, ETCD, FRONT = "ca.crt", "etcd/ca.crt", "front-proxy-ca.crt"
OF_OTHERS = {"apiserver-etcd-client.crt": ETCD, "front-proxy-client.crt": FRONT}
SELF_SIGNED = ("/var/lib/kubelet/pki/kubelet.crt",)  # kubelet's own, where nobody signs its requests
NOT_SAID = "product.yml does not say that kubeadm made the certificates (certificates, kubeadm)"


@dataclass(frozen=True)
class Role:
    """Whom a certificate is for.

    name, group: its common name and organization.  usages: the extended key usages.  names: what it must name.
    where: the group of the machines that must have it.  authority: whether it signs others.
    grouped: the minors whose kubeadm gives the group; a renewal under a later one keeps it. Empty: all do.
    """

    name: str
    usages: tuple[str, ...]
    where: Literal["control_plane", "etcd", "both", "node"]
    group: str = ""
    names: tuple[str, ...] = ()
    authority: bool = False
    grouped: tuple[str, ...] = ()


SERVER, CLIENT = ("serverAuth",), ("clientAuth",)
OF_API = (
    *("{name}", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.{domain}"),
    *("{service}", "{addresses}", "{local}"),
)
OF_ETCD = ("{name}", "localhost", "{address}", "127.0.0.1", "::1")
# As kubeadm 1.34 to 1.37 make them (cmd/kubeadm/app/phases/certs/certlist.go; kubernetes.io, "PKI certificates and
# requirements"). Files in the folder of certificates; those with a whole path are kubeconfigs, and kubelet's own.
ROLES: Mapping[str, Role] = {
    CLUSTER: Role("kubernetes", (), "control_plane", names=("kubernetes",), authority=True),
    FRONT: Role("front-proxy-ca", (), "control_plane", names=("front-proxy-ca",), authority=True),
    ETCD: Role("etcd-ca", (), "both", names=("etcd-ca",), authority=True),
    "apiserver.crt": Role("kube-apiserver", SERVER, "control_plane", names=OF_API),
    "apiserver-kubelet-client.crt": Role(
        "kube-apiserver-kubelet-client",
        CLIENT,
        "control_plane",
        "kubeadm:cluster-admins",
        grouped=("1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35"),
    ),
    "apiserver-etcd-client.crt": Role("kube-apiserver-etcd-client", CLIENT, "control_plane"),
    "front-proxy-client.crt": Role("front-proxy-client", CLIENT, "control_plane"),
    "etcd/server.crt": Role("{name}", SERVER + CLIENT, "etcd", names=OF_ETCD),
    "etcd/peer.crt": Role("{name}", SERVER + CLIENT, "etcd", names=OF_ETCD),
    "etcd/healthcheck-client.crt": Role("kube-etcd-healthcheck-client", CLIENT, "etcd"),
    "/etc/kubernetes/admin.conf": Role("kubernetes-admin", CLIENT, "control_plane", "kubeadm:cluster-admins"),
    "/etc/kubernetes/controller-manager.conf": Role("system:kube-controller-manager", CLIENT, "control_plane"),
    "/etc/kubernetes/scheduler.conf": Role("system:kube-scheduler", CLIENT, "control_plane"),
    "/var/lib/kubelet/pki/kubelet-client-current.pem": Role("system:node:{name}", CLIENT, "node", "system:nodes"),
}
RENEW = "certificates"  # the phase
# What is there on some machines only: on the first control plane; where the cluster signs kubelets' requests, or not.
OTHER_ROLES: Mapping[str, Role] = {
    "/etc/kubernetes/super-admin.conf": Role("kubernetes-super-admin", CLIENT, "control_plane", "system:masters"),
    "/var/lib/kubelet/pki/kubelet.crt": Role("{name}@", SERVER, "node", names=("{name}",)),
    "/var/lib/kubelet/pki/kubelet-server-current.pem": Role(
        "system:node:{name}", SERVER, "node", "system:nodes", names=("{name}", "{addresses}")
    ),
}
EXTRA_NAMES = "cluster_api_extra_sans"  # further names of API servers, in vmatrix's own playbooks
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


def other_roles(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates of kubeadm's files that are not for whom, for what and for which names kubeadm makes them."""
    folder = expected.leaves.certificates
    if folder is None or expected.leaves.kubeadm is None:
        return [unjudged("whom certificates are for", NOT_SAID, whole=True)]
    known = {path if path.startswith("/") else f"{folder}/{path}": role for path, role in ROLES.items()}
    every = {**known, **OTHER_ROLES}

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        there = {cert.path: cert for cert in node.certificates}
        for path, role in known.items():
            if path not in there and name in _machines_of(role, expected):
                yield Mismatch(f"{name} {path}", f"a certificate of {_filled(role.name, name, expected)[0]}", "none")
        for path, cert in there.items():
            if path in every:
                yield from _other_role(name, cert, every[path], expected)

    wrong = on_every(expected.machines, facts, judge)
    why = "product.yml does not say what it adds to kubeadm's settings (flags)"
    return wrong if expected.leaves.flags is not None else [*wrong, unjudged("further names of API servers", why)]


def _machines_of(role: Role, expected: ExpectedGuest) -> frozenset[str]:
    groups = {"control_plane": expected.control_plane, "etcd": expected.etcd, "node": expected.nodes}
    groups["both"] = (*expected.control_plane, *expected.etcd)
    return frozenset(groups[role.where])


def _other_role(name: str, cert: Certificate, role: Role, expected: ExpectedGuest) -> Iterator[Mismatch]:
    where, loaded = f"{name} {cert.path}", x509.load_pem_x509_certificate(cert.pem.encode())
    if role.authority and loaded.issuer != loaded.subject:
        return  # an organisation's, which kubeadm takes with whatever names and usages it has
    subject = x509.Name.from_rfc4514_string(cert.subject)
    common, groups = (
        [str(part.value) for part in subject.get_attributes_for_oid(oid)]
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    )
    common_name = _filled(role.name, name, expected)[0]
    own = [text.partition("@")[0] + "@" for text in common] if common_name.endswith("@") else common
    yield from differs(where, "CN", [common_name], own)
    expected_groups = [role.group] if role.group else []
    kept = bool(role.grouped) and expected.minor not in role.grouped and groups == []
    yield from [] if kept else differs(where, "O", expected_groups, groups)
    extended = sorted(cert.usages - BASIC)
    yield from differs(where, "extended key usage", sorted(role.usages), extended)
    rsa_key = isinstance(loaded.public_key(), RSAPublicKey)
    basic = {"digitalSignature", *["keyEncipherment"] * rsa_key, *["keyCertSign"] * role.authority}
    there = sorted(cert.usages & BASIC - (set() if rsa_key else {"keyEncipherment"}))
    yield from differs(where, "key usage", sorted(basic), there)
    names = {_plain(text) for text in cert.names}
    must = {text for pattern in role.names for text in _filled(pattern, name, expected)}
    yield from differs(where, "missing names", [], sorted(must - names))
    if role.names is not OF_API or expected.leaves.flags is not None:  # else a product adds names of its own
        further = names - must
        if role.names is OF_API:
            further = _unexplained(further - _further_names(expected), expected)
        yield from differs(where, "names besides those", [], sorted(further))


BASIC = frozenset(KEY_USAGES.values())


def _filled(pattern: str, machine: str, expected: ExpectedGuest) -> list[str]:
    """Return what a pattern of ROLES stands for on a machine."""
    local = expected.leaves.local_api.address
    host = [urlsplit(f"//{local}").hostname or ""] if local is not None else []
    first = list(islice(ip_network(expected.service_cidr).hosts(), 1)) if expected.service_cidr else []
    lists = {
        "{addresses}": expected.addresses_of(machine),
        "{address}": [expected.addresses[machine]],
        "{service}": [str(address) for address in first],
        "{local}": host,
    }
    if pattern in lists:
        return [_plain(text) for text in lists[pattern]]
    return [pattern.replace("{name}", machine).replace("{domain}", expected.dns_domain)]


def _further_names(expected: ExpectedGuest) -> set[str]:
    """Return the names that the API server's certificate may have besides: of all control planes, and the cell's."""
    own = [text for machine in expected.control_plane for text in (machine, *expected.addresses_of(machine))]
    asked = expected.variables.get(EXTRA_NAMES) or ()
    return {_plain(str(text)) for text in (*own, *asked, *LOCAL_NAMES)}


def _unexplained(names: set[str], expected: ExpectedGuest) -> set[str]:
    """Return names without the addresses of control planes that have left: nobody issues certificates anew then."""
    present = {_plain(text) for machine in expected.machines for text in expected.addresses_of(machine)}
    strange = {text for text in names if _is_address(text)} - present
    former = expected.former_control_planes
    most = len(strange) if former is None else len(former) * len(expected.families)
    return names if len(strange) > most else names - strange


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    """Return an address as Python writes it, and any other name as it is."""
    return str(ip_address(text)) if _is_address(text) else text


def foreign_certificates(facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates that another authority signed than the cluster's, and authorities that differ."""
    folder = expected.leaves.certificates
    if folder is None or expected.leaves.kubeadm is None:
        return [unjudged("who signed certificates", NOT_SAID, whole=True)]
    by_machine = {name: {cert.path: cert for cert in node.certificates} for name, node in facts.items()}
    first = _authorities(folder, by_machine, expected)

    def judge(name: str, there: Mapping[str, Certificate]) -> Iterator[Mismatch]:
        for path, cert in sorted(there.items()):
            authority = authority_of(path, folder)
            known = first.get(authority)
            if known is None or path in SELF_SIGNED:
                continue
            if path == authority and cert.pem != known.pem:
                yield Mismatch(f"{name} {path}", "the same authority as on the first control plane", "another")
            if path != authority and not cert.signed_by(known):
                yield Mismatch(f"{name} {path} ({cert.subject})", f"signed by {authority}", "by another authority")
        if name in expected.nodes and f"{folder}/{CLUSTER}" not in there:
            yield Mismatch(f"{name} {folder}/{CLUSTER}", "the cluster's authority", "none")

    return on_every(expected.machines, by_machine, judge)


def authority_of(path: str, folder: str) -> str:
    """Return the file of the authority that must have signed a certificate; an authority is its own."""
    place = PurePosixPath(path)
    inside = path.removeprefix(f"{folder}/")
    if inside in (CLUSTER, ETCD, FRONT):
        return path
    of = ETCD if place.parent.name == "etcd" else OF_OTHERS.get(inside, CLUSTER)
    return f"{folder}/{of}"


def _authorities(
    folder: str, by_machine: Mapping[str, Mapping[str, Certificate]], expected: ExpectedGuest
) -> dict[str, Certificate]:
    authorities: dict[str, Certificate] = {}
    for name in (*expected.control_plane, *expected.machines):
        for inside in (CLUSTER, ETCD, FRONT):
            path = f"{folder}/{inside}"
            if path in by_machine.get(name, {}):
                authorities.setdefault(path, by_machine[name][path])
    return authorities


Keys = Mapping[str, MachineKeys]
AUTHORITIES = (CLUSTER, ETCD, FRONT)
API_PORT = 6443
KUBELET = "kubelet.conf"
# Whom kubeadm's kubeconfigs are for (kubernetes.io, "PKI certificates and requirements"); kubelet's names a file.
SUBJECTS: Mapping[str, str | None] = {
    "admin.conf": "CN=kubernetes-admin,O=kubeadm:cluster-admins",
    "super-admin.conf": "CN=kubernetes-super-admin,O=system:masters",
    "controller-manager.conf": "CN=system:kube-controller-manager",
    "scheduler.conf": "CN=system:kube-scheduler",
    KUBELET: None,
}


def unfit_keys(keys: Keys, expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates whose key is another's, CAs that trust a second one, and keys for tokens that differ."""
    folder = expected.leaves.certificates
    strict = folder is not None and expected.leaves.kubeadm is not None
    first = expected.control_plane[0]
    public = keys[first].accounts.get(f"{folder}/sa.pub", "") if first in keys else ""

    def judge(name: str, machine: MachineKeys) -> Iterator[Mismatch]:
        for path, why in machine.pairs.items():
            if why:
                yield Mismatch(f"{name} {path}", "the key beside it to be its own", why)
        if strict and not machine.pairs:
            yield Mismatch(name, "certificates with their keys", "none in the places that checks know")
        for authority in (f"{folder}/{file}" for file in AUTHORITIES) if strict else ():
            if machine.counts.get(authority, 1) != 1:
                yield Mismatch(f"{name} {authority}", "one certificate", str(machine.counts[authority]))
        if strict and name in expected.control_plane:
            for path in (f"{folder}/sa.pub", f"{folder}/sa.key"):
                # without openssl, a machine does not tell of the private key
                if path.endswith(".pub") or path in machine.accounts:
                    same = machine.accounts.get(path) == public and public
                    requirement = f"the key pair of {first}'s sa.pub, by which tokens are checked"
                    yield from [] if same else [Mismatch(f"{name} {path}", requirement, "another, or none")]

    wrong = on_every(expected.machines, keys, judge)
    return wrong if strict else [*wrong, unjudged("CAs' files and the keys for tokens", NOT_SAID)]


def strange_kubeconfigs(keys: Keys, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubeconfigs that kubeadm does not make, and those of another user, CA or server than kubeadm gives."""
    if expected.leaves.certificates is None or expected.leaves.kubeadm is None:
        return [unjudged("kubeconfigs", NOT_SAID, whole=True)]
    local, nodes = expected.leaves.local_api.address, expected.nodes

    def judge(name: str, machine: MachineKeys) -> Iterator[Mismatch]:
        if name in expected.nodes and not machine.kubeconfigs:
            yield Mismatch(name, "kubelet's kubeconfig", "none")
        # kubelet's own is right if the API answers there, which another check asks
        kubeconfigs = machine.kubeconfigs
        own = [conf.server for path, conf in kubeconfigs.items() if path.endswith(f"/{KUBELET}") and name in nodes]
        servers = [f"https://{local}", f"https://{joined(expected.addresses[name], API_PORT)}", *own] if local else []
        for path, config in machine.kubeconfigs.items():
            file = PurePosixPath(path).name
            if file not in SUBJECTS:
                yield Mismatch(f"{name} {path}", "no such file: kubeadm leaves none", _who(config))
                continue
            subject = SUBJECTS[file]
            if subject is not None:
                yield from differs(f"{name} {path}", "subject", subject, _who(config))
            if config.authority != machine.authority:
                yield Mismatch(f"{name} {path}", "the cluster's CA alone", "another CA, or none")
            if servers and config.server not in servers:
                words = " or ".join(dict.fromkeys(servers))
                yield Mismatch(f"{name} {path}", f"server {words}", config.server or "none")

    unknown = [unjudged("the servers of kubeconfigs", "product.yml does not say local_api.address")]
    return together(on_every(expected.machines, keys, judge), [] if local is not None else unknown)


KUBELET_PAIR = "/var/lib/kubelet/pki/kubelet-client-current.pem"
GIVEN = "given"  # in the place of a value that stays on the machine
# How a kubelet that joined by a token calls what is in its kubeconfig (pkg/kubelet/certificate/bootstrap).
JOINED = {"cluster": "default-cluster", "context": "default-context", "user": "default-auth", "namespace": "default"}


def _form(user: str, *, files: bool = False, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a kubeconfig as kubeadm writes it, without its server.

    Args:
        files: whether it names kubelet's certificate, which is renewed, and does not hold one.
        names: of cluster, context and user where kubelet has written it.
    """
    names = names or {"cluster": "kubernetes", "context": f"{user}@kubernetes", "user": user}
    own = {"client-{}": KUBELET_PAIR} if files else {"client-{}-data": GIVEN}
    ((pattern, value),) = own.items()
    context = {"cluster": names["cluster"], "user": names["user"]}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": names["context"],
        "clusters": [{"name": names["cluster"], "cluster": {"certificate-authority-data": GIVEN}}],
        "contexts": [
            {
                "name": names["context"],
                "context": {**context, **({"namespace": names["namespace"]} if "namespace" in names else {})},
            }
        ],
        "users": [
            {"name": names["user"], "user": {pattern.format(part): value for part in ("certificate", "key")}},
        ],
    }


def other_forms(keys: Keys, expected: ExpectedGuest) -> list[Mismatch]:
    """Return kubeconfigs that have another form than kubeadm's, and kubelets whose certificate is not renewed."""
    if expected.leaves.certificates is None or expected.leaves.kubeadm is None:
        return [unjudged("the form of kubeconfigs", NOT_SAID, whole=True)]

    def judge(name: str, machine: MachineKeys) -> Iterator[Mismatch]:
        if name in expected.nodes and not machine.kubeconfigs:
            yield Mismatch(name, "kubelet's kubeconfig", "none")
        for path, config in machine.kubeconfigs.items():
            file = PurePosixPath(path).name
            if file in SUBJECTS:
                yield from _other_form(f"{name} {path}", config.form, _forms(file, name))
        link, certificate, key = machine.pair
        if name in expected.nodes:
            own = PurePosixPath(link).parent in (PurePosixPath(KUBELET_PAIR).parent, PurePosixPath("."))
            if not link or not own:
                requirement = "a link to a file beside it, which kubelet replaces when it renews its certificate"
                yield Mismatch(f"{name} {KUBELET_PAIR}", requirement, f"a link to {link}" if link else "no link")
            yield from differs(f"{name} {KUBELET_PAIR}", "certificate and key", (True, True), (certificate, key))

    return on_every(expected.machines, keys, judge)


def _forms(file: str, machine: str) -> list[dict[str, Any]]:
    """Return the forms that a kubeconfig of kubeadm's may have: a kubelet's is kubeadm's or its own."""
    if file == KUBELET:
        user = f"system:node:{machine}"
        return [_form(user, files=True), _form(user, files=True, names=JOINED)]
    return [_form(str(SUBJECTS[file]).partition(",")[0].removeprefix("CN="))]


def _other_form(where: str, there: Mapping[str, Any], forms: Sequence[Mapping[str, Any]]) -> Iterator[Mismatch]:
    """Yield where a kubeconfig differs from the one of the forms that is nearest to it."""
    observed = dict(_flat(there))
    nearest = min((dict(_flat(form)) for form in forms), key=lambda form: len(form.items() ^ observed.items()))
    observed = {key: value for key, value in observed.items() if not (key.endswith((".server", ".preferences")))}
    for key in sorted(nearest.keys() | observed.keys()):
        if nearest.get(key) != observed.get(key):
            yield Mismatch(f"{where} {key}", str(nearest.get(key, "no such key")), str(observed.get(key, "none")))


def _flat(content: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a kubeconfig by their paths."""
    if isinstance(content, Mapping) and content:
        for key, value in content.items():
            yield from _flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(content, list) and content:
        for place, value in enumerate(content):
            yield from _flat(value, f"{path}[{place}]")
    else:
        yield path, content


def _who(config: Kubeconfig) -> str:
    return config.certificate.subject if config.certificate is not None else "no certificate in it"


USUAL = "/etc/kubernetes/pki"
BACKDATED = timedelta(hours=1)  # at most: kubeadm lets CAs begin a few minutes ago
KUBEADMS = (".crt", ".key", ".pub")


def other_validity(
    facts: Mapping[str, NodeFacts],
    keys: Mapping[str, MachineKeys],
    expected: ExpectedGuest,
    now: datetime | None = None,
) -> list[Mismatch]:
    """Return certificates of kubeadm's, in files and in kubeconfigs, that are valid for another time than asked for.

    kubeadm has what it signs begin when the CA does, which may be older: made before the machines, or by another run.
    """
    validities = {name: expected.variables.get(name) for name in (VALIDITY, CA_VALIDITY)}
    folder = expected.leaves.certificates or USUAL
    authorities = {f"{folder}/{file}" for file in AUTHORITIES}
    machines = tuple(dict.fromkeys((*expected.control_plane, *expected.etcd)))

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        held = keys[name].kubeconfigs.items() if name in keys else ()
        there = [cert for cert in node.certificates if cert.path.startswith(f"{folder}/")]
        there += [conf.certificate for path, conf in held if conf.certificate and not path.endswith(f"/{KUBELET}")]
        if not there:
            yield Mismatch(f"{name} {folder}", "certificates", "none")
        begun = {cert.not_before for cert in there if cert.path in authorities}
        for cert in there:
            asked = validities[CA_VALIDITY if cert.path in authorities else VALIDITY]
            of_ca = cert.path not in authorities and cert.not_before in begun
            late = (now or datetime.now(UTC)) - cert.not_before if of_ca else BACKDATED
            yield from _other(name, cert, hours_of(str(asked)), max(late, BACKDATED)) if asked else ()

    return on_every(machines, {name: facts[name] for name in machines if name in facts}, judge)


def _other(machine: str, cert: Certificate, hours: int, late: timedelta) -> Iterator[Mismatch]:
    """Yield a certificate of another time. late: by how much it may have been signed after its beginning."""
    lasts = cert.not_after - cert.not_before
    if not timedelta(0) <= lasts - timedelta(hours=hours) <= late:
        lifetime = f"{lasts / timedelta(hours=1):.0f} hours"
        yield Mismatch(f"{machine} {cert.path} ({cert.subject})", f"valid for {hours} hours", lifetime)


def strayed_certificates(files: Mapping[str, MachineFiles], expected: ExpectedGuest) -> list[Mismatch]:
    """Return certificates and keys in kubeadm's usual folder, although the cell has another one."""
    folder = expected.leaves.certificates or USUAL

    def judge(name: str, machine: MachineFiles) -> Iterator[Mismatch]:
        if name in expected.nodes and f"{folder}/ca.crt" not in machine.files:
            yield Mismatch(f"{name} {folder}/ca.crt", "the cluster's CA", "none")
        for path in sorted(machine.files):
            if path.startswith(f"{USUAL}/") and folder != USUAL and PurePosixPath(path).suffix in KUBEADMS:
                yield Mismatch(f"{name} {path}", f"no such file: the cell's are in {folder}", "it exists")

    return on_every(expected.machines, files, judge)


# Where kubeadm and kubelet put keys, by name; {certificates} is the folder of certificates.
OWN_PLACES = (
    *(f"{{certificates}}/{path.removesuffix('.crt')}.key" for path in ROLES if not path.startswith("/")),
    "{certificates}/sa.key",
    *(f"/etc/kubernetes/{file}" for file in SUBJECTS),
    *("/var/lib/kubelet/pki/kubelet.key", "/var/lib/kubelet/pki/kubelet-client-*.pem"),
    "/var/lib/kubelet/pki/kubelet-server-*.pem",
)
OF_ADMINS = ("/root/.kube/config", "/home/*/.kube/config")  # on control planes
ANYBODYS = ("token", "key")  # that machines have of others than the cluster
WORDS = {
    "key": "a private key",
    "kubeconfig": "a kubeconfig with credentials",
    "token": "a token of a ServiceAccount",
    "encryption": "the keys of Secrets",
    "etcd": "etcd's data",
}


def strayed_secrets(keys: Keys, facts: Facts, expected: ExpectedGuest) -> list[Mismatch]:
    """Return secrets that any user of a machine reads, and copies of the cluster's where nobody needs them."""
    allowed = expected.leaves.secrets
    known = {
        digest: f"{name} {secret.path}"
        for name, machine in keys.items()
        for secret in machine.secrets
        if _is_at(secret.path, OWN_PLACES, expected)
        for digest in secret.digests
    }

    def judge(name: str, machine: MachineKeys) -> Iterator[Mismatch]:
        if not machine.searched:
            yield Mismatch(name, "a search of its files for secrets that comes to an end", "too many files")
        data = [f"{folder}/*" for folder in _data_folders(name, facts)]
        for file in machine.secrets:
            where = f"{name} {file.path}"
            if file.readable:
                yield Mismatch(where, f"{WORDS[file.what]} that only its owner reads", f"permissions {file.mode:04o}")
            places = (*OWN_PLACES, *(OF_ADMINS if name in expected.control_plane else ()), *data, *(allowed or ()))
            if allowed is None or _is_at(file.path, places, expected):
                continue
            originals = sorted({known[digest] for digest in file.digests if digest in known})
            if originals or file.what not in ANYBODYS:
                copied = f"a copy of {', '.join(originals)}" if originals else WORDS[file.what]
                yield Mismatch(where, "no copy of the cluster's secrets", copied)

    wrong = on_every(expected.machines, keys, judge)
    why = "product.yml does not say where secrets are (secrets)"
    return wrong if allowed is not None else [*wrong, unjudged("copies of secrets", why)]


def _is_at(path: str, places: Sequence[str], expected: ExpectedGuest) -> bool:
    folder = expected.leaves.certificates or USUAL
    return any(fnmatchcase(path, place.replace("{certificates}", folder)) for place in places)


def _data_folders(name: str, facts: Facts) -> list[str]:
    """Return the folders with the data of the etcd that runs on a machine."""
    running = facts[name].running("etcd") if name in facts else ()
    return [folder for process in running if (folder := process.flag("data-dir"))]


RENEWED = frozenset(path for path, role in ROLES.items() if not role.authority and role.where != "node")
REPLACED = frozenset(ROLES)  # by a rotation of CAs


def not_renewed(
    before: Facts, after: Facts, expected: ExpectedGuest, paths: frozenset[str] = RENEWED
) -> list[Mismatch]:
    """Return certificates that are the same after a phase as before it, of those of ROLES that are named."""
    folder = expected.leaves.certificates or ""
    signed = {path if path.startswith("/") else f"{folder}/{path}" for path in paths}

    def judge(name: str, node: NodeFacts) -> Iterator[Mismatch]:
        earlier = {cert.path: cert.pem for cert in before[name].certificates} if name in before else {}
        there = [cert for cert in node.certificates if cert.path in signed]
        if not there:
            yield Mismatch(name, "certificates that the phase replaces", "none")
        for cert in there:
            if earlier.get(cert.path, cert.pem) == cert.pem:
                yield Mismatch(
                    f"{name} {cert.path}", "another certificate than before the phase", "the same, or none before"
                )

    machines = {name for path in paths for name in _machines_of(ROLES[path], expected)}
    return on_every([name for name in expected.machines if name in machines], after, judge)
