"""Certificates of compiled machines: the reference's values, and attacks and trials that do not refute them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.layout import reference_bits
from krogh.networks.machines.running import machine_hidden
from krogh.networks.margins.attack import Effort, trial_perturbations
from krogh.networks.margins.machines import (
    _LayerNorms,
    _withstands,
    after_attention,
    attention_norms,
    certify_machine,
    certify_transformer,
    keeps_winners,
    machine_sizes,
    score_changes,
)
from krogh.networks.margins.report import margin_report
from krogh.programs.machines.library import load_machine
from krogh.theory.programs.theorem import Spread

# log2 T: certificate of PALINDROME (COUNTER has the same) with the reference's number of bits
REFERENCE = {4: 8.7e-5, 6: 5.3e-5, 8: 3.6e-5, 12: 2.1e-5, 16: 1.4e-5, 20: 1.0e-5}


@pytest.mark.parametrize(("log_steps", "value"), REFERENCE.items())
@pytest.mark.parametrize("name", ["palindrome", "counter"])
def test_reference_values(name, log_steps, value):
    steps = 2**log_steps
    bits = reference_bits(steps, 0)
    found = certify_machine(compile_machine(load_machine(name), steps, input_length=1, position_bits=bits))
    assert found.theorem.value == pytest.approx(value, rel=0.035)
    assert found.theorem.binding == "σh/(2κξλ)" and found.theorem.constants.lam == math.sqrt(4 * bits + 6)
    assert 30 * found.theorem.value < found.refined < 100 * found.theorem.value


def test_both_adders_and_many_states():
    ripple = certify_machine(compile_machine(load_machine("palindrome"), 16, adder="ripple"))
    ahead = certify_machine(compile_machine(load_machine("palindrome"), 16))
    assert ripple.theorem.value == pytest.approx(ahead.theorem.value, rel=1e-6)
    assert ripple.refined == pytest.approx(ahead.refined, rel=0.2)


@pytest.mark.parametrize("adder", ["look-ahead", "ripple"])
def test_sizes_bound_the_true_hidden_vectors(adder):
    compiled = compile_machine(load_machine("palindrome"), 20, input_length=4, adder=adder)
    hidden = machine_hidden(compiled, ["0110", "011", "1", ""])
    assert np.isin(hidden, (0.0, 1.0)).all()
    found = np.linalg.norm(hidden, axis=-1).max(axis=(0, 1))
    sizes = np.array(machine_sizes(compiled))
    assert (
        sizes.shape == found.shape
        and np.all(found <= sizes + 1e-12)
        and sizes.max() <= math.sqrt(4 * compiled.bits + 6)
    )
    assert np.all(sizes <= found + 2), "and not by much"


def test_each_condition_can_bind():
    compiled = compile_machine(load_machine("palindrome"), 16, input_length=4)
    sizes, encoder = machine_sizes(compiled), math.sqrt(1 + compiled.bits)
    found = certify_transformer(compiled.parameters, sizes, encoder).refined
    assert found == pytest.approx(3.535e-3, rel=1e-3)
    unhindered = certify_transformer(compiled.parameters, sizes, encoder, gap=1e6).refined
    assert found < unhindered == pytest.approx(4.820e-3, rel=1e-3), "rounding binds where scores do not"
    decided = certify_transformer(compiled.parameters, sizes, encoder, decide=1e4).refined
    assert decided == pytest.approx(1e-4 / 12.2, rel=0.03), "1/(‖cls‖·gain)"


def test_a_step_must_withstand_the_errors_of_the_step_before():
    """A large row: from o_0, which moves by t, t = 1/160 would do; outputs move by 6t, and then it is too much."""
    layers = [_LayerNorms(norm=50.0, row=50.0, radius=1 / 3, attention=None, over_input=False)]

    def withstands(t):
        return _withstands(layers, [1.0, 1.0], 1.0, 1.0, 1.0, t)

    assert math.hypot(50.0, 1.5) / 160 < 1 / 3 and not withstands(1 / 160)
    assert not withstands(1 / 800) and withstands(1 / 1200)


def perturbed(rng, parts, t):
    change = [rng.normal(size=part.shape) * (rng.random(part.shape) < rng.choice([0.1, 1.0])) for part in parts]
    size = math.sqrt(sum(float(np.sum(part**2)) for part in change)) or 1.0
    return [part + t * part_change / size for part, part_change in zip(parts, change, strict=True)]


@pytest.mark.parametrize("place", [6, 8, 12, 13])
def test_attention_under_random_perturbations(place):
    """Scores move by at most `score_changes`, winners stay so, and what is added moves as `after_attention` says."""
    compiled = compile_machine(load_machine("palindrome"), 15, input_length=4)
    kind = "enc" if f"L{place}.enc.Wq" in compiled.parameters else "dec"
    prefix = f"L{place}.{kind}"
    dense = compiled.dense_parameters()
    names = [f"{prefix}.{name}" for name in ("Wq", "bq", "Wk", "bk", "Wv", "bv", "K0", "V0")]
    parts = [dense[name] for name in names]
    norms = attention_norms(compiled.parameters, prefix)
    rng = np.random.default_rng(place)
    hidden = machine_hidden(compiled, ["0110"])[0][:, place - 1]
    encoded = dense["E"][:, compiled.tokens(["0110"])[0][0]].T + compiled.positions[1:5]

    def attend(h, memory, weights):
        wq, bq, wk, bk, wv, bv, null_key, null_value = weights
        keys = np.vstack([null_key, memory @ wk.T + bk])
        values = np.vstack([null_value, memory @ wv.T + bv])
        scores = keys @ (wq @ h + bq)
        winners = scores == scores.max()
        return scores, winners, h + values[winners].mean(axis=0)

    t, gain = 2e-3, 3.0
    for step in range(len(hidden)):
        h, memory = hidden[step], encoded if kind == "enc" else hidden[: step + 1]
        own = Spread(float(np.linalg.norm(h)), gain)
        past = Spread(float(np.linalg.norm(memory, axis=1).max()), 1.0 if kind == "enc" else gain)
        between, to_null = score_changes(norms, own, past, t, kind == "dec")
        safe = keeps_winners(norms, own, past, t, kind == "dec", 1.0)
        after = after_attention(norms, own, past, t, kind == "dec")
        scores, winners, added = attend(h, memory, parts)
        assert scores[winners].min() - scores[~winners].max(initial=-np.inf) >= 1
        for _ in range(20):
            # what came before (for the input: the embedding, apart from it) and the attention's own parameters share t
            shares = np.abs(rng.normal(size=3)) * rng.integers(0, 2, 3)
            shares /= np.linalg.norm(shares) or 1.0
            off, far = rng.normal(size=h.shape), rng.normal(size=memory.shape)
            moved_h = h + gain * t * shares[0] * off / np.linalg.norm(off)
            reach = t * shares[1] if kind == "enc" else gain * t * shares[0]
            moved = memory + reach * far / np.linalg.norm(far, axis=1, keepdims=True)
            if kind == "dec":
                moved[-1] = moved_h
            left = t * shares[2]
            new_scores, new_winners, new_added = attend(moved_h, moved, perturbed(rng, parts, left))
            change = new_scores - scores
            assert np.ptp(change[1:]) <= between * (1 + 1e-9)
            assert np.abs(change[1:] - change[0]).max() <= to_null * (1 + 1e-9)
            if safe:
                assert not np.any(new_winners & ~winners)
                assert np.linalg.norm(new_added - added) <= after.gain * t * (1 + 1e-9)


def test_scores_do_move_as_much_along_their_slopes():
    """Query and key moved together along the slopes of one score against another: nearly all that is allowed."""
    compiled = compile_machine(load_machine("palindrome"), 15, input_length=4)
    prefix, place, t, gain = "L12.dec", 12, 1e-4, 30.0
    wq, bq, wk, bk, null = (compiled.dense_parameters()[f"{prefix}.{name}"] for name in ("Wq", "bq", "Wk", "bk", "K0"))
    norms = attention_norms(compiled.parameters, prefix)
    assert norms.even and norms.dimension == 2 * compiled.bits + 1
    hidden = machine_hidden(compiled, ["0110"])[0][:, place - 1]
    h, past = hidden[9], hidden[4]
    spread = Spread(float(np.linalg.norm(hidden, axis=1).max()), gain)
    between, to_null = score_changes(norms, spread, spread, t, True)

    def along(slope):
        return gain * t * slope / np.linalg.norm(slope)

    query, key, other = wq @ h + bq, wk @ past + bk, wk @ hidden[7] + bk
    moved = wq @ (h + along(wq.T @ (key - null))) + bq
    change = moved @ (wk @ (past + along(wk.T @ query)) + bk - null) - query @ (key - null)
    assert 0.9 * to_null < change <= to_null
    moved = wq @ (h + along(wq.T @ (key - other))) + bq
    moved_key, moved_other = wk @ (past + along(wk.T @ query)) + bk, wk @ (hidden[7] - along(wk.T @ query)) + bk
    change = moved @ (moved_key - moved_other) - query @ (key - other)
    assert 0.6 * between < change <= between


def test_what_is_refused():
    machine = load_machine("palindrome")
    with pytest.raises(KroghError, match="certificates are for hard attention"):
        certify_machine(compile_machine(machine, 8, attention="soft"))
    without = certify_machine(compile_machine(machine, 8, correction=False))
    assert without.theorem is None and without.value == 0
    compiled = compile_machine(machine, 8)
    sizes = machine_sizes(compiled)
    with pytest.raises(KroghError, match="sizes has a norm before the first layer"):
        certify_transformer(compiled.parameters, sizes[1:], 2.0)
    broken = dict(compiled.dense_parameters())
    broken["L3.ff.b2"] = broken["L3.ff.b2"] * 1.01
    with pytest.raises(KroghError, match=r"L3\.ff is not a rounding"):
        certify_transformer(broken, sizes, 2.0)
    scaled = dict(compiled.dense_parameters())
    scaled["L6.dec.Wq"] = 2 * scaled["L6.dec.Wq"]
    with pytest.raises(KroghError, match="constants for attention"):
        certify_transformer(scaled, sizes, 2.0)
    same = certify_transformer(compiled.dense_parameters(), sizes, math.sqrt(1 + compiled.bits))
    assert same.refined == pytest.approx(certify_machine(compiled).refined)


@pytest.mark.slow
def test_lower_bounds_are_below_attacks_and_trials_do_not_refute_them():
    compiled = compile_machine(load_machine("parity"), 4, input_length=3)
    report = margin_report(compiled, ["101"], effort=Effort(6, 10, 3))
    assert 0 < report.lower <= report.upper < 1
    assert report.sizes.parameters == compiled.parameter_count and report.sizes.depth == compiled.depth
    subject = compiled.subject(["101", "1"])
    assert subject.labels == (0, 1)
    found = trial_perturbations(subject, report.lower / 2, random=400, adversarial=6)
    assert found.flips == 0 and found.least > 0.5
