"""A machine's port through the API: bytes both ways, and which end, refusal or loss is which."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
import yaml
from aiohttp import web

from harness.embedded.subresources import errors
from harness.embedded.subresources.errors import StatusError
from harness.embedded.subresources.portforward import Dropping, OpenTunnels, Port, Stream, dial
from harness.errors import BadInput
from harness.infra.host import pki
from harness.kube.client import ApiFailure, Unreachable
from harness.machines.reach.portforward import Cut, End, bridge, forwarding, open_tunnel, refused_inside
from harness.machines.reach.portforward import Tunnels as Ways

ADDRESS = "10.9.9.9"
Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Api:
    """An API server with one machine behind its portforward subresource, whose ports are this host's."""

    answering: Answering | None = None
    drop_after: int | None = None
    asked: list[web.Request] = field(default_factory=list)
    tunnels: OpenTunnels = field(default_factory=OpenTunnels)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    port: int = 0
    tls: ssl.SSLContext | None = None
    authority: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request)
        if self.answering is not None:
            return await self.answering(request)
        try:
            reached: Stream = await dial("127.0.0.1", request.match_info["port"], "tcp")
        except StatusError as refused:
            return web.json_response(refused.status, status=refused.code)
        assert isinstance(reached, Port)
        stream = reached if self.drop_after is None else Dropping(reached, self.drop_after)
        return await self.tunnels.carry(request, stream)

    def run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        app = web.Application()
        group = "/apis/subresources.kubevirt.io/v1/namespaces/cells/virtualmachineinstances/cp-0/portforward"
        app.router.add_get(group + "/{port}/tcp", self.answer)
        runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
        self.loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self.tls)
        self.loop.run_until_complete(site.start())
        self.port = runner.addresses[0][1]
        started.set()
        self.loop.run_forever()
        self.loop.run_until_complete(runner.cleanup())
        self.loop.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pki")
    pki.ensure(folder, addresses=("127.0.0.1",), names=("x",), node="n")
    return folder


@pytest.fixture
def api(certificates: Path) -> Iterator[Api]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "kube-apiserver.crt", certificates / "kube-apiserver.key")
    authority = base64.b64encode((certificates / "ca.crt").read_bytes()).decode()
    made, started = Api(tls=context, authority=authority), threading.Event()
    thread = threading.Thread(target=made.run, args=(started,))
    thread.start()
    started.wait()
    yield made
    made.loop.call_soon_threadsafe(made.tunnels.cut)
    made.loop.call_soon_threadsafe(made.loop.stop)
    thread.join()


@pytest.fixture
def ways(api: Api, tmp_path: Path) -> Ways:
    cluster = {"server": f"https://127.0.0.1:{api.port}", "certificate-authority-data": api.authority}
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "the-token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    made = Ways(path, None, "cells", {ADDRESS: "cp-0"}, tmp_path / "tunnels.log")
    made.save(tmp_path / "tunnels.json")
    return Ways.load(tmp_path / "tunnels.json")


@dataclass
class Machine:
    """A machine's port, on this host."""

    listening: socket.socket
    stack: ExitStack

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    def accept(self) -> socket.socket:
        return self.stack.enter_context(self.listening.accept()[0])


@pytest.fixture
def machine() -> Iterator[Machine]:
    with ExitStack() as stack:
        yield Machine(stack.enter_context(socket.create_server(("127.0.0.1", 0))), stack)


@dataclass
class Ours:
    """Our side of a bridge, as ssh has it: two pipes; and the thread that carries."""

    to_machine: int
    from_machine: int
    theirs: tuple[int, ...]
    thread: threading.Thread
    ended: list[Any]

    def read(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (more := os.read(self.from_machine, size - len(found))):
            found += more
        return found

    def end(self) -> Any:
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.ended[0]


@pytest.fixture
def carried(ways: Ways) -> Iterator[Callable[[int], Ours]]:
    """Carry between two pipes and a machine's port on a thread, as the ProxyCommand's process does."""
    made: list[Ours] = []

    def carry(port: int) -> Ours:
        made.append(carrying(ways, port))
        return made[-1]

    yield carry
    for ours in made:
        for descriptor in (ours.to_machine, ours.from_machine, *ours.theirs):
            with suppress(OSError):
                os.close(descriptor)
        ours.thread.join(20)


def carrying(ways: Ways, port: int) -> Ours:
    source, to_machine = os.pipe()
    from_machine, sink = os.pipe()
    tunnel = open_tunnel(ways.cluster(), ways.namespace, ways.instances[ADDRESS], port)
    ended: list[Any] = []

    def carry() -> None:
        try:
            ended.append(bridge(tunnel, source, sink))
        except Cut as cut:
            ended.append(cut)
        finally:
            os.close(sink)

    thread = threading.Thread(target=carry)
    thread.start()
    return Ours(to_machine, from_machine, (source,), thread, ended)


def test_bytes_go_both_ways_at_once(carried: Callable[[int], Ours], machine: Machine) -> None:
    ours = carried(machine.port)
    guest = machine.accept()
    sent, answer = os.urandom(1 << 20), os.urandom(1 << 20)
    threading.Thread(target=guest.sendall, args=(answer,)).start()
    threading.Thread(target=lambda: os.write(ours.to_machine, sent)).start()

    got = b""
    while len(got) < len(sent):
        got += guest.recv(1 << 16)
    assert ours.read(len(answer)) == answer
    assert got == sent
    os.close(ours.to_machine)
    assert ours.end() is End.OURS
    assert guest.recv(1) == b""


def test_it_logs_in_and_asks_for_the_subprotocol(ways: Ways, api: Api, machine: Machine) -> None:
    open_tunnel(ways.cluster(), "cells", "cp-0", machine.port).close()

    headers = api.asked[0].headers
    assert headers["Authorization"] == "Bearer the-token"
    assert headers["Sec-WebSocket-Protocol"] == "plain.kubevirt.io"


def test_it_ends_with_whoever_reads_it(carried: Callable[[int], Ours], machine: Machine) -> None:
    ours = carried(machine.port)
    os.close(ours.from_machine)
    assert ours.end() is End.OURS


def test_a_connection_that_breaks_off_is_a_cut(carried: Callable[[int], Ours], api: Api, machine: Machine) -> None:
    ours = carried(machine.port)
    machine.accept()
    api.loop.call_soon_threadsafe(api.tunnels.cut)

    found = ours.end()
    assert isinstance(found, Cut)
    assert "was lost" in found.summary


def test_a_cut_after_so_many_bytes(carried: Callable[[int], Ours], api: Api, machine: Machine) -> None:
    api.drop_after = 10
    ours = carried(machine.port)
    guest = machine.accept()
    guest.sendall(b"0123456789")
    assert ours.read(10) == b"0123456789"
    guest.sendall(b"one more")
    assert isinstance(ours.end(), Cut)


def test_what_has_gone_on_our_side_at_the_same_time_is_no_cut(
    carried: Callable[[int], Ours], api: Api, machine: Machine
) -> None:
    ours = carried(machine.port)
    machine.accept()
    os.close(ours.to_machine)
    api.loop.call_soon_threadsafe(api.tunnels.cut)
    assert ours.end() is End.OURS


def test_the_machines_refusal_is_told_from_one_on_the_way(ways: Ways, api: Api, machine: Machine) -> None:
    cluster, port = ways.cluster(), machine.port
    machine.listening.close()
    with pytest.raises(ApiFailure, match=r"dialing VM: dial tcp .*connection refused") as inside:
        ways.open(cluster, ADDRESS, port)
    assert (inside.value.code, inside.value.reason, refused_inside(inside.value)) == (500, "InternalError", True)
    assert ways.lost_since(0.0) == []

    async def paused(_: web.Request) -> web.StreamResponse:
        refused = errors.conflict(errors.VMI, "cp-0", "VMI is paused")
        return web.json_response(refused.status, status=refused.code)

    api.answering = paused
    with pytest.raises(ApiFailure, match="VMI is paused"):
        ways.open(cluster, ADDRESS, port)
    (lost,) = ways.lost_since(0.0)
    assert (lost.address, lost.port) == (ADDRESS, port)


def test_nobody_answers(ways: Ways, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    text = path.read_text(encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = yaml.safe_load(text)["clusters"][0]["cluster"]["server"]
    path.write_text(text.replace(server, f"https://127.0.0.1:{port}"), encoding="utf-8")
    with pytest.raises(Unreachable, match=r"portforward/22/tcp: Connection refused$"):
        ways.open(ways.cluster(), ADDRESS, 22)
    assert len(ways.lost_since(0.0)) == 1


def test_an_address_that_is_no_machines(ways: Ways) -> None:
    with pytest.raises(BadInput, match=r"no machine has the address 10\.9\.9\.8"):
        ways.open(ways.cluster(), "10.9.9.8", 22)


def ask(url: str, target: str) -> tuple[socket.socket, bytes]:
    """Ask a proxy for a connection; return it and the first line of the answer."""
    host, port = url.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=20)
    made.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += made.recv(1)
    return made, answer.split(b"\r\n")[0]


def test_programs_that_know_addresses_go_through_a_proxy(ways: Ways, machine: Machine) -> None:
    port = machine.port
    with forwarding(ways) as forwarder:
        client, line = ask(forwarder.url, f"{ADDRESS}:{port}")
        guest = machine.accept()
        client.sendall(b"hello")
        assert guest.recv(5) == b"hello"
        guest.sendall(b"welcome")
        assert client.recv(7) == b"welcome"
        client.close()
        assert guest.recv(1) == b""
        machine.listening.close()
        refused = [ask(forwarder.url, target) for target in (f"{ADDRESS}:{port}", "10.9.9.8:22")]
    assert line == b"HTTP/1.1 200 Connection established"
    assert [one.split(b" ")[1] for _, one in refused] == [b"502", b"403"]
    assert b"connection refused" in refused[0][1]
    for made, _ in refused:
        made.close()


def test_a_proxy_command_keeps_no_keys_on_disk_and_ends_with_its_pipes(
    ways: Ways, machine: Machine, tmp_path: Path
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    words = [sys.executable, "-P", "-m", "harness.machines.reach.portforward", str(tmp_path / "tunnels.json"), ADDRESS]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with Popen([*words, str(machine.port)], stdin=PIPE, stdout=PIPE, env=environment) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        machine.accept().sendall(b"hello")
        assert child.stdout.read(5) == b"hello"
        assert list(folder.iterdir()) == []
        child.stdin.close()
        assert child.wait(20) == 0
    assert ways.lost_since(0.0) == []
