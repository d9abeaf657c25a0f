"""How one Kubernetes API is reached: its address, TLS, proxy and login, decided once for requests and tunnels alike.

Certificates and keys are read once and lie in memory: no file of them has to be kept, private keys least of all.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from harness.http_client import TimedAnswer
from harness.kube.credentials import ApiLogin, ClientCertificate, Headers
from harness.kube.kubeconfig import Files, KubeContext, material, read_kubeconfig, unusable
from harness.kube.proxies import Proxy, by_socks5, proxy_of

CONNECTIONS = 32  # that are kept open for one API
AGENT = "vmatrix"
DEFAULT_PORTS = {"http": 80, "https": 443}


def open_kubeconfig(files: Files, context: str | None) -> ApiConnection:
    """Return how the API of a kubeconfig is reached; nothing is connected to yet.

    Args:
        context: the context in it; None for its current one.

    Raises:
        BadInput: a file is missing, malformed, or has no such context; its credential program gives nothing.
    """
    kubeconfig = read_kubeconfig(files, context)
    proxy = proxy_of(kubeconfig, os.environ)
    address = urlsplit(str(kubeconfig.cluster.content["server"]))
    server = urlunsplit((address.scheme, address.netloc, address.path.rstrip("/"), "", ""))
    if proxy is not None and proxy.scheme == "https" and not kubeconfig.secure:
        hint = "use a server of https://, or a proxy of http://"
        raise unusable(kubeconfig.file, f"the proxy {proxy.url} does not lead to a server of http://", hint)
    name = str(kubeconfig.cluster.content["tls-server-name"])
    return ApiConnection(server, _tls_of(kubeconfig), name, proxy, ApiLogin(kubeconfig))


def _tls_of(kubeconfig: KubeContext) -> ssl.SSLContext:
    """Return how a server proves who it is: by the cluster's authorities alone, else by this host's."""
    if not kubeconfig.secure:  # nobody proves anything, so this host's authorities need not be read
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    settings = kubeconfig.cluster.content
    authorities = material(kubeconfig.cluster, "certificate-authority")
    named = settings["certificate-authority"] or settings["certificate-authority-data"]
    if not named:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            key = "certificate-authority" if settings["certificate-authority"] else "certificate-authority-data"
            hint = "the cluster's owner has the certificate of its authority"
            raise kubeconfig.cluster.wrong(key, "it is not a certificate in PEM", hint) from error
    # As for kubectl: whoever is in the kubeconfig is trusted, also where somebody else has signed it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if settings["insecure-skip-tls-verify"]:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def show(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Show a client's certificate to whoever is connected to from now on.

    Raises:
        BadInput: it or its key cannot be used.
    """
    with _memory(certificate.chain) as chain, _memory(certificate.key) as key:
        try:
            context.load_cert_chain(chain, key, password=lambda: b"")  # else a terminal is asked for one
        except (ssl.SSLError, ValueError) as error:
            raise certificate.wrong() from error


@contextmanager
def _memory(content: bytes) -> Iterator[str]:
    """Give the path of a file with a content that is on no disk, and that ends with this process at the latest."""
    handle = os.memfd_create("vmatrix")
    try:
        os.write(handle, content)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


@dataclass(frozen=True)
class ApiRequest:
    """A request. path: with its query.  body: b"" for none.  timeouts: of the connection and of silence, in seconds."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    timeouts: tuple[float, float] = (5.0, 30.0)


class ApiConnection:
    """How one API is reached; thread-safe."""

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | None = None,
        tls_server_name: str = "",
        proxy: Proxy | None = None,
        login: ApiLogin | None = None,
    ) -> None:
        """Take what is decided.

        Args:
            server: URL, with the path that all paths of the API are below.
            tls: how it proves who it is; without it by this host's authorities.
            tls_server_name: the name that its certificate has; "": that of the URL.
            proxy: that leads to it.
            login: what requests carry; nobody logs in without it.
        """
        self.server = server
        self._tls = tls or ssl.create_default_context()
        self._proxy = proxy
        self._login = login or ApiLogin()
        self._shown: ClientCertificate | None = None
        self._showing = threading.Lock()
        self._show()
        self._pools = self._pooled(tls_server_name)

    def send(self, request: ApiRequest) -> urllib3.BaseHTTPResponse:
        """Send a request, once, and return the answer, of which only the headers are read; no redirection is followed.

        Raises:
            urllib3.exceptions.HTTPError, OSError: nobody answered.  BadInput: a credential program gives nothing.
        """
        headers = urllib3.HTTPHeaderDict({"User-Agent": AGENT, **request.headers})
        for name, value in self.headers():
            headers.add(name, value.encode().decode("latin-1"))  # as http.client has them; sent as UTF-8
        connect, read = request.timeouts
        answer = self._pools.request(
            request.method,
            f"{self.server}{request.path}",
            body=request.body or None,
            headers=headers,
            timeout=urllib3.Timeout(connect=connect, read=read),
            preload_content=False,
            redirect=False,
            retries=False,
        )
        self.heed(answer.status)
        return answer

    def headers(self) -> Headers:
        """Return what requests and tunnels carry to log in; BadInput when a credential program gives nothing."""
        headers = self._login.headers()
        if self._show():
            self._pools.clear()
        return headers

    def heed(self, status: int) -> None:
        """Have the login had anew where the API does not know who asks (401)."""
        if status == HTTPStatus.UNAUTHORIZED:
            self._login.refused()

    def dial(self, seconds: float) -> socket.socket:
        """Connect for something other than requests, by the proxy and with TLS as they do.

        Args:
            seconds: the longest silence while it is opened, and on the socket afterwards.

        Raises:
            urllib3.exceptions.HTTPError, OSError: nobody answered.
        """
        parts = urlsplit(self.server)
        pool = self._pools.connection_from_url(self.server)
        connection = cast(HTTPConnection, pool._new_conn())  # who else makes one follows the same rules for each
        connection.timeout = seconds
        if isinstance(self._pools, _ByProxy):
            port = parts.port or DEFAULT_PORTS[parts.scheme]
            scheme = "https" if self._proxy is not None and self._proxy.scheme == "https" else "http"
            connection.set_tunnel(str(parts.hostname), port, self._pools.proxy_headers, scheme)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connected = cast(socket.socket, connection.sock)
        connected.settimeout(seconds)
        return connected

    def _show(self) -> bool:
        """Show the login's certificate from now on; tell whether it is another one."""
        with self._showing:
            certificate = self._login.certificate
            if certificate is None or certificate is self._shown:
                return False
            show(self._tls, certificate)
            self._shown = certificate
            return True

    def _pooled(self, tls_server_name: str) -> urllib3.PoolManager:
        name = {"server_hostname": tls_server_name} if tls_server_name else {}
        settings: dict[str, Any] = {"maxsize": CONNECTIONS, "ssl_context": self._tls, **name}
        proxy, socks = self._proxy, None
        if proxy is None or proxy.scheme == "socks5":
            pools, socks = urllib3.PoolManager(**settings), proxy
        else:
            login = urllib3.make_headers(proxy_basic_auth=":".join(proxy.login)) if proxy.login is not None else {}
            pools = _ByProxy(proxy.url, proxy_headers=login, proxy_ssl_context=self._tls, **settings)
        kinds = pools.pool_classes_by_scheme
        pools.pool_classes_by_scheme = {scheme: _timed(kind, socks) for scheme, kind in kinds.items()}
        return pools


class _ByProxy(urllib3.ProxyManager):
    """Sends what a request carries twice under one name twice, to a server of http:// too."""

    def _set_proxy_headers(self, url: str, headers: Mapping[str, str] | None = None) -> Mapping[str, str]:
        made = urllib3.HTTPHeaderDict(headers)
        made.setdefault("Accept", "*/*")
        made.setdefault("Host", urlsplit(url).netloc)
        return made


def _timed(pool: Any, socks: Proxy | None) -> Any:
    """Return a kind of pool whose connections read answers in time, and go by a SOCKS proxy if there is one."""
    plain = pool.ConnectionCls

    def connect(connection: Any) -> socket.socket:
        if socks is None:
            return cast(socket.socket, plain._new_conn(connection))
        return _by_socks(connection, socks)

    # under the names that messages have
    made = type(plain.__name__, (plain,), {"response_class": TimedAnswer, "_new_conn": connect})
    return type(pool.__name__, (pool,), {"ConnectionCls": made})


def _by_socks(connection: Any, proxy: Proxy) -> socket.socket:
    """Return a socket that leads to where a connection is to lead; errors are those of urllib3."""
    try:
        connected = socket.create_connection((proxy.host, proxy.port), connection.timeout)
        try:
            by_socks5(connected, proxy, connection.host, connection.port)
        except BaseException:
            connected.close()
            raise
    except TimeoutError as error:
        raise ConnectTimeoutError(connection, f"no answer of the proxy {proxy.url} in time") from error
    except OSError as error:
        raise NewConnectionError(connection, f"{proxy.url}: {error}") from error
    return connected
