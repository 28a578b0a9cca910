"""Ctrl-C and SIGTERM (by which a scheduler takes a machine back): the end comes soon, wherever a command stands.

The first one is a `KeyboardInterrupt`, which leaves a study that can be resumed. Python raises it only between two
instructions of its own: a compiled computation in the main thread would hold it up for as long as it takes. So a
thread, which the system tells of the signal directly, ends the process after `GRACE_SECONDS`; and at once when asked
a second time. Whatever is on disk then is whole (`krogh.files`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading

INTERRUPTED = 130
GRACE_SECONDS = 4.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def watch() -> None:
    """From now on, end soon after the first of the signals, and at once after the second."""
    if threading.current_thread() is not threading.main_thread():
        return  # only there can signals be watched
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(ear, mouth), daemon=True).start()


def say_so() -> None:
    """One line about the end."""
    with contextlib.suppress(OSError, ValueError):
        print("krogh: interrupted; what was finished is kept", file=sys.stderr, flush=True)


def leave(code: int = INTERRUPTED) -> None:
    """End the process without waiting for what still computes."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _interrupt(*_: object) -> None:
    for number in _SIGNALS:  # the next one is heard by the thread alone: it must not break what this one begins
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def _listen(ear: socket.socket, mouth: socket.socket) -> None:
    """Wait for the first signal, then for a second one or the end of the grace; `mouth` is kept open by being here."""
    while True:
        heard = ear.recv(1)
        if heard and heard[0] in _SIGNALS:
            break
    ear.settimeout(GRACE_SECONDS)
    with contextlib.suppress(TimeoutError):
        while ear.recv(1)[0] not in _SIGNALS:
            pass
    say_so()
    leave()
