"""Sizes of what constructions need, by simulation and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.tokens.sizes import approximation_width, gate_width, retrieval_scale


def test_retrieval_scale_by_simulation():
    """The construction (A.2) on one-hot codes, which are less coherent than allowed, keeps its promises."""
    rng, length, d, q = np.random.default_rng(6), 12, 4, 2
    found = retrieval_scale(length, d, q, length, 3.0, 2.0, 1.5, 1e-4)
    scores = found["scale"] * d / q * (0.5 + 0.5 * np.eye(length))  # coherence exactly 1/2
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert np.diag(weights).min() >= found["retrieval_weight_at_least"] > 1 - 1e-3
    x = rng.standard_normal((length, d))
    x *= 3 / np.linalg.norm(x, axis=1, keepdims=True)
    assert np.linalg.norm(weights @ x - x, axis=1).max() <= found["token_error_at_most"]
    assert found["retrieval_error"] == pytest.approx(1e-2)
    assert found["retrieval_error"] == pytest.approx(2.0 * 1.5 * math.sqrt(q) * found["token_error_at_most"])
    assert found["attention_norm"] == pytest.approx(length * found["scale"])


def test_retrieval_scale_of_the_reference_instance_and_as_printed():
    # N=20, d=6, q=3, eps=1e-4 with r_a r_w r_x about what makes alpha 13.7
    gain = 13.7 * 6 / (2 * 3)
    product = math.exp(gain) * 1e-2 / (2 * 20 * math.sqrt(3))
    found = retrieval_scale(20, 6, 3, 60, product, 1.0, 1.0, 1e-4)
    assert found["scale"] == pytest.approx(13.7) and found["retrieval_weight_at_least"] > 0.99997
    printed = retrieval_scale(20, 6, 3, 60, product, 1.0, 1.0, 1e-4, variant="printed")
    assert printed["scale"] - found["scale"] == pytest.approx(2 * 3 / 6 * math.log(100))
    assert printed["retrieval_error"] == pytest.approx(1e-4)
    lax = retrieval_scale(20, 6, 3, 60, product, 1.0, 1.0, 25.0, variant="printed")
    assert lax["retrieval_error"] > math.sqrt(25.0), "as printed, a tolerance above 1 is exceeded"
    assert retrieval_scale(2, 6, 1, 9, 1.0, 1.0, 1.0, 1e4)["scale"] == 0


def test_approximation_width_by_hand():
    found = approximation_width(3, 2.0, 1.5, 0.1)
    ratio = 3 * (1 + math.log(30)) / 0.1
    assert found["width_order"] == pytest.approx(ratio**3)
    assert found["output_norm_order"] == pytest.approx(3 / math.sqrt(ratio**3) * ratio**2)
    assert found["output_norm_times_root_width"] == pytest.approx(3 * ratio**2)
    assert found["hidden_norm_at_most"] == pytest.approx(1 / 1.5)
    assert approximation_width(400, 2.0, 1.5, 0.1)["width_order"] == math.inf


def test_approximation_width_holds_in_one_dimension_for_interpolation():
    """On a line, piecewise linear interpolation of an L-Lipschitz function within eps takes 2LR/eps units or so."""
    for error in (0.5, 0.1, 0.02):
        knots = np.linspace(-1.0, 1.0, math.ceil(2.0 / error) + 1)
        fine = np.linspace(-1, 1, 5001)
        target = np.abs(np.mod(3 * fine, 1) - 0.5) / 3
        close = np.abs(np.interp(fine, knots, np.abs(np.mod(3 * knots, 1) - 0.5) / 3) - target).max()
        assert close <= error and len(knots) <= 3 * approximation_width(1, 1.0, 1.0, error)["width_order"]


def test_gate_width_repaired_is_what_the_approximation_lemma_gives():
    """Lemma 42 in two dimensions with L = 2R: the same powers of 1/eps and of R, up to constants and ln."""
    ratios = {"width": [], "norm": [], "printed": []}
    for error in (1e-2, 1e-4, 1e-6):
        for bound in (2.0, 20.0):
            token = math.sqrt(bound**2 - 1)
            lemma = approximation_width(2, 2 * bound, bound, error)
            found = gate_width(token, error)
            ratios["width"].append(found["gate_width_order"] / lemma["width_order"])
            ratios["norm"].append(found["gate_norm_order"] / lemma["output_norm_times_root_width"])
            printed = gate_width(token, error, variant="printed")["gate_width_order"]
            ratios["printed"].append(printed / lemma["width_order"])
    assert max(ratios["width"]) < 6 * min(ratios["width"]) and max(ratios["norm"]) < 6 * min(ratios["norm"])
    assert max(ratios["printed"]) > 50 * min(ratios["printed"])


def test_gate_width_by_hand():
    found = gate_width(1.0, 0.1, code_dimension=5, state_bound=2.0)
    bound = math.sqrt(6)
    ratio = math.log(bound / 0.1) / 0.1
    assert found["gate_width_order"] == pytest.approx(bound**6 * ratio**3)
    assert found["gate_norm_order"] == pytest.approx(bound**6 * ratio**2)
    printed = gate_width(1.0, 0.1, variant="printed")
    each = 4 * (math.log(math.sqrt(2) / 0.1) / 0.1) ** 1.5
    assert printed["gate_width_order"] == pytest.approx(each) == printed["gate_norm_order"]
    product = math.log(50) / 0.1
    assert found["codes_width_order"] == pytest.approx(125 * product**2)
    assert found["codes_norm_order"] == pytest.approx(5**2.5 * product**1.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: approximation_width(2, 1.0, 1.0, 2.0), "error must be at most lipschitz"),
        (lambda: gate_width(1.0, 1.5), "error must be below 1; got error=1.5"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
