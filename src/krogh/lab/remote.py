"""Studies at a URL: on object storage or any other place that fsspec reaches (extra `stores`).

A study at a URL is worked on in a *mirror*, a folder of this machine's cache, and everything else of krogh sees that
folder alone. What is at the URL is brought before (`bring_study`), and what appears in the mirror is sent while a study
runs (`sending`) or when a command ends (`at`): whole files, since krogh writes every file under a hidden name and then
renames it. The URL is the study, and the mirror a copy of it; beside its files the mirror remembers which version of
each is at the URL (`.remote.json`). So for each file it is known which side has changed since:

    changed here        sent; a removal is sent when this process saw the file go, after all that was to be sent arrived
    changed there       brought; what was removed there is removed here
    changed on both     the URL's is taken, since all but records and weights is made anew from them, and those are
                        named by their digests and never differ

Nothing is removed at the URL that this process has not brought or sent. Names are not trusted: only files that a study
has (`KINDS`) are brought, checked by their format, never a link, and never to a place outside of the mirror.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from krogh.errors import KroghError, require
from krogh.files import write_json
from krogh.lab.sites import Entry, Site, is_url, mirror_of, mirrors, reached, tidied, writer
from krogh.lab.store import check_file
from krogh.lab.weights import check_weights
from krogh.saying import first_line, say

KINDS = {
    "": ("json", "parquet"),
    "measures": ("parquet",),
    "figures": ("svg", "pdf", "csv", "png"),
    "costs": ("json",),
    "cohorts": ("parquet",),
    "weights": ("safetensors",),
}
"""The files of a study: by folder, the suffixes. Pages are sent as well, and never brought."""
TRAINING = ("cohorts", "weights")
"""The folders that claims, figures and pages do without."""
PAGES = ("index.html", "replay.html")
SUMMARY, STATE, LEASE = "study.json", ".remote.json", ".lease.json"

SWEEP_SECONDS, LEASE_SECONDS, LEASE_LOST = 3.0, 60.0, 200.0
LONGEST_JSON = 1 << 28

_NAME = re.compile(r"[^\x00-\x1f\x7f/\\:.][^\x00-\x1f\x7f/\\:]{0,199}")

Mark = tuple[int, int]
"""A version of a local file: time of its last change in nanoseconds, and size."""


def address(place: Path | str, path: Path) -> str:
    """The URL of a file or folder in the mirror of a URL; nothing for another place."""
    if not is_url(place):
        return ""
    below = path.relative_to(mirror_of(str(place))).as_posix()
    return tidied(str(place)) + ("" if below == "." else f"/{below}")


# --- one study: its mirror, what is there and what is at the URL ------------------------------------------------------


class Mirror:
    """The mirror of one study of a site; `name` is its folder there, empty where the URL is the study's own."""

    def __init__(self, site: Site, name: str):
        self.site, self.name = site, name
        self.folder = site.mirror / name
        self._seen: set[str] = set()  # what is here and there, and may be removed there when it goes here

    def bring(self, entries: Mapping[str, Entry], without: tuple[str, ...] = ()) -> None:
        """Make the mirror what the study is, but for the folders `without` and for what was not sent yet."""
        with self._alone():
            known = self._known()
            if SUMMARY in known and SUMMARY not in entries:
                self._forget()
                known = {}
            there = {n: e for n, e in entries.items() if is_file_of_study(n) and n.partition("/")[0] not in without}
            here = self._here()
            for name in [n for n in known if n not in entries and here.get(n) == _mark(known[n])]:
                (self.folder / name).unlink(missing_ok=True)
                known.pop(name)
            wanted = [name for name, entry in there.items() if self._is_wanted(name, entry, here, known)]
            total = sum(there[name].size for name in wanted)
            if total > 1 << 25:
                say(f"bringing {len(wanted):,} files ({total / 1e6:,.0f} MB) from {self.url}")
            try:
                self._fetch(wanted, there, known)
            finally:
                self._remember(known)

    def watch(self) -> None:
        """From here on, what is both here and there is removed there when it goes here."""
        known = self._known()
        self._seen = {name for name in self._here() if name in known}

    def send(self) -> None:
        """Send what is new here, weights before records and verdicts last; then remove what is gone."""
        with self._alone():
            known, here = self._known(), self._here(pages=True)
            due = sorted((name for name, mark in here.items() if _mark(known.get(name)) != mark), key=_turn)

            def put(name: str) -> None:
                try:
                    arrived = self.site.put(self.folder / name, self._at(name))
                except FileNotFoundError:
                    if (self.folder / name).exists():
                        raise
                    return  # merged meanwhile: the next sweep sees into what
                known[name] = {"here": here[name], "there": arrived.version}
                self._seen.add(name)

            try:
                if SUMMARY in due and SUMMARY not in known:
                    known[SUMMARY] = {"here": (0, 0), "there": self._announce().version}
                for _, names in itertools.groupby(due, key=_turn):
                    self.site.each(put, list(names))
                for name in sorted(n for n in self._seen if n not in here and not (self.folder / n).exists()):
                    self.site.remove(self._at(name))
                    self._seen.discard(name)
                    known.pop(name, None)
            finally:
                if due or len(known) != len(here):
                    self._remember(known)

    def _announce(self) -> Entry:
        """Let the URL hold a study before its records come, and not a complete one before they all have."""
        summary = json.loads((self.folder / SUMMARY).read_bytes())
        return self.site.write(json.dumps({**summary, "status": "running"}).encode(), self._at(SUMMARY))

    def unsent(self) -> int:
        """How many files are not at the URL as they are here."""
        known = self._known()
        return sum(_mark(known.get(name)) != mark for name, mark in self._here(pages=True).items())

    @property
    def url(self) -> str:
        return f"{self.site.url}/{self.name}" if self.name else self.site.url

    # --- which files, and how they differ ---

    def _is_wanted(self, name: str, entry: Entry, here: Mapping[str, Mark], known: Mapping[str, Any]) -> bool:
        """Whether the URL's version is to be brought."""
        mark, memory = here.get(name), known.get(name)
        if mark is None:
            return True
        changed_there = memory is None or memory["there"] != entry.version
        changed_here = _mark(memory) != mark
        named_by_content = name.startswith(("cohorts/", "weights/"))
        return changed_there and not (changed_here and named_by_content and mark[1] == entry.size)

    def _here(self, *, pages: bool = False) -> dict[str, Mark]:
        """The files of the mirror; folders that are written later are looked at first, so that what a listed file
        needs is listed too."""
        found: dict[str, Mark] = {}
        for folder in KINDS:
            place = self.folder / folder
            if place.is_symlink() or not place.is_dir():
                continue
            with os.scandir(place) as items:
                for item in items:
                    name = f"{folder}/{item.name}" if folder else item.name
                    known = is_file_of_study(name) or (pages and name in PAGES)
                    with suppress(FileNotFoundError):
                        if known and item.is_file(follow_symlinks=False):
                            about = item.stat(follow_symlinks=False)
                            found[name] = (about.st_mtime_ns, about.st_size)
        return found

    def _fetch(self, names: list[str], there: Mapping[str, Entry], known: dict[str, Any]) -> None:
        """Bring files to a place aside, check each, and only then let it into the mirror."""
        aside = Path(tempfile.mkdtemp(prefix=".incoming-", dir=mirrors()))
        for left in mirrors().glob(".incoming-*"):  # by a process that was killed
            if time.time() - left.stat().st_mtime > 86_400:
                shutil.rmtree(left, ignore_errors=True)

        def fetch(name: str) -> None:
            path, target = aside / name, self.folder / name
            require(path.resolve().is_relative_to(aside.resolve()), f"{name!r} is no name of a study's file")
            try:
                self.site.get(self._at(name), path)
            except FileNotFoundError:
                if name == SUMMARY:
                    raise
                return  # removed since the listing: merged into another, which the next command sees
            self._check(name, path, there[name])
            inside = target.parent.resolve().is_relative_to(mirrors().resolve())
            require(inside, f"{target.parent} leads out of the mirror by a link; remove it")
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
            about = target.stat()
            known[name] = {"here": (about.st_mtime_ns, about.st_size), "there": there[name].version}

        try:
            self.site.each(fetch, names)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _check(self, name: str, path: Path, entry: Entry) -> None:
        """Refuse a file that is not whole, or not of its format."""
        remedy = "remove it there and run the study again, which restores what it held"
        size, kind = path.stat().st_size, path.suffix
        try:
            if kind == ".json":
                require(size <= LONGEST_JSON, f"it has {size:,} bytes, and {LONGEST_JSON:,} are read")
                require(isinstance(json.loads(path.read_bytes()), dict), "it holds no object")
            else:  # JSON may have been replaced since the listing
                require(size == entry.size, f"{size:,} bytes came of {entry.size:,}")
            if name.startswith("cohorts/"):
                check_file(path)
            elif kind == ".parquet":
                pl.read_parquet_schema(path)
            elif kind == ".safetensors":
                check_weights(path)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, RecursionError) as cause:
            reason = str(cause).partition("\n")[0].replace(str(path), "it").partition("; ")[0]
            raise KroghError(f"{self.url}/{name} is damaged ({reason or type(cause).__name__}); {remedy}") from None

    def _at(self, name: str) -> str:
        return f"{self.name}/{name}" if self.name else name

    # --- what is remembered ---

    def _known(self) -> dict[str, Any]:
        """By file: the mark of the local version that is at the URL, and the URL's word for it."""
        try:
            return dict(json.loads((self.folder / STATE).read_text(encoding="utf-8"))["files"])
        except (OSError, ValueError, TypeError, KeyError):
            return {}

    def _remember(self, known: Mapping[str, Any]) -> None:
        write_json(self.folder / STATE, {"url": self.url, "files": dict(known)})

    def _forget(self) -> None:
        """The study was removed at the URL. Its copy here is no longer the study, and is put aside."""
        aside = Path(tempfile.mkdtemp(prefix=f"removed-{self.folder.name}-", dir=mirrors()))
        for name in (STATE, *self._here(pages=True)):
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).replace(aside / name)
        say(f"there is no study at {self.url} any more; the copy that was here is put aside in {aside}")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Processes of one machine share a mirror: one at a time compares it with the URL."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            import fcntl
        except ImportError:
            yield
            return
        with (self.folder / ".remote.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def is_file_of_study(name: str) -> bool:
    """Whether a name, relative to a study's folder, is one that a study's file may have."""
    folder, slash, last = name.rpartition("/")
    known = folder in KINDS and bool(folder) == bool(slash)  # "/study.json" would lead to the root
    return known and bool(_NAME.fullmatch(last)) and last.rpartition(".")[2] in KINDS[folder]


def _is_study_name(name: str) -> bool:
    return all(_NAME.fullmatch(part) for part in name.split("/")) if name else True


def _mark(memory: Mapping[str, Any] | None) -> Mark | None:
    return None if memory is None else (memory["here"][0], memory["here"][1])


def _turn(name: str) -> int:
    """When a file is sent: a record after its weights, and the summary when all else is there."""
    return {"weights": 0, "cohorts": 1, "claims.json": 3, SUMMARY: 4}.get(name.partition("/")[0], 2)


# --- a study while it runs --------------------------------------------------------------------------------------------


def bring_study(out: Path | str, name: str) -> Path:
    """The folder of a study in `out`; where that is a URL, its mirror, brought up to date."""
    if not is_url(out):
        return Path(out) / name
    site = Site(str(out))
    mirror = Mirror(site, name)
    with reached(site.url):
        mirror.bring(_within(site.listing(name), name))
    return mirror.folder


@contextmanager
def sending(out: Path | str, name: str) -> Iterator[None]:
    """While the block runs, send what the study writes; all of it has arrived when the block has ended.

    What cannot be sent stays in the mirror, which is named; the same command sends it later.
    """
    if not is_url(out):
        yield
        return
    site = Site(str(out))
    mirror = Mirror(site, name)
    mirror.watch()
    lease = Lease(mirror)
    lease.take()
    ended = threading.Event()
    thread = threading.Thread(target=_sweep, args=(mirror, lease, ended), name="krogh-sender", daemon=True)
    thread.start()
    failed = True
    try:
        with named(out):
            yield
        failed = False
    finally:
        ended.set()
        unsent = _send_all([mirror], thread.join)
        lease.release()
        if unsent and failed:
            say(unsent)  # and not instead of what went wrong
    if unsent:
        raise OSError(errno.EIO, unsent)


@contextmanager
def named(place: Path | str) -> Iterator[None]:
    """Errors speak of a URL and not of its mirror."""
    if not is_url(place):
        yield
        return
    url, mirror = tidied(str(place)), str(mirror_of(str(place)))
    try:
        yield
    except KroghError as problem:
        problem.args = (str(problem).replace(mirror, url),)
        raise


def _sweep(mirror: Mirror, lease: Lease, ended: threading.Event) -> None:
    """Send now and then until all has ended; what fails is tried again the next time."""
    cut, busy = False, 0.0
    while not ended.wait(max(SWEEP_SECONDS, 50 * busy)):  # a study of very many files loses 2% to this at most
        begun = time.thread_time()
        try:
            lease.renew()
            mirror.send()
            if cut:
                say(f"{mirror.url} is reached again")
            cut = False
        except Exception as cause:
            if not cut:
                say(f"{mirror.url} is not reached ({first_line(cause)}); the study goes on, and sending is tried again")
            cut = True
        busy = time.thread_time() - begun


def _send_all(studies: Iterable[Mirror], wait: Callable[[], None] = lambda: None) -> str:
    """Send what is left after a wait; returns a line on what could not be sent, or nothing."""
    lines = []
    for mirror in studies:
        try:
            wait()
            mirror.send()
        except BaseException as cause:
            kept = f"{mirror.unsent():,} files were not sent to {mirror.url} ({first_line(cause)})"
            lines.append(f"{kept}; they are kept in {mirror.folder}, and the same command sends them")
            if not isinstance(cause, Exception):  # a second Ctrl-C
                say(lines[-1])
                raise
    return "; ".join(lines)


class Lease:
    """A word at the URL that a study is being written, and by whom: for a warning, not for exclusion.

    Object stores have no locks that all of them share, and clocks differ. Two processes that write one study lose
    nothing (records are files of their own), but may train the same trials twice.
    """

    def __init__(self, mirror: Mirror):
        self._mirror, self._name = mirror, mirror._at(LEASE)
        self._renewed = 0.0

    def take(self) -> None:
        """Warn if another machine holds the lease, and write one's own."""
        with suppress(Exception):
            held = dict(json.loads(self._mirror.site.read(self._name)[:4096]))
            age = time.time() - float(held["time"])
            if held["writer"] != writer() and held.get("mirror") != self._place and abs(age) < LEASE_LOST:
                who = ascii(str(held["writer"]))[:80]
                say(f"{self._mirror.url} is being written by {who} ({age:.0f} s ago): trials may be trained twice")
        with reached(self._mirror.url):  # what cannot be written is refused before anything is trained
            self.renew()

    def renew(self) -> None:
        if time.monotonic() - self._renewed > LEASE_SECONDS or not self._renewed:
            content = {"writer": writer(), "mirror": self._place, "time": time.time()}
            self._mirror.site.write(json.dumps(content).encode(), self._name)
            self._renewed = time.monotonic()

    def release(self) -> None:
        with suppress(Exception):
            if json.loads(self._mirror.site.read(self._name)[:4096])["writer"] == writer():
                self._mirror.site.remove(self._name)

    @property
    def _place(self) -> str:
        """This machine's mirror: its processes have a lock of their own."""
        return hashlib.blake2b(f"{socket.gethostname()}:{self._mirror.folder}".encode(), digest_size=8).hexdigest()


# --- finished studies -------------------------------------------------------------------------------------------------


@contextmanager
def at(place: Path | str, *, without: tuple[str, ...] = ()) -> Iterator[Path]:
    """The folder of the studies at a place; of a URL, a mirror of all of them but for the folders `without`.

    What the block writes into studies, and a page beside them, is sent when it ends well.
    """
    if not is_url(place):
        yield Path(place)
        return
    site = Site(str(place))
    studies = bring_all(site, without)
    with named(place):
        yield site.mirror
    unsent = _send_all(studies)
    if unsent:
        raise OSError(errno.EIO, unsent)
    page = site.mirror / PAGES[0]
    if page.is_file() and not (site.mirror / SUMMARY).is_file():
        with reached(site.url):
            site.put(page, page.name)


def bring_all(site: Site, without: tuple[str, ...] = ()) -> list[Mirror]:
    """Bring all studies of a site."""
    with reached(site.url):
        listed = site.listing()
    there = [name.rpartition("/")[0] for name in listed if name.rpartition("/")[2] == SUMMARY]
    here = [path.parent.relative_to(site.mirror).as_posix() for path in site.mirror.rglob(SUMMARY)]
    names = {"" if name == "." else name for name in (*there, *here)}
    studies = [Mirror(site, name) for name in sorted(filter(_is_study_name, names))]
    with reached(site.url):
        for mirror in studies:
            mirror.bring(_within(listed, mirror.name), without)
    return studies


def bring(place: Path | str, *, without: tuple[str, ...] = ()) -> Path:
    """The folder of the studies at a place, to read; of a URL, a mirror without the folders named."""
    if not is_url(place):
        return Path(place)
    site = Site(str(place))
    bring_all(site, without)
    return site.mirror


def _within(listed: Mapping[str, Entry], name: str) -> dict[str, Entry]:
    prefix = f"{name}/" if name else ""
    return {one.removeprefix(prefix): entry for one, entry in listed.items() if one.startswith(prefix)}
