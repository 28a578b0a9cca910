"""A page as its elements, for tests of what is on it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "img", "col", "wbr", "br", "hr", "input"}


class Page(HTMLParser):
    """The elements of a page in order, with their text, and whether they nest properly."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.source = path.read_text(encoding="utf-8")
        self.elements: list[tuple[str, dict[str, str], list[str]]] = []
        self._open: list[int] = []
        self.feed(self.source)
        self.close()
        assert not self._open, "an element was not closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}, []))
        if tag not in VOID:
            self._open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}, []))

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        for index in self._open:
            self.elements[index][2].append(data)

    def all(self, tag: str, **wanted: str) -> list[tuple[dict[str, str], str]]:
        return [
            (attrs, " ".join("".join(text).split()))
            for name, attrs, text in self.elements
            if name == tag and all(attrs.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]

    def position(self, tag: str) -> int:
        return [name for name, _, _ in self.elements].index(tag)
