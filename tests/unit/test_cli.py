"""How commands end: by signals, with what they started; by output that cannot be written; by errors, told once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Below nohup, the tests and all that they start ignore SIGHUP.
PROGRAM = """\
import signal, sys
from harness import proc
from harness import cli

signal.signal(signal.SIGHUP, signal.SIG_DFL)
with cli.written():
    proc.run(["sh", "-c", "echo $$; exec sleep 600"], timeout=600, on_line=lambda line: print(line, flush=True))
"""
SECONDS = 300  # against hanging


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_a_command_has_started_ends_with_it(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        child = int(command.stdout.readline())
        assert Path(f"/proc/{child}").exists()
        command.send_signal(number)
        assert command.wait(SECONDS) == 128 + number
    assert not Path(f"/proc/{child}").exists()


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    program = (
        "import signal\nfrom harness import cli\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with cli.written():\n    print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
