"""How numbers are written: for people (a page, a terminal, an axis, a sentence) and in JSON, which has no infinity.

number, estimate, count, share, duration, date, plain   on the report page
precise, in_one_line                                    on the terminal
interval                                                in the reason of a verdict
tick                                                    on a logarithmic axis
json_number, from_json                                  in the files of a study
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import Any

MISSING = "—"
_NARROW = "\N{NARROW NO-BREAK SPACE}"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None) -> str:
    """Three significant digits: 1.24, 0.0500, 12 346, 1.2×10⁻⁵, ∞; a dash for what is not known.

    Digits before the decimal point are never replaced by zeros: 12346 is not written 12300.
    """
    if value is None or math.isnan(value):
        return MISSING
    sign = "−" if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return f"{sign}∞"
    if size == 0:
        return "0"
    if size < 0.000999 or size >= 999_999.5:
        return sign + _scientific(size)
    if size >= 99.95:
        return sign + _grouped(round(size))
    # The exponent is taken after rounding, so that 9.996 becomes 10.0 and not 10.00.
    exponent = int(f"{size:.2e}".split("e")[1])
    return f"{sign}{size:.{2 - exponent}f}"


def estimate(value: float | None, low: float | None, high: float | None, unit: str = "") -> str:
    """A value with its interval, "1.24 [1.18, 1.31]", and its unit where there is one; alone where it is exact."""
    text = number(value)
    if (low is not None or high is not None) and not value == low == high:
        text += f" [{number(low)}, {number(high)}]"
    return f"{text} {unit}" if unit and text != MISSING else text


def count(value: float | None) -> str:
    """A whole number with its digits in groups; beyond a thousand million, three significant digits."""
    if value is None or math.isnan(value) or math.isinf(value) or value < 0:
        return number(value)
    return _scientific(value) if value >= 1e9 else _grouped(round(value))


def share(value: float | None) -> str:
    """A fraction of one, in percent."""
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{100 * value:.1f}{_NARROW}%"


def duration(seconds: float | None) -> str:
    """Seconds as "0.42 s", "3 min 12 s", "2 h 5 min" or "4 d 3 h"."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return number(seconds)
    if seconds < 59.95:
        return f"{number(seconds)} s"
    whole = round(seconds)
    for size, name, below, below_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            large, rest = divmod(whole, size)
            return f"{large} {name} {rest // below} {below_name}"
    return f"{whole} s"


def date(text: str | None) -> str:
    """An ISO 8601 moment to the minute; what cannot be read as one is shown as it is."""
    if not text:
        return MISSING
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    zone = moment.tzname() or ""
    return f"{moment:%Y-%m-%d %H:%M} {zone}".strip()


def plain(value: object) -> str:
    """A setting exactly as it was given: no rounding, since it is there to be repeated."""
    if isinstance(value, str):
        return value
    if value is None:
        return MISSING
    if isinstance(value, list) and all(not isinstance(item, list | dict) for item in value):
        return ", ".join(plain(item) for item in value) or MISSING
    return json.dumps(value, ensure_ascii=False)


def precise(value: float | None) -> str:
    """A whole number with commas, any other to six digits."""
    if value is None:
        return "none"
    if isinstance(value, float) and (not value.is_integer() or not math.isfinite(value) or abs(value) >= 1e15):
        return f"{value:.6g}"
    return f"{int(value):,}"


def in_one_line(value: Any) -> str:
    """A number to six digits; a table or a list of them in one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {in_one_line(each)}" for key, each in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(in_one_line, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "infinite or undefined" if value is None else str(value)


def interval(low: float, high: float, digits: int = 3) -> str:
    """The ends of an interval, "[1.18, 1.31]"."""
    return f"[{low:.{digits}g}, {high:.{digits}g}]"


def tick(value: float, base: float = 10) -> str:
    """The label of a logarithmic axis, in Matplotlib's mathematics: 20, 50, 100 and not 2×10¹; 10⁶ and not 1000000."""
    if 0.001 <= value < 100_000:
        return f"{value:.6g}"
    root = base if base in (2, 10) else 10
    power = math.log(value, root) if value > 0 else math.nan
    if not math.isfinite(power):
        return ""
    if abs(power - round(power)) < 1e-6:
        return f"${root:g}^{{{round(power)}}}$"
    exponent = math.floor(math.log10(value))
    return f"${value / 10**exponent:.3g}\\times10^{{{exponent}}}$"


def json_number(value: Any) -> Any:
    """A value as JSON allows it: infinities as text, NaN as null."""
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return value


def from_json(value: Any) -> Any:
    """What `json_number` made of a number, as a number again; anything else as it is."""
    return float(value) if value in ("inf", "-inf", "nan") else value


def _grouped(value: int) -> str:
    # Four digits stay together, as is usual in print; five and more are set in groups of three.
    return str(value) if value < 10_000 else f"{value:,}".replace(",", _NARROW)


def _scientific(size: float) -> str:
    mantissa, exponent = f"{size:.2e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPT)}"
