"""Python that runs a module of Ansible's from its input, in a process that begins with what modules import.

A module brings all that it imports, as sources that are compiled each time, and a Python starts for it: more than half
of what it takes. Here both come from one server for the tests of a process, whose children are the modules: each with
the files, the environment, the folder and the umask of the Python that stands in for it, which ends as the child does.

    module_python.py SOCKET             the one that stands in
    module_python.py SOCKET LIBRARY     the server; LIBRARY has Ansible's package

SOCKET is in a folder of its own. The server ends with its input. The folder goes with it, and the modules that still
run.
"""

import marshal
import os
import sys

STANDARD = 3  # input, output and errors
LOADED = (
    *("ansible.module_utils.basic", "ansible.module_utils.common.arg_spec", "ansible.module_utils.common.parameters"),
    *("ansible.module_utils.common.file", "ansible.module_utils.common.text.converters", "ansible.module_utils.urls"),
    *("base64", "glob", "grp", "pwd", "resource", "runpy", "shlex", "shutil", "tempfile", "zipfile", "zipimport"),
)


def stand_in(path: str) -> int:
    """Have the server run what comes from this input; return its exit status."""
    import _socket  # without what `socket` imports: this is started for each module

    here = marshal.dumps((dict(os.environb), os.getcwdb(), own_umask()))
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(path)
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in range(STANDARD))
    server.sendmsg([len(here).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    server.sendall(here)
    status = server.recv(4)
    if not status:
        sys.exit(f"the server of modules at {path} has ended")
    return int.from_bytes(status, "big")


def own_umask() -> int:
    """Return this process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def serve(path: str, library: str) -> None:
    """Load what modules import, then run each in a child, until the input ends."""
    import selectors
    import signal
    import socket
    from importlib import import_module

    sys.path.append(library)
    for name in LOADED:
        import_module(name)
    sys.path.remove(library)
    del sys.modules["ansible"]  # the module brings its own, with the module itself
    events = selectors.DefaultSelector()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        events.register(listening, selectors.EVENT_READ)
        events.register(0, selectors.EVENT_READ)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            for key, _ in events.select():
                if key.fileobj == 0:
                    os.unlink(path)
                    os.rmdir(os.path.dirname(path))
                    for process in {other.data[0] for other in events.get_map().values() if other.data}:
                        os.kill(process, signal.SIGKILL)
                    return
                if key.fileobj is listening:
                    client, _address = listening.accept()
                    process = begun(client)
                    ended = os.pidfd_open(process)
                    events.register(ended, selectors.EVENT_READ, (process, ended, client))
                    events.register(client, selectors.EVENT_READ, (process, ended, client))
                    continue
                process, ended, client = key.data
                if key.fileobj is client:  # the one that stood in was ended
                    os.kill(process, signal.SIGKILL)
                if ended in events.get_map():
                    events.unregister(ended)
                    events.unregister(client)
                    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
                    answer(client, status if status >= 0 else 128 - status)
                    os.close(ended)


def answer(client, status: int) -> None:  # type: ignore[no-untyped-def] # a socket, which only the server imports
    """Tell the one that stands in how its module ended, if it is still there."""
    with client:
        try:
            client.sendall(status.to_bytes(4, "big"))
        except OSError:
            return


def begun(client) -> int:  # type: ignore[no-untyped-def]
    """Begin what a client stands in for, in a child; return its process id."""
    import socket

    head, files, _flags, _address = socket.recv_fds(client, 4, STANDARD)
    body = b""
    while len(body) < int.from_bytes(head, "big"):
        body += client.recv(65536)
    process = os.fork()
    if process == 0:
        client.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        be_module(*marshal.loads(body))  # noqa: S302 - from this user, by a folder of its own
    for file in files:
        os.close(file)
    return process


def be_module(environment: "dict[bytes, bytes]", folder: bytes, umask: int) -> None:
    """Be the module that comes from the input, and end as Python does."""
    import atexit
    import traceback

    os.environb.clear()
    os.environb.update(environment)
    os.chdir(folder)
    os.umask(umask)
    sys.argv = [""]  # as where Python itself reads its input
    status: object = 0
    try:
        exec(compile(sys.stdin.buffer.read(), "<stdin>", "exec"), {"__name__": "__main__"})  # noqa: S102 - Ansible's own
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 - shown, as Python does
        traceback.print_exc()
        status = 1
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)  # noqa: T201 - as Python does
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(status or 0) & 0xFF)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        serve(*sys.argv[1:])
    else:
        sys.exit(stand_in(sys.argv[1]))
