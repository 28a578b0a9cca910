"""How numbers are written."""

from __future__ import annotations

import math

import pytest

from krogh import numbers

NARROW = "\N{NARROW NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.2412, "1.24"), (1, "1.00"), (0, "0"), (-0.5, "−0.500"), (0.05, "0.0500"), (9.996, "10.0"),
        (99.96, "100"), (512.0, "512"), (1234.4, "1234"), (12_346, f"12{NARROW}346"),
        (999_999.9, "1.00×10⁶"), (1.2e-7, "1.20×10⁻⁷"),
        (0.0009999, "0.00100"), (math.inf, "∞"), (-math.inf, "−∞"), (math.nan, "—"), (None, "—"),
    ],
)  # fmt: skip
def test_number(value: float | None, text: str) -> None:
    assert numbers.number(value) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1.2412, 1.18, 1.3096), "1.24 [1.18, 1.31]"),
        ((math.inf, 4210, math.inf, "steps"), "∞ [4210, ∞] steps"),
        ((None, None, None, "steps"), "—"),
        ((None, 1, math.inf), "— [1.00, ∞]"),
        ((2.5, None, None, "s"), "2.50 s"),
        ((2.5, None, 3), "2.50 [—, 3.00]"),
    ],
)
def test_estimate(arguments: tuple[float | None, ...], text: str) -> None:
    assert numbers.estimate(*arguments) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.420 s"), (59.97, "1 min 0 s"), (372.4, "6 min 12 s"), (7500, "2 h 5 min"),
        (97_200, "1 d 3 h"), (None, "—"),
    ],
)  # fmt: skip
def test_duration(seconds: float | None, text: str) -> None:
    assert numbers.duration(seconds) == text


def test_counts_shares_dates_and_settings() -> None:
    assert numbers.count(1800) == "1800"
    assert numbers.count(41_234_000) == f"41{NARROW}234{NARROW}000"
    assert numbers.count(2.3e9) == "2.30×10⁹"
    assert numbers.share(0.0348) == f"3.5{NARROW}%"
    assert numbers.date("2025-03-01T10:00:00+00:00") == "2025-03-01 10:00 UTC"
    assert numbers.date(None) == "—" and numbers.date("yesterday") == "yesterday"
    assert numbers.plain(0.1) == "0.1" and numbers.plain([1, "a"]) == "1, a"
    assert numbers.plain({"a": True}) == '{"a": true}' and numbers.plain([]) == "—"
