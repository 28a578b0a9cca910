"""How far training is, for whoever waits: a bar on a terminal, a line that changes in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from krogh.lab.training import Progress

Show = Callable[[Progress], None]
LATER_SECONDS = 3.0  # after which a display begins that nobody asked for
NOTEBOOK_SECONDS = 0.3  # between two changes of a notebook's line


@contextmanager
def showing(progress: bool | Show | None, name: str) -> Iterator[Show]:
    """What is to be told how far a run in Python is.

    A function gets every `Progress` itself; True shows it at once and everywhere, False nowhere, and None after a few
    seconds on a terminal or in a notebook: a script whose output goes elsewhere stays silent.
    """
    if callable(progress):
        yield progress
        return
    console, notebook = Console(stderr=True), in_notebook()
    if progress is False or (progress is None and not (notebook or console.is_terminal)):
        yield lambda state: None
        return
    display = NotebookLine(name) if notebook else Display(console, name)
    with display if progress else Later(display) as shown:
        yield shown.show


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, whose front end renders what is displayed."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class Display:
    """A progress bar on a terminal; a line now and then elsewhere."""

    def __init__(self, console: Console, name: str):
        self.console, self.name = console, name
        self._bars = Bars(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._said = time.monotonic()

    def __enter__(self) -> Display:
        self._bars.start()
        self._task = self._bars.add_task(self.name, total=None, state="planning")
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, progress: Progress) -> None:
        self.tell(progress.done, progress.total, in_words(progress))

    def tell(self, done: int, total: int | None, state: str, *, now: bool = False) -> None:
        """How many are done, and what is under way; `now` says so at once where there is no bar."""
        assert self._task is not None
        self._bars.update(self._task, total=total, completed=done, state=escape(state))
        if not self.console.is_terminal and (now or time.monotonic() - self._said > 15):
            self._said = time.monotonic()
            count = "" if total is None else f"  {done}/{total}"
            self.console.print(f"{escape(self.name)}{count}  {escape(state)}", highlight=False, soft_wrap=True)


def time_left(seconds: float | None) -> str:
    """An estimate at the end of a line; nothing if there is none."""
    if seconds is None:
        return ""
    return f" · {seconds:.0f} s left" if seconds < 120 else f" · {seconds / 60:.0f} min left"


def in_words(progress: Progress) -> str:
    """Converged, diverged, speed and time left, in a few words."""
    wait = time_left(progress.seconds_left)
    diverged = f" · {progress.diverged:,} diverged" if progress.diverged else ""
    return f"{progress.converged:,} converged{diverged} · {progress.steps_per_second:,.0f} steps/s{wait}"


class NotebookLine:
    """One line of a notebook's output, rewritten in place."""

    def __init__(self, name: str):
        self.name = name
        self._begun = self._said = time.monotonic()
        self._state: Progress | None = None

    def __enter__(self) -> NotebookLine:
        from IPython.display import display

        self._handle: Any = display(self._line("planning"), raw=True, display_id=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self._state is not None:
            self._write(self._state)

    def show(self, progress: Progress) -> None:
        self._state = progress
        if time.monotonic() - self._said > NOTEBOOK_SECONDS:
            self._write(progress)

    def _write(self, progress: Progress) -> None:
        self._said = time.monotonic()
        filled = round(24 * progress.done / max(progress.total, 1))
        bar = "━" * filled + "╌" * (24 - filled)
        self._handle.update(self._line(f"{bar}  {progress.done}/{progress.total}  {in_words(progress)}"), raw=True)

    def _line(self, state: str) -> dict[str, str]:
        return {"text/plain": f"{self.name}  {state}  {time.monotonic() - self._begun:.0f} s"}


class Later:
    """A display that begins when the work has taken some seconds, also where nothing has been reported by then."""

    def __init__(self, display: Display | NotebookLine, seconds: float = LATER_SECONDS):
        self._display, self._lock = display, threading.Lock()
        self._timer = threading.Timer(seconds, self._begin)
        self._timer.daemon = True
        self._latest: Progress | None = None
        self._begun = self._ended = False

    def __enter__(self) -> Later:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended = True
            self._timer.cancel()
            if self._begun:
                self._display.__exit__()

    def show(self, progress: Progress) -> None:
        with self._lock:
            self._latest = progress
            if self._begun:
                self._display.show(progress)

    def _begin(self) -> None:
        with self._lock:
            if self._ended:
                return
            self._display.__enter__()
            self._begun = True
            if self._latest is not None:
                self._display.show(self._latest)
