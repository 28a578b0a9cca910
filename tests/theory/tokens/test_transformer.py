"""Sample bounds of Transformers: their parts against the proof, and the number of samples against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.theory import predict
from krogh.theory.tokens.covering import rademacher
from krogh.theory.tokens.sizes import retrieval_scale
from krogh.theory.tokens.transformer import regime, transformer_risk, transformer_samples

SETTING = {"length": 50, "dimension": 6, "sparsity": 2, "link_width": 8, "output_norm": 2.0, "hidden_norm": 1.5}


def test_theorem_10_by_hand():
    found = transformer_risk(1000, 20, 5, 2, 4, 0.1, 0.2, link_error=0.01)
    r_x2 = 3 * math.e * 5 * math.log(20_000)
    r_z2 = r_x2 + 5 * 1.5
    c1 = 2 * 0.01 * 0.04 * r_z2
    attention = min(r_z2**3 * 0.01 * 0.04 * 4, 2 * (4 + 25))
    assert found["risk"] == pytest.approx(0.01 + c1 * math.sqrt((4 * 2 * 7 + attention) / 1000))
    assert found["prompt_radius"] == pytest.approx(math.sqrt(r_z2)) and found["token_radius"] ** 2 == pytest.approx(
        r_x2
    )


def test_the_norm_term_of_theorem_10_wins_for_small_weights_only():
    small = transformer_risk(1000, 20, 5, 2, 4, 1e-3, 1e-3)
    large = transformer_risk(1000, 20, 5, 2, 4, 10.0, 10.0)
    r_z6 = small["prompt_radius"] ** 6
    assert small["attention_complexity"] == pytest.approx(r_z6 * 1e-12 * 4) and large["attention_complexity"] == 58


def test_theorem_4_by_hand_as_printed():
    found = transformer_risk(400, 20, 5, 3, 4, 2.0, 1.0, link_error=0.1, theorem=4, variant="printed")
    radius2 = 4 / 4 + 4 * 1 + 9 / 5
    expected = 0.1 + radius2 * 15 * math.sqrt((4 * 3 * 8 + 27 + 3 * 25) / 400)
    assert found["risk"] == pytest.approx(expected)


def test_the_repaired_radius_holds_the_construction_where_the_printed_one_does_not():
    # squared norm of the construction's attention, q d_e a^2, without its logarithms: q (2q/d)^2 / 4 = q^3/d^2
    for q, d in [(2, 8), (8, 2), (5, 5), (12, 3)]:
        args = (1000, 10**6, d, q, 4, 1e-6, 1e-6)
        repaired = transformer_risk(*args, theorem=4)["parameter_radius"] ** 2
        printed = transformer_risk(*args, theorem=4, variant="printed")["parameter_radius"] ** 2
        needed = q**3 / d**2
        assert repaired >= needed * (1 - 1e-9)
        assert (printed >= needed * (1 - 1e-9)) == (q <= d)
        scale = retrieval_scale(10**6, d, q, 1, 1.0, 1.0, 1.0, 1.0)
        assert q * scale["frobenius_norm"] ** 2 == pytest.approx(needed * (2 * math.log(2e6 * math.sqrt(q))) ** 2)


def test_the_repaired_prefactor_covers_every_head_within_the_radius_and_the_printed_does_not():
    # C1 must bound H |a|^2 |W|^2 d over |a|^2 + |W|^2 <= R^2
    rng = np.random.default_rng(0)
    q, d = 2, 6
    repaired = transformer_risk(100, 50, d, q, 9, 9.0, 3.0, theorem=4)
    printed = transformer_risk(100, 50, d, q, 9, 9.0, 3.0, theorem=4, variant="printed")
    angles = rng.uniform(0, np.pi / 2, 200)
    gains = q * d * (repaired["parameter_radius"] ** 4) * (np.cos(angles) * np.sin(angles)) ** 2
    assert gains.max() <= repaired["prefactor"] / 4 * (1 + 1e-12)
    assert gains.max() > printed["prefactor"]


def test_theorem_10_is_the_rademacher_bound_of_the_proof():
    """With H = q, |a| = r_a/sqrt(m), |W| = r_w sqrt(m): its C1 is the k2 of the truncation, its sizes C1, C2."""
    n, length, d, q, m, r_a, r_w = 500, 30, 6, 2, 8, 0.05, 0.5
    found = transformer_risk(n, length, d, q, m, r_a, r_w)
    features = d + q  # D_e up to the logarithm in d_e
    sizes = rademacher(
        n, length, q, features, m, found["prompt_radius"], r_a / math.sqrt(m), r_w * math.sqrt(m), attention_norm=1.0
    )
    assert sizes["feedforward_size"] == found["feedforward_complexity"]
    assert min(sizes["attention_norm_size"], q * (q**2 + d**2)) == pytest.approx(found["attention_complexity"])
    assert sizes["attention_size"] / 2 <= q * (q**2 + d**2) <= sizes["attention_size"]
    log = math.log(found["prefactor"] * length * math.sqrt(n))
    rest = math.log(max(1.0, found["prefactor"] * math.sqrt(n)))
    assert sizes["truncation"] == pytest.approx(found["prefactor"] * log + rest)


@pytest.mark.parametrize("theorem", [4, 10])
@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize("target", [0.1, 3.0, 1e4])
def test_samples_are_the_first_from_which_on_the_bound_holds(theorem, clipped, target):
    n = transformer_samples(target, **SETTING, theorem=theorem, clipped=clipped)["samples"]

    def estimation(count):
        return transformer_risk(count, **SETTING, theorem=theorem, clipped=clipped)["estimation"]

    assert all(estimation(count) <= target for count in (n, n + 1, 2 * n, 10 * n))
    assert n == 1 or estimation(n - 1) > target


def test_samples_of_theorem_4_are_the_quotient():
    q, d, m = 2, 6, 8
    radius2 = 4 / m + m * 2.25 + q**2 / d
    for variant, power in (("printed", 1), ("repaired", 2)):
        expected = (radius2**power * q * d) ** 2 * (m * q * (d + q) + q**3 + q * d**2) / 0.5**2
        found = transformer_samples(0.5, **SETTING, theorem=4, variant=variant)
        assert found["samples"] == pytest.approx(expected, abs=1, rel=1e-9) and found["information_floor"] == 12


def test_samples_hardly_depend_on_the_length():
    few, many = (transformer_samples(0.5, **(SETTING | {"length": length}))["samples"] for length in (10**2, 10**6))
    assert few < many < 2 * few
    fixed = {transformer_samples(0.5, **(SETTING | {"length": length}), theorem=4)["samples"] for length in (10, 10**6)}
    assert len(fixed) == 1


def test_clipping_removes_the_prefactor():
    plain, clipped = (transformer_risk(1000, **SETTING, clipped=flag) for flag in (False, True))
    assert clipped["estimation"] == pytest.approx(plain["estimation"] / plain["prefactor"])


def test_regime():
    assert regime(1000, 10, 2)["dominant"] == "feedforward" and regime(1, 30, 2)["dominant"] == "attention"
    middle = regime(12, 10, 2)
    assert middle["dominant"] == "balanced" and middle["ratio"] == 1
    assert middle["feedforward_term"] == 12 * 2 * 12 and middle["attention_term"] == 8 + 200
    for m, d, q in [(3, 5, 2), (40, 7, 7), (9, 8, 1)]:  # (d+q)^2/2 <= d^2+q^2 <= (d+q)^2
        numbers = regime(m, d, q)
        terms = numbers["feedforward_term"] / numbers["attention_term"]
        assert numbers["ratio"] <= terms * (1 + 1e-12) and terms <= 2 * numbers["ratio"] * (1 + 1e-12)


def test_by_name_with_text():
    given = {"samples": 1000, **SETTING}
    for theorem in (4, 10):
        numbers = predict("qstr/transformer-risk", **given, theorem=theorem)
        assert numbers == predict(
            "qstr/transformer-risk", **{k: str(v) for k, v in given.items()}, theorem=str(theorem)
        )
    assert predict("qstr/transformer-samples", target=0.5, **SETTING)["samples"] > 12
    assert predict("qstr/regime", link_width=1, dimension=30, sparsity=2)["dominant"] == "attention"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: transformer_risk(0, **SETTING), "samples must be an integer at least 1; got samples=0"),
        (lambda: transformer_risk(10, **SETTING, theorem=7), "theorem must be 4 or 10; got theorem=7"),
        (lambda: transformer_risk(10, **SETTING, link_error=-1.0), "link_error must be a finite number of at least 0"),
        (lambda: transformer_risk(10, **SETTING, variant="mended"), "variant must be 'printed' or 'repaired'"),
        (lambda: transformer_samples(0.0, **SETTING), "target must be a number greater than 0"),
        (lambda: regime(3, 5, 2, margin=0.5), "margin must be a number of at least 1; got margin=0.5"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(KroghError, match=message):
        call()
