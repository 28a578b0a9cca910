"""A study's drawing made fit for the page: nothing in it runs or loads, and its colours follow the reader's theme.

The SVG is read as a tree and written anew from what a drawing consists of (paths, groups, clips, images that it holds
itself); scripts, handlers, foreign objects, style sheets and references to anything outside are left out, and what is
not a drawing is refused. On the page it stands as an image, in which a browser runs no script anyway.

Figures are drawn dark on white (`krogh.lab.figures`). Their colours become variables here, with a second set for dark
mode: ink turns light, paper dark, and each hue of the palette becomes a lighter one of the same name. What is coloured
by a map, and the words on it, stay as they are.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

THEMES = {
    "#ffffff": ("paper", "#161614"),
    "#222222": ("ink", "#eae7df"),
    "#000000": ("black", "#f5f2ea"),
    "#5f5f5f": ("muted", "#aaa59a"),
    "#e4e4e4": ("grid", "#35332e"),
    "#0072b2": ("blue", "#3fa2e2"),
    "#d55e00": ("vermillion", "#f5863a"),
    "#009e73": ("green", "#2cc296"),
    "#cc79a7": ("purple", "#e39ac6"),
    "#e69f00": ("orange", "#f0b232"),
    "#56b4e9": ("sky", "#a3dbfa"),
}
"""Colours of a figure: their names, and what they are in dark mode."""

_ELEMENTS = frozenset(
    [
        "svg",
        "g",
        "defs",
        "path",
        "use",
        "clipPath",
        "rect",
        "image",
        "circle",
        "ellipse",
        "line",
        "polyline",
        "polygon",
        "text",
        "tspan",
        "title",
        "desc",
        "linearGradient",
        "radialGradient",
        "stop",
    ]
)
_ATTRIBUTES = frozenset(
    [
        "id",
        "d",
        "x",
        "y",
        "x1",
        "y1",
        "x2",
        "y2",
        "cx",
        "cy",
        "r",
        "rx",
        "ry",
        "dx",
        "dy",
        "points",
        "width",
        "height",
        "viewBox",
        "transform",
        "version",
        "offset",
        "gradientUnits",
        "gradientTransform",
        "clip-path",
        "clip-rule",
        "fill",
        "fill-opacity",
        "fill-rule",
        "stroke",
        "stroke-width",
        "stroke-opacity",
        "stroke-linecap",
        "stroke-linejoin",
        "stroke-dasharray",
        "stroke-dashoffset",
        "stroke-miterlimit",
        "opacity",
        "stop-color",
        "stop-opacity",
        "font-family",
        "font-size",
        "font-weight",
        "font-style",
        "text-anchor",
        "preserveAspectRatio",
    ]
)
_DECLARED = _ATTRIBUTES | {"image-rendering", "font", "mix-blend-mode"}
_UNSAFE = re.compile(r"url\s*\((?!\s*#[\w.-]+\s*\))|[@\\<>]|expression|javascript|/\*", re.IGNORECASE)
_WITHIN = re.compile(r"#[\w.-]+")
_PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=\s]*")
_DOCTYPE = re.compile(rb"<!DOCTYPE\s[^\[>]*>")
_COLOR = re.compile(r"#[0-9a-fA-F]{6}\b")
_ABOUT = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "http://creativecommons.org/ns#",
    "http://purl.org/dc/elements/1.1/",
)
"""What a drawing says of itself is written in."""
_DEEPEST, _MOST = 200, 2_000_000
"""Nesting, and elements, of a drawing that is read."""


@dataclass(frozen=True)
class Drawing:
    """A drawing as the page holds it: its address, which is the drawing itself, and its size in CSS pixels.

    Only an `inert` file has nothing in it that could run or load when it is opened itself.
    """

    address: str
    width: int
    height: int
    inert: bool


def embed(content: bytes) -> Drawing | None:
    """The drawing of an SVG file; None for what is no such file."""
    tree = _read(content)
    if tree is None:
        return None
    root, inert = _clean(tree), _is_inert(tree) and content.count(b"<?") == content.startswith(b"<?xml ")
    style = ElementTree.Element(f"{{{SVG}}}style")
    style.text = _sheet()
    root.insert(0, style)
    root.set("style", "fill: var(--black)")  # what says nothing of its colour is black
    for prefix, uri in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, uri)
    written = ElementTree.tostring(root, encoding="utf-8")
    address = "data:image/svg+xml;base64," + base64.b64encode(written).decode()
    return Drawing(address, *_size(root.get("viewBox", "")), inert)


def _read(content: bytes) -> ElementTree.Element | None:
    """The tree of a file that declares no entities of its own, is not too deep, and is an SVG."""
    head = _DOCTYPE.sub(b"", content, count=1)
    if b"<!DOCTYPE" in head or b"<!ENTITY" in head or b"\0" in head:  # zeros are letters in another encoding
        return None
    parser: Any = ElementTree.XMLPullParser(["start", "end"])
    depth = count = 0
    root = None
    try:
        parser.feed(head)
        parser.close()
        for event, element in parser.read_events():
            if root is None:
                root = element
            depth += 1 if event == "start" else -1
            count += event == "start"
            if depth > _DEEPEST or count > _MOST:
                return None
    except (ElementTree.ParseError, ValueError, LookupError):
        return None
    return root if isinstance(root, ElementTree.Element) and root.tag == f"{{{SVG}}}svg" else None


def _is_inert(tree: ElementTree.Element) -> bool:
    """Whether a file consists of shapes, of style sheets that refer to nothing, and of words about itself."""
    for element in tree.iter():
        space, _, named = str(element.tag).removeprefix("{").rpartition("}")
        known = named in _ELEMENTS or named in ("metadata", "style") if space == SVG else space in _ABOUT
        if not known or (space == SVG and not all(_is_harmless(*each) for each in element.attrib.items())):
            return False
        if space == SVG and named == "style" and (len(element) or _UNSAFE.search(element.text or "")):
            return False
    return True


def _is_harmless(name: str, value: str) -> bool:
    """Whether an attribute runs nothing, and refers to nothing but a part of the drawing or a picture in it."""
    named = name.rpartition("}")[2].lower()
    if named == "href":
        return bool(_WITHIN.fullmatch(value.strip()) or _PICTURE.fullmatch(value.strip()))
    return not named.startswith("on") and not _UNSAFE.search(value)


def _clean(element: ElementTree.Element) -> ElementTree.Element:
    """A copy with nothing but what a drawing consists of."""
    made = ElementTree.Element(element.tag)
    for name, value in element.attrib.items():
        if name in ("href", f"{{{XLINK}}}href"):
            allowed = _PICTURE if element.tag == f"{{{SVG}}}image" else _WITHIN
            if allowed.fullmatch(value.strip()):
                made.set(f"{{{XLINK}}}href", value.strip())
        elif name == "style":
            made.set("style", _declarations(value))
        elif name in _ATTRIBUTES and not _UNSAFE.search(value):
            made.set(name, _themed(value) if name in ("fill", "stroke", "stop-color") else value)
    named = element.tag.removeprefix(f"{{{SVG}}}")
    if named in ("text", "tspan", "title", "desc"):
        made.text = element.text
    for child in element:
        if isinstance(child.tag, str) and child.tag.removeprefix(f"{{{SVG}}}") in _ELEMENTS:
            copy = _clean(child)
            copy.tail = child.tail if named in ("text", "tspan") else None
            made.append(copy)
    return made


def _declarations(text: str) -> str:
    """The declarations of a style attribute that say how a shape looks."""
    kept = []
    for declaration in text.split(";"):
        name, _, value = declaration.partition(":")
        if name.strip().lower() in _DECLARED and value and not _UNSAFE.search(value):
            kept.append(f"{name.strip().lower()}: {_themed(value.strip())}")
    return "; ".join(kept)


def _themed(value: str) -> str:
    """A colour of a figure as the variable that stands for it."""

    def variable(found: re.Match[str]) -> str:
        theme = THEMES.get(found.group().lower())
        return f"var(--{theme[0]})" if theme else found.group()

    return _COLOR.sub(variable, value)


def _sheet() -> str:
    light = "; ".join(f"--{name}: {color}" for color, (name, _) in THEMES.items())
    dark = "; ".join(f"--{name}: {color}" for name, color in THEMES.values())
    shapes = "*{stroke-linejoin: round; stroke-linecap: butt}"
    return f":root{{{light}}} @media (prefers-color-scheme: dark){{:root{{{dark}}}}} {shapes}"


def _size(box: str) -> tuple[int, int]:
    """The natural size, so that the page does not jump while it loads."""
    try:
        # Matplotlib counts in points, of which 72 make an inch; CSS has 96 pixels to the inch.
        _, _, width, height = (float(part) * 96 / 72 for part in box.replace(",", " ").split())
        if 1 <= width <= 20_000 and 1 <= height <= 20_000:
            return round(width), round(height)
    except ValueError:
        pass
    return 640, 400
