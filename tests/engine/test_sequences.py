"""Labels at every position over several classes, and examples that carry what they were drawn from."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine.checking import allowed_errors
from krogh.engine.memory import Plan
from krogh.errors import KroghError
from krogh.models.base import Model
from krogh.probes.base import Probe
from krogh.tasks.base import ClassificationTask, Examples
from krogh.training.losses import cross_entropy
from krogh.values import data, replaced, structure

LENGTH, CLASSES = 6, 3
CHAIN = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], np.float32)


class Successor(ClassificationTask):
    """The label at every position is the symbol after the one that stands there."""

    kind = "successor"
    classes = CLASSES
    input_shape = (LENGTH,)

    def draw(self, key, size):
        return jax.random.randint(key, (size, LENGTH), 0, CLASSES, jnp.int32)

    def decode(self, raw):
        y = (raw + 1) % CLASSES
        return Examples(raw, y, y)

    population_size = None

    def population(self):
        raise KroghError("not listed")

    def baselines(self):
        return {}

    @classmethod
    def example(cls):
        return cls()


class Chain(Successor):
    """Symbols of a Markov chain, each predicted from the one before; judged by the distance to the chain behind them.

    The chain's rows are turned by a number of places that differs from example to example, unless `turns` is 1.
    """

    chain: jax.Array = data()
    turns: int = structure(default=1)

    kind = "chain"
    regression = True

    def draw(self, key, size):
        places = jax.random.randint(jax.random.fold_in(key, 1), (size,), 0, self.turns, jnp.int32)

        def walk(key, place):
            logits = jnp.log(jnp.roll(self.chain, place, axis=1))

            def step(at, key):
                there = jax.random.categorical(key, logits[at])
                return there, there

            return jax.lax.scan(step, jnp.int32(0), jax.random.split(key, LENGTH + 1))[1]

        return jax.vmap(walk)(jax.random.split(key, size), places), places

    def decode(self, raw):
        symbols, places = raw
        chains = jax.vmap(lambda place: jnp.roll(self.chain, place, axis=1))(places)
        return Examples(symbols[:, :-1], symbols[:, 1:], symbols[:, 1:], {"chain": chains})

    def judge(self, prediction, examples):
        """Mean over positions of KL(P[x_t] ‖ softmax f_t)."""
        rows = jnp.take_along_axis(examples.latent["chain"], examples.x[:, :, None], axis=1)
        kl = jnp.sum(rows * (jnp.log(rows) - jax.nn.log_softmax(prediction, axis=-1)), axis=-1)
        return jnp.mean(kl, axis=1)


class Bigram(Model):
    """One row of logits per symbol."""

    kind = "bigram"

    def init(self, key, task):
        return {"W": 0.1 * jax.random.normal(key, (CLASSES, CLASSES))}

    def predict(self, params, x):
        return jnp.take(params["W"], x, axis=0)

    def check(self, task):
        pass

    @classmethod
    def example(cls):
        return cls(), Successor()


class Likelihood(Probe):
    """The mean probability that the chains behind the examples give to what was seen."""

    def columns(self, task):
        return ("likelihood",)

    def measure(self, moment):
        seen = moment.validation
        rows = jnp.take_along_axis(seen.latent["chain"], seen.x[:, :, None], axis=1)
        return jnp.mean(jnp.take_along_axis(rows, seen.truth[:, :, None], axis=2))[None]


def trial_of(task, **stopping):
    training = krogh.Training(
        optimiser=krogh.Adam(rate=0.05),
        regime=krogh.Online(batch_size=16),
        stopping=krogh.Stopping(**{"budget": 400, "validation": 64} | stopping),
        loss="cross-entropy",
    )
    return krogh.Trial(task, Bigram(), training)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [Plan(4, 1), Plan(4, 4)])
def test_a_model_of_sequences_trains_to_no_mistake(train, plan):
    (cohort,) = krogh.sweep(trial_of(Successor()), seed=range(4))
    for position, record in train(cohort, plan_override=plan).items():
        assert record.outcome == "converged" and record.accuracy == 1.0
        assert (record.weights["W"].argmax(axis=1) == [1, 2, 0]).all()
        examples = cohort[position].validation()
        assert examples.truth.shape == (64, LENGTH)


def test_the_error_of_a_sequence_is_the_share_of_wrong_positions():
    truth = jnp.zeros((2, 4), jnp.int32)
    logits = jnp.zeros((2, 4, 3)).at[:, :, 0].set(1.0).at[0, 1, 2].set(5.0).at[0, 2, 1].set(1.0).at[1, 0, 0].set(np.nan)
    np.testing.assert_array_equal(Successor().error(logits, truth), [0.5, 0.25])  # a tie and no number are mistakes


@pytest.mark.slow
def test_shares_are_held_against_the_threshold(train, one_by_one):
    """With accuracy 0.6 one symbol of three may be wrong, wherever it stands; the record holds the mean share."""
    (cohort,) = krogh.sweep(trial_of(Successor(), accuracy=0.6, check_every=1), seed=range(6))
    records = train(cohort, plan_override=one_by_one)
    errors = []
    for position, record in records.items():
        one, examples = cohort[position], cohort[position].validation()
        logits = np.asarray(one.model.predict(record.weights, examples.x))
        share = np.mean(logits.argmax(axis=2) != np.asarray(examples.truth))
        assert record.outcome == "converged" and 1 - record.accuracy == pytest.approx(share, abs=1e-6)
        assert share * 64 <= allowed_errors(one) == 25
        errors.append(share)
    assert any(error > 0.2 for error in errors)


@pytest.mark.slow
def test_cross_entropy_is_averaged_over_positions(train, one_by_one):
    """The loss of a round of one step at rate 0 is the mean over all positions of the batch."""
    trial = replaced(trial_of(Successor(), budget=1, check_every=1), "training.optimiser.rate", 0.0)
    (cohort,) = krogh.stack([trial])
    record = train(cohort, plan_override=one_by_one)[0]
    drawn = trial.task.batch(jax.random.fold_in(trial.key(1), 0), 16)
    losses = cross_entropy(Bigram().predict(trial.initial_params(), drawn.x), drawn.y)
    assert losses.shape == (16, LENGTH)
    assert record.loss == pytest.approx(float(jnp.mean(losses)), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [Plan(4, 1), Plan(16, 16)])
def test_a_trial_may_be_judged_by_what_is_behind_its_examples(train, plan):
    (cohort,) = krogh.sweep(trial_of(Chain(CHAIN), error=0.01, budget=1000), seed=range(4))
    for position, record in train(cohort, plan_override=plan).items():
        assert record.outcome == "converged"
        rows = jax.nn.softmax(jnp.asarray(record.weights["W"]), axis=1)
        apart = np.sum(CHAIN * np.log(CHAIN / np.asarray(rows)), axis=1)
        x = np.asarray(cohort[position].validation().x)
        assert 1 - record.accuracy == pytest.approx(np.mean(apart[x]), abs=1e-5)


@pytest.mark.slow
def test_probes_see_the_chains_of_their_own_examples():
    """Chains differ from example to example, so the likelihood is right only where each is with its own sequence."""
    trial = krogh.Trial(
        (task := Chain(CHAIN, turns=3)),
        Bigram(),
        trial_of(task, error=0.01, budget=20).training,
        probes=(Likelihood(), krogh.Error()),
        probe_every=20,
    )
    table = krogh.run(trial)
    seen = trial.validation()
    chains, x, y = (np.asarray(part) for part in (seen.latent["chain"], seen.x, seen.truth))
    assert len(np.unique(chains, axis=0)) == 3
    expected = np.mean([chains[i, x[i], y[i]].mean() for i in range(64)])
    assert table["curve.likelihood"][0].to_list() == pytest.approx([expected] * 2, abs=1e-6)
    assert table["curve.error"][0][-1] == pytest.approx(table["error"][0], abs=1e-6)
