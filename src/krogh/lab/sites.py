"""Places that a URL names, as fsspec reaches them: listed, read and written whole, with patience.

Where a file could be seen half written (a server's disk, not an object store) it is sent under a hidden name and then
renamed. What the network refuses is tried again, with growing pauses; what it refuses for good is one line.
"""

from __future__ import annotations

import errno
import os
import random
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from krogh.errors import KroghError, require
from krogh.files import cache_folder
from krogh.saying import first_line

WAITS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try of what the network refused, give or take a half."""
STREAMS = 8
"""Files that travel at once where a file system can do that."""

_URL = re.compile(r"[A-Za-z][\w+.-]*(::[\w+.-]+)*://")
_LOCAL = {"file", "local"}
_ROOTED = {*_LOCAL, "memory"}  # whose own root is a place
_SECRET = re.compile(r"://[^/@:]*:(?!\d*(/|$))[^@]*@|[?&][^=&]*(token|secret|password|sig|key)[^=&]*=", re.IGNORECASE)
_OBJECTS = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "memory"}  # what is written appears at once
_HOPELESS = (
    *(FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError),
    *(NotImplementedError, ImportError, KroghError),
)


def is_url(place: object) -> bool:
    return isinstance(place, str) and bool(_URL.match(place))


def tidied(url: str) -> str:
    """A URL without slashes at its end; one that keeps a secret, or names no place, is refused."""
    schemes, _, rest = url.partition("://")
    scheme, rest = schemes.rpartition("::")[2], rest.rstrip("/")
    require(
        not _SECRET.search(url),
        f"leave passwords and tokens out of {schemes}://... (a study's page names its URL); docs/stores.md says where "
        "they go",
    )
    require(rest or scheme in _ROOTED, f"{url} names no place; say {schemes}://BUCKET/FOLDER, or the like")
    absolute = scheme not in _LOCAL or url.partition("://")[2].startswith("/")
    require(absolute, f"{url} is relative to nothing; give the whole path, {schemes}:///tmp/runs say")
    return f"{schemes}://{rest}" if rest or scheme not in _LOCAL else f"{schemes}:///"


@dataclass(frozen=True)
class Entry:
    """A file at a URL: its size, and a word that changes with its content."""

    size: int
    version: str


class Site:
    """A folder behind a URL, and its mirror."""

    def __init__(self, url: str):
        self.url = tidied(url)
        self.files, self._root = _file_system(self.url)
        self.mirror = mirror_of(self.url)
        spoken = self.files.protocol
        self._in_place = not _OBJECTS.isdisjoint([spoken] if isinstance(spoken, str) else spoken)
        self._streams = STREAMS if getattr(self.files, "async_impl", False) else 1

    def listing(self, below: str = "") -> dict[str, Entry]:
        """The files under a folder of the site by name (relative to the site); no links, nor anything under one."""
        self.files.invalidate_cache()
        start = self._path(below)
        try:
            found = persistently(lambda: self.files.find(start, withdirs=True, detail=True))
        except (FileNotFoundError, NotADirectoryError):
            return {}
        prefix = self._path("").rstrip("/") + "/"
        links = tuple(f"{name.rstrip('/')}/" for name, info in found.items() if _is_link(info))
        return {
            name.removeprefix(prefix): Entry(int(info["size"] or 0), _version(info))
            for name, info in found.items()
            if info["type"] == "file" and not _is_link(info) and name.startswith(prefix) and not name.startswith(links)
        }

    def read(self, name: str) -> bytes:
        return persistently(lambda: self.files.cat_file(self._path(name)))

    def get(self, name: str, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        persistently(lambda: self.files.get_file(self._path(name), str(target)))

    def put(self, source: Path, name: str) -> Entry:
        """Send a file; where half a file could be seen, under a hidden name first. Returns what arrived."""
        place = self._path(name)
        folder, _, last = place.rpartition("/")

        def send() -> Entry:
            size = source.stat().st_size
            if self._in_place:
                self.files.put_file(str(source), place)
            else:
                self.files.makedirs(folder, exist_ok=True)
                hidden = f"{folder}/.{last}.{writer()}.tmp"
                self.files.put_file(str(source), hidden)
                try:
                    self.files.mv(hidden, place)
                except FileExistsError:  # some systems do not rename over a file
                    self.files.rm_file(place)
                    self.files.mv(hidden, place)
            self.files.invalidate_cache(folder)
            info = self.files.info(place)
            if info["size"] != size:
                raise OSError(errno.EIO, f"{info['size']} of {size} bytes arrived of {name}")
            return Entry(size, _version(info))

        return persistently(send)

    def write(self, content: bytes, name: str) -> Entry:
        with tempfile.NamedTemporaryFile(dir=mirrors(), prefix=".outgoing-") as file:
            file.write(content)
            file.flush()
            return self.put(Path(file.name), name)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            persistently(lambda: self.files.rm_file(self._path(name)))

    def each(self, action: Callable[[str], Any], names: Iterable[str]) -> None:
        """Do something for all names, several at once where the file system allows it."""
        if self._streams == 1:
            for name in names:
                action(name)
            return
        with ThreadPoolExecutor(self._streams, thread_name_prefix="krogh-remote") as pool:
            for done in [pool.submit(action, name) for name in names]:
                done.result()

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root or "/"


def mirror_of(url: str) -> Path:
    """The folder of this machine in which a URL is worked on; one of a URL below lies below it."""
    scheme, _, rest = tidied(url).partition("://")
    host, *parts = rest.split("/")
    require(".." not in parts and "." not in parts, f"{url} must not have . or .. in its path")
    words = [quote(scheme, safe=""), quote(host, safe="") or "%", *(quote(part, safe="") for part in parts if part)]
    return mirrors().joinpath(*words)


def mirrors() -> Path:
    """Where all mirrors are: in the cache, or without one among temporary files, where nobody else reads them."""
    cache = cache_folder()
    if cache is None:
        user = os.getuid() if hasattr(os, "getuid") else 0
        cache = Path(tempfile.gettempdir()) / f"krogh-{user}"
        cache.mkdir(exist_ok=True, mode=0o700)
        own = not cache.is_symlink() and cache.stat().st_uid == user
        require(own, f"{cache} belongs to somebody else; set KROGH_CACHE to a folder of your own")
    place = cache / "mirrors"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    return place


def _file_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError:
        raise KroghError(f"{url} needs fsspec: pip install 'krogh[stores]'") from None
    try:
        files, root = fsspec.core.url_to_fs(url)
    except ImportError as cause:  # "Install s3fs to access S3"
        raise KroghError(f"{url}: {str(cause).splitlines()[0]}") from None
    except ValueError as cause:
        raise KroghError(f"{url} cannot be opened: {cause}") from None
    except Exception as cause:
        raise OSError(errno.EIO, f"{url} cannot be reached ({first_line(cause)})") from None
    return files, root.rstrip("/")


def _is_link(info: Mapping[str, Any]) -> bool:
    return bool(info.get("islink")) or info["type"] == "link"


def _version(info: Mapping[str, Any]) -> str:
    """What tells versions of a remote file apart: its entity tag, or else its size and when it was written."""
    for word in ("ETag", "etag", "md5Hash", "content_md5"):
        if info.get(word):
            return str(info[word]).strip('"')
    words = ("mtime", "LastModified", "last_modified", "updated", "created")
    when = next((info[word] for word in words if word in info), "")
    return f"{info['size']}@{when.timestamp() if isinstance(when, datetime) else when}"


@contextmanager
def reached(url: str) -> Iterator[None]:
    """What the network refuses for good is one line."""
    try:
        yield
    except KroghError:
        raise
    except Exception as cause:
        raise OSError(errno.EIO, f"{url} cannot be reached ({first_line(cause)})") from None


def persistently(action: Callable[[], Any]) -> Any:
    """Do what the network may refuse now and then."""
    for wait in (*WAITS, None):
        try:
            return action()
        except _HOPELESS:
            raise
        except Exception:
            if wait is None:
                raise
            time.sleep(wait * random.uniform(0.5, 1.5))
    raise AssertionError("unreachable")


def writer() -> str:
    """This process, among all that may write at a URL."""
    return f"{socket.gethostname()}-{os.getpid()}"
