"""Being asked to end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from halo_cli.signals import Signalled, signals

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_is_an_exception_with_its_exit_code(number: signal.Signals, code: int) -> None:
    """SIGINT is 130, SIGTERM 143; afterwards everything is as it was."""
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGURG)
    before = [signal.getsignal(each) for each in watched]
    with pytest.raises(Signalled) as raised, signals():
        os.kill(os.getpid(), number)
        time.sleep(5)
    assert raised.value.code == code
    assert [signal.getsignal(each) for each in watched] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_no_failure_handler_takes_it() -> None:
    """Code that survives every failure does not survive being asked to end."""
    assert not issubclass(Signalled, Exception)


def test_a_wait_that_did_not_notice_the_signal_is_woken() -> None:
    """A signal that another thread was interrupted by ends the main thread's wait all the same."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    over = threading.Event()

    def strike() -> None:
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        over.wait(10)

    began = time.monotonic()
    with pytest.raises(Signalled), signals():
        threading.Thread(target=strike).start()
        ours.recv(1)
    over.set()
    assert time.monotonic() - began < 5
    ours.close()
    theirs.close()


def test_threads_end_with_the_watch() -> None:
    """Nothing runs on when the watch is over, with or without a signal."""
    with signals():
        assert "halo.signals" in [thread.name for thread in threading.enumerate()]
    with pytest.raises(Signalled), signals():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    assert "halo.signals" not in [thread.name for thread in threading.enumerate()]


def test_the_second_signal_ends_the_process_at_once() -> None:
    """Who hangs while it cleans up is ended by the second Ctrl-C."""
    code = """
import time
from halo_cli.signals import Signalled, signals
with signals():
    try:
        print("ready", flush=True)
        time.sleep(30)
    except Signalled:
        print("cleaning", flush=True)
        time.sleep(30)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "cleaning\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == -signal.SIGINT
    process.stdout.close()
