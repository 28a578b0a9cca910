"""Ctrl-C, SIGTERM (by which a scheduler takes a machine back) and SIGHUP (a terminal that is gone): the end comes soon.

The first one is a `KeyboardInterrupt`, which leaves a study that can be resumed. Python raises it only between two
instructions of its own: a compiled computation in the main thread would hold it up for as long as it takes. So a
thread, which the system tells of the signal directly, ends the process after `GRACE_SECONDS`; and at once when asked
a second time. Whatever is on disk then is whole (`krogh.files`).

Python also drops what is raised while it collects garbage (JAX has it call a function then) or finishes objects, with
no more than a note to `sys.unraisablehook`. And a compiled library that is being imported may take its own failure
badly. So an interruption that was dropped, or that comes during an import, is raised a moment later.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from types import FrameType

INTERRUPTED = 130
GRACE_SECONDS = 4.5
ONE_REQUEST_SECONDS = 0.5
"""Signals that come within this time ask once: `timeout` and schedulers tell a process, and then its group."""
MOMENT_SECONDS = 0.05
AFTERWARDS_SECONDS = 0.5
_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class _Interruption:
    """The one `KeyboardInterrupt` that the first signal becomes."""

    def __init__(self) -> None:
        self.due = True  # nobody has seen it yet
        self.postponed = False  # it is to be raised a moment later

    def hear(self, _: int, frame: FrameType | None) -> None:
        """Raise it, if it is due; what comes after it is heard by the thread alone, and breaks nothing it began."""
        if self.due:
            self.postponed = _importing(frame)
            if not self.postponed:
                self.due = False
                raise KeyboardInterrupt

    def drop(self) -> None:
        """Nobody has seen it."""
        self.due = self.postponed = True


def watch() -> None:
    """From now on, end soon after the first of the signals, and at once after the second."""
    if threading.current_thread() is not threading.main_thread():
        return  # only there can signals be watched
    ear, mouth = socket.socketpair()
    mouth.setblocking(False)
    interruption, said = _Interruption(), sys.unraisablehook
    sys.unraisablehook = lambda it: interruption.drop() if it.exc_type is KeyboardInterrupt else said(it)
    for number in _SIGNALS:
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` stays what it is
            signal.signal(number, interruption.hear)
    signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(interruption, ear, mouth), daemon=True).start()


def say_so(what: str = "what was finished is kept") -> None:
    """One line about the end."""
    with contextlib.suppress(OSError, ValueError):
        print(f"krogh: interrupted; {what}", file=sys.stderr, flush=True)


def leave(code: int = INTERRUPTED) -> None:
    """End the process without waiting for what still computes."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def leave_with_main_thread() -> None:
    """In a script: once it has ended by an interruption, the process ends too, without waiting for what computes.

    A program of XLA's that runs, or is compiled, would keep Python from ending. Whoever catches the interruption goes
    on as before, and so does a prompt or a notebook.
    """

    def follow() -> None:
        threading.main_thread().join()
        time.sleep(AFTERWARDS_SECONDS)  # what the script itself does at its end
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            leave()

    if not hasattr(sys, "ps1"):
        threading.Thread(target=follow, daemon=True).start()


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _listen(interruption: _Interruption, ear: socket.socket, mouth: socket.socket) -> None:
    """Wait for the first signal, then for a second one or the end of the grace; `mouth` is kept open by being here."""
    while ear.recv(1)[0] not in _SIGNALS:
        pass
    begun, own = time.monotonic(), 0  # signals that this thread has sent and not heard yet
    ear.settimeout(MOMENT_SECONDS)
    while time.monotonic() - begun < GRACE_SECONDS:
        try:
            heard = ear.recv(1)[0]
        except TimeoutError:
            if interruption.postponed and not own:
                own += 1
                _wake_main_thread()
            continue
        if heard in _SIGNALS and own:
            own -= 1
        elif heard in _SIGNALS and time.monotonic() - begun > ONE_REQUEST_SECONDS:
            break
    say_so("ended at once; what was finished in the last seconds may not be kept")
    leave()


def _wake_main_thread() -> None:
    """Have a signal heard there, also where it waits for something."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()
