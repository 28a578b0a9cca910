"""Probes of chains against plain loops, and on networks whose attention is known."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import CausalTransformer, MinimalInduction, Mlp
from krogh.networks.induction import induction_head
from krogh.probes import Moment
from krogh.probes.chains import (
    PARTS,
    AttentionScores,
    BayesDistance,
    MinimalWeights,
    PartLosses,
    PositionalEncoding,
    even_odd,
    induction,
    previous_token,
)
from krogh.probes.strategies import StrategyDistances
from krogh.tasks import Parity
from krogh.tasks.chains import DirichletRows, DoublyStochastic, MarkovChains, Unigram
from krogh.theory.chains.bayes import bayes_prediction


def moment(task, model, params, size=40, seed=0):
    examples = jax.jit(lambda key: task.batch(key, size))(jax.random.key(seed))
    return Moment(task, model, params, params, examples, jnp.float32(0), jnp.int32(0))


def measured(probe, seen):
    found = np.asarray(jax.jit(lambda seen: probe.measure(seen))(seen))
    return dict(zip(probe.columns(seen.task), found.tolist(), strict=True))


@pytest.fixture(scope="module")
def drawn():
    task, model = MarkovChains(3, 10), CausalTransformer(dimension=8)
    return moment(task, model, jax.jit(lambda key: model.init(key, task))(jax.random.key(1)))


def test_losses_distances_and_baselines_are_those_of_a_plain_loop(drawn):
    found = measured(StrategyDistances(), drawn)
    logits = np.asarray(jax.jit(drawn.model.predict)(drawn.params, drawn.validation.x), np.float64)[:, -1]
    says = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    tokens, P, k = np.asarray(drawn.validation.x), np.asarray(drawn.validation.latent["P"], np.float64), 3
    columns = {name: [] for name in found}
    for row, chain, said in zip(tokens.tolist(), P, says, strict=True):
        truth = chain[row[-1]]
        counts = {"uniform": np.zeros(k), "unigram": np.zeros(k), "bigram": np.zeros(k)}
        for token in row:
            counts["unigram"][token] += 1
        for before, after in itertools.pairwise(row):
            if before == row[-1]:
                counts["bigram"][after] += 1
        columns["loss"].append(sum(p * math.log(p / q) for p, q in zip(truth, said, strict=True)))
        for name, counted in counts.items():
            law = (counted + 1) / (counted.sum() + k)
            columns[f"distance_{name}"].append(sum(p * math.log(p / q) for p, q in zip(law, said, strict=True)))
            columns[f"baseline_{name}"].append(sum(p * math.log(p / q) for p, q in zip(truth, law, strict=True)))
    for name, values in columns.items():
        assert found[name] == pytest.approx(np.mean(values), rel=1e-4), name


def test_a_strategy_as_a_network_is_judged_as_the_strategy(drawn):
    """The logarithm of what a strategy says, as logits, loses what the strategy loses and is at no distance from it."""
    task, seen = drawn.task, drawn.validation
    for name, strategy in task.strategies().items():
        said = strategy(seen.x)
        logits = jnp.broadcast_to(jnp.log(said)[:, None, :], (*seen.x.shape, task.k))
        np.testing.assert_allclose(task.judge(logits, seen), task.judge_strategy(said, seen), atol=1e-5, err_msg=name)
        np.testing.assert_allclose(task.distance(said, logits), 0, atol=1e-5, err_msg=name)


def test_scores_of_the_constructed_head_and_of_even_attention():
    head = induction_head(3, 12, c=200.0)
    weights = {name: jnp.asarray(np.asarray(leaf), jnp.float32) for name, leaf in head.parameters.items()}
    found = measured(AttentionScores(), moment(head.task, head.model, weights))
    assert found["previous_token"] == pytest.approx(1.0, abs=1e-4)
    # Where nothing followed the present symbol yet, the head falls back on all positions; position 1 is its own past.
    assert found["induction"] > 0.8
    t, tokens = 12, jnp.asarray([[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 0]])
    even = jnp.asarray(np.tri(t) / np.arange(1, t + 1)[:, None], jnp.float32)
    assert float(previous_token(even)) == pytest.approx(np.mean(1 / np.arange(2, t + 1)), rel=1e-5)
    assert float(induction(even[None, None], tokens)[0, 0]) == pytest.approx(4 / 12, rel=1e-5)  # 0 was followed 4 times


def test_the_even_odd_index_is_a_difference_of_means():
    u = jnp.asarray([9.0, 9.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0, 4.0, 8.0, 100.0, 100.0])
    assert float(even_odd(u)) == pytest.approx(np.mean([5, 6, 7, 8]) - np.mean([1, 2, 3, 4]))
    assert float(even_odd(u[:4])) == pytest.approx(5.0 - 1.0)
    with pytest.raises(KroghError, match="at least 4"):
        even_odd(u[:3])


def test_the_encoding_is_the_first_layers_and_adds_up(drawn):
    found = measured(PositionalEncoding(), drawn)
    v = np.asarray(jax.jit(drawn.model.positional)(drawn.params))[0].mean(axis=(0, 1))
    assert [found[f"encoding_{j}"] for j in range(1, 9)] == pytest.approx(v[:8].tolist(), rel=1e-5)
    assert v.sum() == pytest.approx(1.0, rel=1e-5)
    assert found["even_odd"] == pytest.approx(v[3:10:2].mean() - v[2:10:2].mean(), rel=1e-3)


@pytest.mark.slow
def test_the_exact_predictor_is_the_one_of_theory(drawn):
    probe = BayesDistance(size=40, samples=4000)
    found = np.asarray(jax.jit(lambda tokens: probe.predictor(drawn.task, tokens))(drawn.validation.x))
    known = bayes_prediction(np.asarray(drawn.validation.x), 3)
    off = np.abs(found - known.mean) / known.error
    assert off.max() < 6 and np.sqrt(np.mean(off**2)) < 2, "two estimates with the same error"
    bigram = np.asarray(drawn.task.strategies()["bigram"](drawn.validation.x))
    assert (np.abs(bigram - known.mean) / known.error).max() > 10, "the first token says something"
    seen = measured(probe, drawn)
    logits = np.asarray(jax.jit(drawn.model.predict)(drawn.params, drawn.validation.x), np.float64)[:, -1]
    said = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    truth = np.asarray(drawn.task.true_rows(drawn.validation), np.float64)
    assert seen["distance_bayes"] == pytest.approx(np.mean(np.sum(found * (np.log(found) - said), axis=1)), abs=1e-5)
    own = np.mean(np.sum(truth * (np.log(truth) - np.log(found)), axis=1))
    assert seen["baseline_bayes"] == pytest.approx(own, abs=1e-5)


def test_minimal_weights_are_read_off_w_and_v():
    W = jnp.asarray([[4.0, 1.0], [3.0, 6.0]])
    v = jnp.asarray([2.0, 5.0, 1.0, 3.0, 1.0, 2.0, 1.0, 2.0, 7.0])
    found = measured(MinimalWeights(), moment(MarkovChains(2, 9), MinimalInduction(), {"W": W, "v": v}, size=2))
    assert found["diag_ratio"] == pytest.approx(2.5) and found["diag_gap"] == pytest.approx(3.0)
    assert found["v_spread"] == pytest.approx(1.5) and found["v2"] == 5.0 and found["v8"] == 2.0
    assert found["v_even_odd"] == pytest.approx(np.mean([3, 2, 2]) - np.mean([1, 1, 1, 7]))


@pytest.mark.slow
def test_parts_are_laws_of_their_own():
    """A network that says nothing loses on each part what the uniform guess does there."""
    task, model = MarkovChains(3, 8, Unigram(), judged=DoublyStochastic()), MinimalInduction()
    found = measured(PartLosses(2048), moment(task, model, {"W": jnp.zeros((3, 3)), "v": jnp.zeros(8)}, size=2))
    assert list(found) == [f"loss_{name}" for name in PARTS]
    # E KL(row ‖ uniform) = log 3 - E H: flat rows have E H = 1/2 + 1/3; of stationary visits less is left.
    assert found["loss_unigram"] == pytest.approx(math.log(3) - (1 / 2 + 1 / 3), abs=0.01)
    assert found["loss_doubly_stochastic"] == pytest.approx(0.215, abs=0.01)
    assert found["loss_dirichlet"] == pytest.approx(0.280, abs=0.012)


def test_probes_refuse_what_they_cannot_read():
    task, network = MarkovChains(2, 8), CausalTransformer(dimension=8, layers=1)
    for probe, given in (
        (StrategyDistances(), (Parity(8, 2), Mlp(4))),
        (AttentionScores(), (task, network)),
        (PositionalEncoding(), (task, CausalTransformer(dimension=8, positions="absolute"))),
        (MinimalWeights(), (task, network)),
        (PartLosses(), (MarkovChains(2, 8, order=3), network)),
        (BayesDistance(), (MarkovChains(2, 8, start="uniform"), network)),
        (BayesDistance(), (MarkovChains(2, 8, Unigram()), network)),
        (BayesDistance(), (MarkovChains(2, 8, judged=DirichletRows(2.0)), network)),
    ):
        with pytest.raises(KroghError):
            probe.check(*given)
