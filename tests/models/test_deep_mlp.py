"""Deep ReLU networks: their formula, their start, and how their sizes are written."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.errors import KroghError
from krogh.models.deep_mlp import hidden_sizes

KEY = jax.random.key(5)


def naive(widths, p, x):
    for layer in range(1, len(widths) + 1):
        x = np.maximum(p[f"W{layer}"] @ x + p[f"b{layer}"], 0)
    return p["u"] @ x + p["c"]


@pytest.mark.parametrize("widths", [(7,), (9, 4), (5, 8, 3)])
def test_predictions_follow_the_formula_at_every_depth(widths):
    task, model = krogh.Table.example(), krogh.DeepMlp(widths)
    drawn = model.init(KEY, task)
    params = jax.tree.map(np.asarray, drawn)
    assert {name: leaf.shape for name, leaf in params.items() if name[0] == "W"} == {
        f"W{layer + 1}": shape for layer, shape in enumerate(zip(widths, (6, *widths), strict=False))
    }
    x = np.random.default_rng(0).normal(size=(11, 6)).astype(np.float32)
    expected = [naive(widths, {k: v.astype(np.float64) for k, v in params.items()}, row) for row in x]
    assert np.allclose(model.predict(drawn, jnp.asarray(x)), expected, atol=1e-5)


def test_weights_and_biases_of_every_layer_fill_the_range_of_its_fan_in():
    params = jax.tree.map(np.asarray, krogh.DeepMlp((400, 300)).init(KEY, krogh.Table.example()))
    for name, fan_in in {"W1": 6, "b1": 6, "W2": 400, "b2": 400, "u": 300}.items():
        bound = fan_in**-0.5
        assert np.abs(params[name]).max() <= bound and np.abs(params[name]).max() > 0.97 * bound, name
        assert abs(params[name].std() - bound / 3**0.5) < 0.1 * bound, name


def test_a_sparse_start_is_s_ones_in_every_row_of_the_first_layer_alone():
    task = krogh.Table.example()
    dense, sparse = (jax.tree.map(np.asarray, krogh.DeepMlp((900, 20), s).init(KEY, task)) for s in (0, 2))
    assert set(np.unique(sparse["W1"])) == {0.0, 1.0}
    assert (sparse["W1"].sum(axis=1) == 2).all()
    places = sparse["W1"].T @ sparse["W1"]  # each of the 15 pairs of columns about equally often
    pairs = places[np.triu_indices(6, 1)]
    assert abs(pairs - 60).max() < 4.5 * 60**0.5
    for name in set(dense) - {"W1"}:
        assert np.array_equal(dense[name], sparse[name]), name


@pytest.mark.parametrize(
    ("text", "sizes"), [("300", (300,)), ("300x2", (300, 300)), ("1000-100", (1000, 100)), ("5-6-7", (5, 6, 7))]
)
def test_sizes_are_read_from_text(text, sizes):
    assert hidden_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "wide", "300x", "300x2x2", "0", "300x0", "10--3", "-5"])
def test_other_texts_are_refused(text):
    with pytest.raises(KroghError, match="a network is written 300, 300x2 or 1000-100"):
        hidden_sizes(text)


def test_more_ones_than_columns_are_refused():
    with pytest.raises(KroghError, match=r"sparsity must be between 0 \(dense\) and n=6; got sparsity=7"):
        krogh.Trial(krogh.Table.example(), krogh.DeepMlp((5,), 7), krogh.Training(krogh.Sgd(0.1)))


@pytest.mark.parametrize("widths", [(), (0,), (5, 0)])
def test_layers_without_neurons_are_refused(widths):
    with pytest.raises(KroghError, match="width"):
        krogh.DeepMlp(widths)
