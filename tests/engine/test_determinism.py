"""Law 1: a trial does not know its neighbours.

What holds, and is tested here:

- Initial weights, training examples and validation sample depend on the trial alone, always and exactly.
- Trained one by one (a CPU's strategy), a record is identical to the last bit: alone, in any cohort, order and
  number of slots, and when only what is missing is trained.
- Except for the whole of a finite sample in every step (`FullBatch`): the sum over examples runs over the cohort's
  largest m, so neighbours with more examples change the order of additions, and weights by rounding only.
- Trained in blocks (a GPU's strategy), sums may run in another order: weights agree up to rounding, and the
  convergence time of most trials is the same.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine.memory import Plan
from krogh.engine.trial import DATA, INIT, VALIDATION
from krogh.training.losses import find_loss
from krogh.values import replaced


def changed(trial: krogh.Trial, **fields: object) -> krogh.Trial:
    for path, value in fields.items():
        trial = replaced(trial, path.replace("__", "."), value)
    return trial


@pytest.fixture(scope="module")
def sixteen(base):
    """Trials that differ in everything a cohort may hold."""
    return [
        changed(
            base,
            seed=seed,
            init_seed=(seed * 7) % 5,
            task__support=[(0, 1), (2, 5), (1, 4)][seed % 3],
            task__noise=[0.0, 0.1][seed % 2],
            training__optimiser__rate=[0.1, 0.05, 0.2, 0.1][seed % 4],
            training__optimiser__decay=[0.0, 1e-3][seed // 8],
            training__stopping__budget=[60, 300][seed % 2],
        )
        for seed in range(16)
    ]


@pytest.fixture(scope="module")
def together(train, sixteen):
    (cohort,) = krogh.stack(sixteen)
    return train(cohort)


def agree(together, records, places):
    for position, place in enumerate(places):
        assert records[position].bits == together[place].bits, f"trial {place} differs"


def test_the_cohort_has_all_sorts_of_outcomes(together):
    assert {record.outcome for record in together.values()} == {"converged", "failed"}
    assert len({record.steps for record in together.values()}) > 5


@pytest.mark.parametrize("places", [[0], [5], [3, 4], [2, 15, 9, 0, 7, 12, 5], list(range(15, -1, -1))], ids=str)
def test_alone_in_small_cohorts_and_in_another_order(train, sixteen, together, places):
    (cohort,) = krogh.stack([sixteen[place] for place in places])
    agree(together, train(cohort), places)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [Plan(1, 1), Plan(8, 1)], ids=str)
def test_any_number_of_slots(train, sixteen, together, plan):
    (cohort,) = krogh.stack(sixteen)
    agree(together, train(cohort, plan_override=plan), range(16))


def test_resumption_trains_only_what_is_missing(train, sixteen, together):
    (cohort,) = krogh.stack(sixteen)
    missing = np.array([1, 6, 14, 3, 11, 8, 2])
    for position, record in train(cohort, missing).items():
        assert record.bits == together[position].bits


def test_a_cohort_twice_gives_the_same_bits(train, sixteen, together):
    (cohort,) = krogh.stack(sixteen + sixteen[::-1])
    records = train(cohort, plan_override=Plan(8, 1))
    agree(together, records, [*range(16), *range(15, -1, -1)])


def test_identities_do_not_depend_on_the_neighbours(sixteen):
    (cohort,) = krogh.stack(sixteen)
    ids = cohort.ids()
    assert len(set(ids.tolist())) == 16
    for place in (0, 7):
        assert krogh.stack([sixteen[place]])[0].ids()[0] == ids[place]
        assert cohort[place].initial_params()["W"].tobytes() == sixteen[place].initial_params()["W"].tobytes()


@pytest.mark.slow
def test_offline_does_not_feel_a_neighbour_with_more_examples(train, offline, one_by_one):
    few, many = ([changed(offline, training__regime__m=m, seed=m) for m in sizes] for sizes in ((20, 33, 40), (7, 90)))
    (small,), (large,) = krogh.stack(few), krogh.stack(many + few)
    alone, among = train(small, plan_override=one_by_one), train(large, plan_override=one_by_one)
    for position in range(3):
        assert alone[position].bits == among[position + 2].bits


@pytest.mark.slow
def test_full_batches_feel_it_in_the_rounding_only(train, full_batch, one_by_one):
    few, many = ([changed(full_batch, training__regime__m=m, seed=m) for m in sizes] for sizes in ((20, 33), (33, 90)))
    (small,), (large,) = krogh.stack(few), krogh.stack(many + few)
    alone, among = train(small, plan_override=one_by_one), train(large, plan_override=one_by_one)
    assert among[0].bits == among[3].bits  # the same trial twice
    for position in range(2):
        assert alone[position].reached == among[position + 2].reached
        for name, leaf in alone[position].weights.items():
            np.testing.assert_allclose(leaf, among[position + 2].weights[name], atol=1e-4)


SEEDS = (0, 1, 77, 2**31, 2**32 - 1)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["one_by_one", "in_blocks"])
def test_weights_and_data_are_the_trials_own(train, base, strategy, share_right, request):
    """With rate 0 the last weights are the first; the accuracy and the loss show which examples were read."""
    still = changed(base, training__optimiser__rate=0.0, training__stopping__budget=20)
    (cohort,) = krogh.sweep(still, seed=SEEDS)
    records = train(cohort, plan_override=request.getfixturevalue(strategy))
    for position, trial in enumerate(cohort):
        record, initial = records[position], trial.initial_params()
        assert {name: leaf.tobytes() for name, leaf in record.weights.items()} == {
            name: np.asarray(leaf).tobytes() for name, leaf in initial.items()
        }
        np.testing.assert_allclose(record.accuracy, share_right(trial, initial), atol=1e-6)
        raw = trial.training.regime.feed(trial.task, trial.key(DATA), jnp.int32(10), 10)
        examples = trial.task.decode(
            jax.tree.map(lambda leaf: leaf.reshape(80, -1) if leaf.ndim > 2 else leaf.ravel(), raw)
        )
        losses = find_loss("hinge")(trial.model.predict(initial, examples.x), examples.y)
        np.testing.assert_allclose(record.loss, np.mean(losses), rtol=1e-5)


def test_seeds_tell_trials_apart(base):
    (cohort,) = krogh.sweep(base, seed=SEEDS)
    weights = {np.asarray(trial.initial_params()["W"]).tobytes() for trial in cohort}
    inputs = {np.asarray(trial.validation().x).tobytes() for trial in cohort}
    assert len(weights) == len(inputs) == len(SEEDS)


def test_weights_training_and_validation_have_streams_of_their_own(base, offline):
    assert len({jax.random.key_data(base.key(stream)).tobytes() for stream in (INIT, DATA, VALIDATION)}) == 3
    sample = offline.training.regime.sample(offline.task, offline.key(DATA))
    first_batch = base.training.regime.feed(base.task, base.key(DATA), jnp.int32(0), 1)
    validation = base.task.draw(base.key(VALIDATION), 8)
    for raw in (sample.bits[:8], first_batch.bits[0]):
        assert not np.array_equal(raw, validation.bits)


def test_the_first_validation_examples_do_not_depend_on_the_number(base):
    whole, part = base.validation(), base.validation(16)
    np.testing.assert_array_equal(whole.x[:16], part.x)
    np.testing.assert_array_equal(whole.truth[:16], part.truth)


def test_one_of_two_seeds_moves_only_its_own_stream(base):
    first = changed(base, init_seed=0)
    other_data, other_weights = changed(first, seed=5), changed(first, init_seed=5)
    np.testing.assert_array_equal(first.initial_params()["W"], other_data.initial_params()["W"])
    np.testing.assert_array_equal(first.validation().x, other_weights.validation().x)
    assert not np.array_equal(first.initial_params()["W"], other_weights.initial_params()["W"])
    assert not np.array_equal(first.validation().x, other_data.validation().x)


def test_without_a_seed_of_their_own_weights_follow_the_seed(base):
    given, implied = changed(base, seed=5, init_seed=5), changed(base, seed=5)
    np.testing.assert_array_equal(given.initial_params()["W"], implied.initial_params()["W"])
    (cohort,) = krogh.sweep(changed(base, init_seed=0), seed=range(3))
    assert len({np.asarray(trial.initial_params()["W"]).tobytes() for trial in cohort}) == 1


def test_blocks_agree_up_to_rounding(train, base, one_by_one, in_blocks):
    (cohort,) = krogh.sweep(base, training__optimiser__rate=[0.1, 0.05], seed=range(24))
    single, block = train(cohort, plan_override=one_by_one), train(cohort, plan_override=in_blocks)
    equal = [single[position].reached == block[position].reached for position in single]
    assert np.mean(equal) >= 0.9
    for position, same in enumerate(equal):
        if same:
            for name, leaf in single[position].weights.items():
                np.testing.assert_allclose(leaf, block[position].weights[name], atol=1e-3)
    times = [[record.steps for record in records.values()] for records in (single, block)]
    assert abs(np.median(times[0]) - np.median(times[1])) <= 10
