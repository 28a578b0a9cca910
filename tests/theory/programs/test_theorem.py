"""Theorem D.6: its terms, the best radius, and its constants against random perturbations of real modules."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory.programs.theorem import (
    Constants,
    Spread,
    after_layer,
    after_rounding,
    best_bound,
    block_constants,
    largest,
    theorem_bound,
    theorem_terms,
)

ONES = Constants(s=0.1, lam=2.0, sigma_zeta=0.3, sigma_h=0.5, kappa_xi=3.0, kappa_theta=5.0, mu=7.0, mu_0=11.0)


def rounding(n):
    """C1 on n coordinates, as weights and biases of two layers."""
    one = np.eye(n)
    return {
        "V1": np.vstack([one, one]),
        "c1": np.repeat([-1 / 3, -2 / 3], n),
        "V2": np.hstack([3 * one, -3 * one]),
        "c2": np.zeros(n),
    }


def relu(z):
    return np.maximum(z, 0)


def run(layers, h):
    for weight, bias in layers:
        h = relu(weight @ h + bias)
    return h


def moved(rng, layers, t):
    """The layers with a perturbation of norm t: dense, or all in few places, where bounds are tight."""
    change = [(rng.normal(size=w.shape), rng.normal(size=b.shape)) for w, b in layers]
    if rng.random() < 0.5:
        change = [(w * (rng.random(w.shape) < 0.1), b * (rng.random(b.shape) < 0.3)) for w, b in change]
    size = math.sqrt(sum(np.sum(w**2) + np.sum(b**2) for w, b in change)) or 1.0
    return [(w + t * dw / size, b + t * db / size) for (w, b), (dw, db) in zip(layers, change, strict=True)]


def test_terms():
    assert theorem_terms(ONES) == pytest.approx(
        {
            "λ/μ0": 2 / 11,
            "σζ/μ0": 0.3 / 11,
            "σθ": 0.1,
            "1/(2κθ)": 0.1,
            "σζ/(2κθλ)": 0.015,
            "σξ": 0.1,
            "σh/(2κξλ)": 0.5 / 12,
            "σζ/(4λμκξ)": 0.3 / 168,
            "1/(4μκξ)": 1 / 84,
        }
    )
    found = theorem_bound(ONES)
    assert found.value == pytest.approx(0.3 / 168) and found.binding == "σζ/(4λμκξ)"
    assert theorem_bound(replace(ONES, sigma_h=0.001)).binding == "σh/(2κξλ)"
    assert theorem_bound(replace(ONES, mu_0=1e6)).binding == "σζ/μ0"
    assert theorem_bound(replace(ONES, s=1e-6)).binding in ("σθ", "σξ")


def test_every_constant_matters():
    for name in asdict(ONES):
        worse = replace(ONES, **{name: getattr(ONES, name) * (1e-4 if name in ("s", "sigma_zeta", "sigma_h") else 1e4)})
        assert theorem_bound(worse).value < theorem_bound(ONES).value, name


def test_the_best_radius_against_a_grid():
    def constants(s):
        return replace(ONES, s=s, mu=7 + 400 * s, kappa_theta=5 + 100 * s)

    best = best_bound(constants, 1.0)
    grid = max(theorem_bound(constants(s)).value for s in np.geomspace(1e-6, 1, 4000))
    assert grid <= best.value * (1 + 1e-12) and best.value == pytest.approx(grid, rel=5e-3)
    assert best.binding not in ("σθ", "σξ")
    capped = best_bound(constants, 1e-5)
    assert capped.value == 1e-5 == capped.constants.s


@pytest.mark.parametrize("seed", range(3))
def test_the_constants_of_gates_hold_under_random_perturbations(seed):
    """‖f(h, θ) - f(ĥ, θ̂)‖ ≤ κ ‖Δθ‖ max(‖h‖, 1) + μ ‖Δh‖, and nearly so for the worst."""
    rng = np.random.default_rng(seed)
    n, s = 6, 0.05
    weight = np.zeros((n, n))
    weight[np.arange(n), rng.integers(0, n, n)] += 1
    weight[np.arange(n), rng.integers(0, n, n)] += 1
    sign = rng.choice([1.0, -1.0], n)
    layers = [(sign[:, None] * weight, -sign), (np.diag(sign), (1 - sign) / 2)]
    norms = [np.linalg.norm(w, 2) for w, _ in layers]
    kappa, mu = block_constants(norms, [np.linalg.norm(relu(b)) for _, b in layers], s)
    printed = math.sqrt(2 * norms[1] ** 2 + (norms[0] + np.linalg.norm(layers[0][1]) + 2 * s) ** 2 + 1)
    assert kappa <= printed * (1 + 1e-12), "b⁺ in place of b is never worse"
    worst = 0.0
    for _ in range(400):
        h = rng.integers(0, 2, n).astype(float)
        t, off = s * rng.random(), rng.normal(size=n) * rng.choice([0, 0.01, 1.0])
        change = np.linalg.norm(run(layers, h) - run(moved(rng, layers, t), h + off))
        bound = kappa * t * max(np.linalg.norm(h), 1) + mu * np.linalg.norm(off)
        assert change <= bound * (1 + 1e-9) + 1e-12
        worst = max(worst, change / bound)
    assert worst > 0.2, "a bound that is far from reached would show an error in the test"


def test_the_constant_of_rounding_holds_for_all_inputs_and_every_width():
    s = 0.05
    kappa = block_constants((math.sqrt(2), 3 * math.sqrt(2)), (0.0, 0.0), s)[0]
    assert kappa == pytest.approx(math.sqrt(36 + (math.sqrt(2) + 2 * s) ** 2 + 1))
    assert block_constants((math.sqrt(2), 3 * math.sqrt(2)), (0.0, 0.0), 0.0)[0] == pytest.approx(6.245, abs=5e-4)
    rng = np.random.default_rng(0)
    for n in (1, 4, 12):
        p = rounding(n)
        layers = [(p["V1"], p["c1"]), (p["V2"], p["c2"])]
        for _ in range(200):
            h = rng.normal(size=n) * rng.choice([0.1, 1, 5])
            t = s * rng.random()
            change = np.linalg.norm(run(layers, h) - run(moved(rng, layers, t), h))
            assert change <= kappa * t * max(np.linalg.norm(h), 1) * (1 + 1e-9)


def test_propagation_through_layers_holds_under_random_perturbations():
    """Two layers of gates and a rounding: true bits, perturbed parameters, error within gain·t at each place."""
    rng = np.random.default_rng(1)
    n, t = 5, 0.01
    p = rounding(n)
    gates = [(np.eye(n) + np.roll(np.eye(n), 1, axis=1), -np.ones(n)), (np.eye(n), np.zeros(n))]
    correction = [(p["V1"], p["c1"]), (p["V2"], p["c2"])]
    for _ in range(300):
        x = rng.integers(0, 2, n).astype(float)
        spread, h, off = Spread(float(np.linalg.norm(x))), x, x
        changed = moved(rng, gates + correction + gates, t)
        for place, (layer, other) in enumerate(zip(gates + correction + gates, changed, strict=True)):
            h, off = relu(layer[0] @ h + layer[1]), relu(other[0] @ off + other[1])
            if place in (0, 1, 4, 5):
                spread = after_layer(spread, t, np.linalg.norm(layer[0], 2), float(np.linalg.norm(h)))
            elif place == 3:
                spread = after_rounding(spread, t)
            if place != 2:  # between the two layers of a rounding nothing is claimed
                assert np.linalg.norm(h - off) <= spread.gain * t * (1 + 1e-9)
        assert spread.gain < 40, "rounding forgets"


def test_a_rounding_does_move_as_much_along_its_thresholds():
    """Thresholds moved apart: 3√2·t of a single coordinate, most of what is allowed."""
    p, t = rounding(1), 1e-3
    moved_thresholds = p["c1"] + t * np.array([-1, 1]) / math.sqrt(2)
    change = abs(run([(p["V1"], moved_thresholds), (p["V2"], p["c2"])], np.ones(1))[0] - 1)
    spread = after_rounding(Spread(1.0), t)
    assert change == pytest.approx(3 * math.sqrt(2) * t) and 0.6 * spread.gain * t < change <= spread.gain * t


def test_the_largest_t():
    assert largest(lambda t: t < 0.3) == pytest.approx(0.3, rel=2e-9) and largest(lambda t: t < 0.3) < 0.3
    assert largest(lambda t: t < 1e-40) == pytest.approx(1e-40, rel=2e-9)
    assert largest(lambda t: True) == 1.0 and largest(lambda t: False) == 0.0


def test_what_is_refused():
    with pytest.raises(KroghError, match="sigma_zeta must be below 1"):
        replace(ONES, sigma_zeta=1.0)
    with pytest.raises(KroghError, match=r"positive numbers; got \{'mu': 0.0\}"):
        replace(ONES, mu=0.0)
    with pytest.raises(KroghError, match="lam bounds"):
        replace(ONES, lam=0.5)
    with pytest.raises(KroghError, match="largest radius must be a positive number"):
        best_bound(lambda s: ONES, 0.0)
