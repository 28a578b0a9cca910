"""What views show is what the weights say: each panel against a computation by other means."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from replays import invented, trials

import krogh
from krogh.errors import KroghError
from krogh.lab.frames import examples_of
from krogh.probes.views import Bars, HeatMap, Lines, Look, Numbers, View, panels_of
from krogh.registry import VIEWS


def look_of(kind: str, step: int = 30) -> Look:
    network = invented(trials()[kind])
    trial = network.trial
    examples = examples_of(trial)
    return Look(trial.task, trial.model, network.at(step), network.initial, network.final, examples, step)


@pytest.fixture(scope="module")
def seen():
    return {kind: (look := look_of(kind), {panel.name: panel for panel in panels_of(look)}) for kind in trials()}


def test_every_kind_of_network_has_its_views(seen):
    kinds = {kind: {type(panel) for panel in panels.values()} for kind, (_, panels) in seen.items()}
    assert kinds["transformer"] == kinds["minimal"] == kinds["parity"] == {HeatMap, Bars, Numbers}
    assert kinds["group"] == {HeatMap, Bars, Lines, Numbers}


def test_attention_maps_are_rows_of_probabilities_that_do_not_look_ahead(seen):
    look, panels = seen["transformer"]
    for layer in (1, 2):
        weights = np.asarray(panels[f"Attention, layer {layer}"].values)
        assert np.allclose(weights.sum(axis=1), 1, atol=1e-5) and not np.triu(weights, 1).any()
    bars = panels["Where the last position looks"]
    assert np.allclose(list(bars.values.values()), weights[-1], atol=1e-6)
    tokens = np.asarray(look.examples.x[0])
    assert bars.marked == tuple(str(j) for j in range(2, 13) if tokens[j - 2] == tokens[-1])
    induction = sum(bars.values[name] for name in bars.marked)
    assert panels["Heads"].values["induction, layer 2"] == pytest.approx(induction, abs=1e-5)


def test_the_positional_encoding_is_the_softmax_of_queries_with_relative_vectors(seen):
    look, panels = seen["transformer"]
    E, Q, v = (np.asarray(look.params[name], np.float64) for name in ("E", "Q", "v"))
    scores = E @ Q[0] @ v[0].T / np.sqrt(E.shape[1])
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert np.allclose(list(panels["Effective positional encoding"].values.values()), shares.mean(axis=0), atol=1e-5)


def test_distances_to_strategies_are_divergences_of_the_last_prediction(seen):
    look, panels = seen["minimal"]
    x = np.asarray(look.examples.x)
    logits = np.asarray(look.model.predict({k: jnp.asarray(v) for k, v in look.params.items()}, x))[:, -1].astype(float)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    counts = np.stack([(x == symbol).sum(axis=1) + 1 for symbol in range(2)], axis=1)
    p = counts / counts.sum(axis=1, keepdims=True)
    found = panels["Distance to strategies"].values
    assert list(found) == ["uniform", "unigram", "bigram"]
    assert found["unigram"] == pytest.approx((p * (np.log(p) - logs)).sum(axis=1).mean(), rel=1e-4)


def test_the_minimal_model_shows_its_matrix_and_its_vector(seen):
    look, panels = seen["minimal"]
    assert np.array_equal(panels["Second layer W"].values, look.params["W"].astype(np.float64))
    assert list(panels["First layer v"].values.values()) == pytest.approx(look.params["v"].tolist())
    assert panels["Mean of W"].values["diagonal"] == pytest.approx(np.diag(look.params["W"]).mean(), rel=1e-5)


def test_fourier_coefficients_are_means_over_the_cube(seen):
    look, panels = seen["parity"]
    cube = np.array(list(itertools.product((1.0, -1.0), repeat=6)))
    W, b, u = (look.params[name].astype(np.float64) for name in ("W", "b", "u"))
    f = np.maximum(cube @ W.T + b, 0) @ u
    sets = [subset for size in range(7) for subset in itertools.combinations(range(6), size)]
    exact = {subset: float(np.mean(f * cube[:, list(subset)].prod(axis=1))) for subset in sets}
    shown = panels["Fourier coefficients"]
    assert shown.marked == ("{2, 5}",)
    for name, subset in (("{2}", (1,)), ("{5}", (4,)), ("{2, 5}", (1, 4))):
        assert shown.values[name] == pytest.approx(exact.pop(subset), abs=1e-5)
    rest = max(abs(value) for subset, value in exact.items() if subset)
    assert shown.values["largest of all other sets"] == pytest.approx(rest, abs=1e-5)
    assert sum(panels["Weight by degree"].values.values()) == pytest.approx(1)


def test_coefficients_of_many_bits_are_estimated():
    trial = krogh.Trial(krogh.Parity(20, 2), krogh.Mlp(4))
    weights = {"W": np.eye(4, 20, dtype=np.float32), "b": np.zeros(4, np.float32), "u": np.ones(4, np.float32)}
    panels = {
        p.name: p for p in panels_of(Look(trial.task, trial.model, weights, weights, weights, trial.validation(8), 0))
    }
    shown = panels["Fourier coefficients"]  # Σ relu(x_i) over four bits has ½ at each of them
    assert shown.values["{1}"] == pytest.approx(0.5, abs=0.05) and shown.values["{1, 2}"] == pytest.approx(0, abs=0.05)
    assert shown.values["largest of single others"] == pytest.approx(0.5, abs=0.05)
    assert "Weight by degree" not in panels and "random inputs" in shown.about


def test_movement_is_that_of_the_weights_and_marks_the_support(seen):
    look, panels = seen["parity"]
    moved = np.abs(look.params["W"] - look.initial["W"]).max(axis=0)
    bars, weights = panels["Movement of each coordinate"], panels["Weights of the first layer"]
    assert list(bars.values.values()) == pytest.approx(moved.tolist(), abs=1e-6) and bars.marked == ("2", "5")
    assert weights.marked == (1, 4)
    assert {tuple(row) for row in np.asarray(weights.values)} == {tuple(row) for row in look.params["W"]}
    assert panels["Largest movement"].values["on the support"] == pytest.approx(moved[[1, 4]].max(), abs=1e-6)


def test_powers_of_neurons_are_those_of_their_transforms(seen):
    look, panels = seen["group"]
    heat = np.asarray(panels["Power of neurons by frequency"].values)
    assert heat.shape == (2, 8)
    power = sum(np.abs(np.fft.fft(look.params[name].astype(float), axis=1)) ** 2 for name in "UVW")
    folded = np.stack([power[:, 0], power[:, 1] + power[:, 4], power[:, 2] + power[:, 3]], axis=1)
    shares = (folded / folded.sum(axis=1, keepdims=True))[:, 1:].T
    assert np.allclose(np.sort(heat, axis=1), np.sort(shares, axis=1), atol=1e-5)
    assert sum(panels["Share of each frequency"].values.values()) == pytest.approx(1)
    norms = np.linalg.norm(np.concatenate([look.final[name] for name in "UVW"], axis=1), axis=1)
    assert np.allclose(panels["The largest neuron"].lines["u"], look.params["U"][norms.argmax()])


@pytest.fixture
def unfiled():
    VIEWS.load()
    before = dict(VIEWS._things)
    yield
    VIEWS._things.clear()
    VIEWS._things.update(before)


def test_a_view_of_ones_own_is_shown_beside_the_others_where_it_fits(unfiled):
    @krogh.view("mine", model=krogh.Mlp)
    def mine(look):
        """Mine."""
        yield krogh.Numbers("My number", {"one": 1.0})

    assert VIEWS["mine"].summary == "Mine." and isinstance(VIEWS["mine"], View)
    names = [panel.name for panel in panels_of(look_of("parity"))]
    assert "My number" in names and "Fourier coefficients" in names
    assert "My number" not in [panel.name for panel in panels_of(look_of("group"))]


def test_two_panels_of_one_name_are_refused(unfiled):
    krogh.view("twice", model=krogh.Mlp)(lambda look: [krogh.Numbers("Fourier coefficients", {"one": 1.0})])
    with pytest.raises(KroghError, match="got twice: Fourier coefficients"):
        panels_of(look_of("parity"))
