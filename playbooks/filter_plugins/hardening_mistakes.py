"""Jinja filter `hardening_mistakes`: what is wrong with the variables that harden a cluster, each with its remedy.

For preflight, which says it before any machine changes. A key is never part of what is said.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

KEY_BYTES = 32  # of secretbox (kubernetes.io, "Encrypting Confidential Data at Rest")
MAKE_KEY = "head -c 32 /dev/urandom | base64"
VERSIONS = ("VersionTLS12", "VersionTLS13")
# Those of TLS 1.2 that encrypt and authenticate in one, with a fresh key for each connection, as Go calls them.
SUITES = tuple(
    f"TLS_ECDHE_{key}_WITH_{cipher}"
    for key in ("ECDSA", "RSA")
    for cipher in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")
)
HTTP2 = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")  # RFC 9113, 9.2.2
LEVELS = ("privileged", "baseline", "restricted")
MODES = ("enforce", "audit", "warn")
LIMITS = ("Server", "Namespace", "User", "SourceAndObject")
NUMBERS = ("qps", "burst", "cacheSize")


def hardening_mistakes(given: Mapping[str, Any], flags: Mapping[str, Any], made: Mapping[str, Any]) -> list[str]:
    """Return what is wrong.

    Args:
        given: the variables, by name.  flags: further flags of the API server.  made: those that the variables make.
    """
    return [
        *_key(given["cluster_encryption_key"]),
        *_audit(given["cluster_audit_policy"]),
        *_tls(given["cluster_tls_minimum"], given["cluster_tls_cipher_suites"]),
        *_pod_security(given["cluster_pod_security"]),
        *_limits(given["cluster_event_rate_limits"]),
        *_plugins(given["cluster_admission_plugins"]),
        *_flags(flags, made),
    ]


def _key(key: Any) -> Iterator[str]:
    if not key:
        return
    try:
        size = len(base64.b64decode(str(key), validate=True))
    except (binascii.Error, ValueError):
        yield f"cluster_encryption_key is no base64: make one with {MAKE_KEY}"
        return
    if size != KEY_BYTES:
        yield f"cluster_encryption_key has {size} bytes: it needs exactly {KEY_BYTES}; make one with {MAKE_KEY}"


def _audit(policy: Any) -> Iterator[str]:
    if policy and (not isinstance(policy, Mapping) or not policy.get("rules")):
        yield "cluster_audit_policy has no rules: give at least one, such as {level: Metadata}"


def _tls(version: Any, suites: Any) -> Iterator[str]:
    if version and version not in VERSIONS:
        yield f"cluster_tls_minimum is {version!r}: use {' or '.join(VERSIONS)}"
    if not isinstance(suites, list):
        yield "cluster_tls_cipher_suites is no list: give the names of cipher suites as one"
        return
    for suite in suites:
        if suite not in SUITES:
            yield f"cluster_tls_cipher_suites: {suite} is no strong cipher suite of TLS 1.2: use {', '.join(SUITES)}"
    if suites and version == "VersionTLS13":
        yield (
            "cluster_tls_cipher_suites: TLS 1.3 leaves no choice: leave them out,"
            " or set cluster_tls_minimum to VersionTLS12"
        )
    if suites and not set(suites) & set(HTTP2):
        yield f"cluster_tls_cipher_suites: HTTP/2 needs {' or '.join(HTTP2)}: add one"


def _pod_security(wanted: Any) -> Iterator[str]:
    if not isinstance(wanted, Mapping):
        yield "cluster_pod_security is no mapping: give enforce, audit, warn a level each"
        return
    for name, value in wanted.items():
        if name not in (*MODES, "exempt"):
            yield f"cluster_pod_security.{name} is unknown: use {', '.join(MODES)} or exempt"
        elif name in MODES and value not in LEVELS:
            yield f"cluster_pod_security.{name} is {value!r}: use {', '.join(LEVELS)}"
        elif name == "exempt" and not isinstance(value, list):
            yield "cluster_pod_security.exempt is no list: give the names of namespaces as one"


def _limits(limits: Any) -> Iterator[str]:
    if not isinstance(limits, list):
        yield "cluster_event_rate_limits is no list: give one limit for each type"
        return
    for place, limit in enumerate(limits):
        where = f"cluster_event_rate_limits[{place}]"
        if not isinstance(limit, Mapping) or limit.get("type") not in LIMITS:
            yield f"{where} has no known type: use {', '.join(LIMITS)}"
            continue
        missing = [name for name in NUMBERS[:2] if name not in limit]
        wrong = [name for name in NUMBERS if name in limit and not _positive(limit[name])]
        yield from (f"{where} has no {name}: add it" for name in missing)
        yield from (f"{where}.{name} is {limit[name]!r}: use a whole number above 0" for name in wrong)


def _positive(value: Any) -> bool:
    # Ansible's own whole numbers are of a class below int
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _plugins(plugins: Any) -> Iterator[str]:
    if not isinstance(plugins, list):
        yield "cluster_admission_plugins is no list: give the names of plugins as one"
    elif "EventRateLimit" in plugins:
        yield "cluster_admission_plugins: EventRateLimit needs limits: leave it out, and set cluster_event_rate_limits"


def _flags(flags: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
    for flag in sorted(flags.keys() & made.keys()):
        yield f"cluster_apiserver_extra_args: {flag} also follows from the variables of hardening: use one of both"
    if "authentication-config" in made:
        for flag in sorted(flags):
            if flag == "anonymous-auth" or flag.startswith("oidc-"):
                yield (
                    f"cluster_apiserver_extra_args: {flag} and cluster_anonymous_health_only exclude each other"
                    " (authentication-config): use one of both"
                )


class FilterModule:
    """What Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"hardening_mistakes": hardening_mistakes}
