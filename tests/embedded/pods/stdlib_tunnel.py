"""A machine's SSH port through the Kubernetes API, with Python's own library alone, for images that have no more.

`python3 stdlib_tunnel.py NAMESPACE INSTANCE PORT` is an SSH ProxyCommand. It runs in a pod, as the pod's account.
"""

import base64
import os
import select
import socket
import ssl
import sys

FOLDER = os.environ["ACCOUNT"]


def connected(path: str) -> ssl.SSLSocket:
    """Open a WebSocket at a path of the API (RFC 6455)."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    context = ssl.create_default_context(cafile=f"{FOLDER}/ca.crt")
    made = context.wrap_socket(socket.create_connection((host, int(port)), timeout=30), server_hostname=host)
    with open(f"{FOLDER}/token", encoding="ascii") as file:
        token = file.read()
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}:{port}",
        f"Authorization: Bearer {token}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Protocol: plain.kubevirt.io",
        f"Sec-WebSocket-Key: {key}",
    ]
    made.sendall("\r\n".join([*lines, "", ""]).encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += made.recv(1) or sys.exit(f"the API hung up: {head!r}")
    if b" 101 " not in head.partition(b"\r\n")[0]:
        sys.exit(head.decode() + made.recv(4096).decode())
    return made


def send(tunnel: ssl.SSLSocket, content: bytes) -> None:
    """Send one binary message, masked with zeros."""
    size = len(content)
    extended = b"" if size < 126 else size.to_bytes(2, "big")
    tunnel.sendall(bytes([0x82, 0x80 | (size if size < 126 else 126)]) + extended + bytes(4) + content)


def exactly(tunnel: ssl.SSLSocket, size: int) -> bytes:
    """Read so many bytes; end when there are no more."""
    got = b""
    while len(got) < size:
        got += tunnel.recv(size - len(got)) or sys.exit(0)
    return got


def receive(tunnel: ssl.SSLSocket) -> bytes:
    """Read one frame's content; end at the frame that closes."""
    first, size = exactly(tunnel, 2)
    if first & 0x0F == 8:
        sys.exit(0)
    if size >= 126:
        size = int.from_bytes(exactly(tunnel, 2 if size == 126 else 8), "big")
    return exactly(tunnel, size)


def main(namespace: str, instance: str, port: str) -> None:
    """Carry bytes both ways until one side ends."""
    api = f"/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances"
    tunnel = connected(f"{api}/{instance}/portforward/{port}/tcp")
    while True:
        ready = [tunnel.fileno()] if tunnel.pending() else select.select([tunnel.fileno(), 0], [], [])[0]
        if tunnel.fileno() in ready:
            os.write(1, receive(tunnel))
        elif content := os.read(0, 60000):
            send(tunnel, content)
        else:
            return


main(*sys.argv[1:])
