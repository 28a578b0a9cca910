"""Mathematics in the words of a page: S_3, ω_i, x_{ij}, n^2 and 10^-7 with sub- and superscripts, 1e-07 as 10⁻⁷.

Figures set far more (`krogh.lab.mathtext`); here are only what plain text cannot show. What is in backticks, and what
looks like a file, an option or a longer name, is left as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

_INNER = r"\{[^{}]*\}|\([^()]*\)"
_BELOW = rf"_(?:{_INNER}|\d+|[A-Za-z]{{1,3}}\d*|[α-ω])"  # what is longer names a setting
_ABOVE = rf"\^(?:{_INNER}|[A-Z]\([^()]*\)|[-−+]?\d+(?:/\d+)?|[A-Za-zα-ω*])"
_MARKS = r"[\u0302\u0303\u0304\u0307'*]*"
_PATTERN = re.compile(
    r"(?P<code>`[^`]*`)"
    r"|(?P<number>(?<![\w.\-])\d+(?:\.\d+)?e[+-]\d+(?![\w.]*\w))"
    rf"|(?P<base>(?:(?<![A-Za-z0-9_./\\=-])[A-Za-z]|(?<=\dx)[A-Z]|[α-ωΑ-Ωℓ]|[‖)\]⟩]){_MARKS}[⁰¹²³]?)"
    rf"(?P<scripts>{_BELOW}(?:{_ABOVE})?|{_ABOVE}(?:{_BELOW})?)(?!(?!x[A-Z]_)\w|[.\\]\w|/[A-Za-z]{{2}})"
    rf"|(?P<power>(?<![\w.])\d+(?:\.\d+)?)(?P<above>{_ABOVE})(?![\w.]*\w)"
)
_SCRIPT = re.compile(rf"{_BELOW}|{_ABOVE}")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LONGEST_WHOLE = 9
"""Digits of a number that is written out."""


def mathematics(text: str) -> Markup:
    """A text for the page, escaped, with what mathematics it has set."""
    from markupsafe import Markup, escape

    made, at = Markup(""), 0
    for found in _PATTERN.finditer(text):
        made += escape(text[at : found.start()]) + _written(found)
        at = found.end()
    return made + escape(text[at:])


def _written(found: re.Match[str]) -> Markup:
    from markupsafe import Markup, escape

    if found["code"]:
        return escape(found["code"])
    if found["number"]:
        return escape(_decimal(found["number"]))
    scripts = _SCRIPT.findall(found["scripts"] or found["above"])
    made = escape(found["base"] or found["power"])
    for script in scripts:
        tag = Markup("<sub>{}</sub>") if script[0] == "_" else Markup("<sup>{}</sup>")
        inner = script[1:]
        inner = inner[1:-1] if inner[0] in "{(" else inner
        made += tag.format(inner.replace("-", "−"))
    return made


def _decimal(text: str) -> str:
    """1.004e+04 as 10,040; 1e-07 as 10⁻⁷; 2.5e-07 as 2.5×10⁻⁷."""
    mantissa, power = text.split("e")
    exponent, decimals = int(power), len(mantissa.partition(".")[2])
    if decimals <= exponent < LONGEST_WHOLE:
        return f"{round(float(text)):,}"
    raised = f"10{str(exponent).translate(_RAISED)}"
    return raised if float(mantissa) == 1 else f"{mantissa}×{raised}"
