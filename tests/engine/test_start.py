"""Starts: weights that are given, or another trial's, pruned, rewound or drawn anew."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import krogh
from krogh.engine import FINAL, Drawn, Given, Inherited, Pruning, Usage, Weights, executor, run_cohorts
from krogh.engine.inheriting import identity_of
from krogh.engine.lane import Waiting
from krogh.engine.memory import Plan
from krogh.errors import KroghError
from krogh.values import replaced

NEURONS = Pruning(0.5, ("W", "b", "u"), neurons=True)


def some_weights(trial, seed=0):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=leaf.shape).astype(np.float32) for name, leaf in trial.initial_params().items()}


@pytest.fixture(scope="module")
def short(base):
    """Ten steps, whatever happens in them."""
    stopping = krogh.Stopping(budget=10, validation=40, early=False)
    return replaced(base, "training.stopping", stopping)


@pytest.fixture(scope="module")
def parent(short):
    return krogh.Trial(short.task, short.model, replaced(short.training, "stopping.budget", 40), snapshots=(0, 20))


@pytest.fixture(scope="module")
def kept(parent):
    weights = Weights()
    krogh.run(parent, weights=weights)
    return weights


def begins(trial, kept=None):
    """What the trial begins with and ends with, as the engine trains it."""
    own = Weights() if kept is None else kept
    watched = replaced(trial, "snapshots", (0,))
    krogh.run(watched, weights=own)
    identity = identity_of(watched)
    return own(identity, 0), own(identity)


# Given weights.


@pytest.mark.slow
def test_training_starts_from_the_weights_that_are_given(short, kept):
    given = some_weights(short)
    first, last = begins(replaced(short, "start", Given(given)))
    for name, leaf in given.items():
        assert first[name].tobytes() == leaf.tobytes()
        assert not np.array_equal(last[name], leaf)


def test_a_trial_given_its_own_weights_is_trained_as_before(train, base, one_by_one):
    expected = train(krogh.stack([base])[0], plan_override=one_by_one)[0]
    given = Given({name: np.asarray(leaf) for name, leaf in base.initial_params().items()})
    assert train(krogh.stack([replaced(base, "start", given)])[0], plan_override=one_by_one)[0].bits == expected.bits


@pytest.mark.slow
def test_arrays_that_are_not_given_are_drawn(short):
    given = {"W": some_weights(short)["W"]}
    first, _ = begins(replaced(short, "start", Given(given)))
    assert first["W"].tobytes() == given["W"].tobytes()
    for name in ("b", "c", "u"):
        np.testing.assert_array_equal(first[name], short.initial_params()[name])


@pytest.mark.slow
def test_weights_and_masks_are_data(short, train):
    """Trials with different ones are one cohort and one program, and sweep like any other."""
    masks = [{"W": np.ones((8, 6), bool)}, {"W": np.eye(8, 6)}]
    starts = [Given(some_weights(short, seed), mask) for seed in range(3) for mask in masks]
    (cohort,) = krogh.sweep(short, start=starts, seed=range(2))
    assert len(set(cohort.ids().tolist())) == 12
    usage = Usage()
    records = train(cohort, usage=usage, plan_override=Plan(6, 3))
    assert usage.compilations == 1
    for place, record in records.items():
        start = cohort[place].start
        assert ((record.weights["W"] != 0) == (start.mask["W"] > 0)).all()
        assert np.abs(record.weights["W"] - start.weights["W"] * start.mask["W"]).max() < 1


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", [krogh.Sgd(0.1, decay=0.1), krogh.Adam(0.05, decay=0.1, clip=1.0)])
def test_masked_entries_are_nothing_and_stay_so(train, short, optimiser):
    mask = {"W": np.random.default_rng(0).integers(0, 2, (8, 6))}
    trial = replaced(replaced(short, "training.optimiser", optimiser), "start", Given(some_weights(short), mask))
    record = train(krogh.stack([trial])[0])[0]
    assert record.outcome != "diverged"
    assert ((record.weights["W"] != 0) == (mask["W"] > 0)).all()


@pytest.mark.slow
def test_tables_do_not_show_weights(short):
    table = krogh.run(krogh.sweep(short, start=[Given(some_weights(short, seed)) for seed in range(2)]))
    assert table["start"].to_list() == ["given", "given"]
    assert not [name for name in table.columns if name.startswith("start.")]
    assert krogh.run(short)["start"].to_list() == ["drawn"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"V": np.zeros(3)}, "unknown parameter in the given weights 'V'"),
        ({"W": np.zeros((6, 8))}, r"given weights of 'W' must be \(8, 6\); got \(6, 8\)"),
        ({"b": np.full(8, np.nan)}, "finite numbers; got 'b'"),
    ],
)
def test_weights_that_do_not_fit_are_refused(short, given, words):
    with pytest.raises(KroghError, match=words):
        replaced(short, "start", Given(given))


def test_a_mask_of_other_numbers_is_refused(short):
    with pytest.raises(KroghError, match="a mask holds 0 and 1; got 'b'"):
        replaced(short, "start", Given({}, {"b": np.full(8, 2)}))


def test_later_runs_would_have_no_start(base):
    restarting = replaced(base, "training.stopping.restarts", 2)
    with pytest.raises(KroghError, match="later runs draw their weights"):
        replaced(restarting, "start", Given({}))


# Inherited weights.


@pytest.mark.parametrize(("step", "at"), [(FINAL, None), (20, 20)])
def test_a_child_begins_where_its_parent_was(short, parent, kept, step, at):
    first, last = begins(replaced(short, "start", Inherited(parent, step)), kept)
    for name, leaf in kept(identity_of(parent), at).items():
        assert first[name].tobytes() == leaf.tobytes()
    assert not np.array_equal(first["W"], last["W"])


def test_a_child_of_the_beginning_needs_no_training_of_its_parent(short, parent):
    first, _ = begins(replaced(short, "start", Inherited(replaced(parent, "seed", 9), 0)))
    for name, leaf in replaced(parent, "seed", 9).initial_params().items():
        np.testing.assert_array_equal(first[name], leaf)


def test_pruning_keeps_the_largest_weights_of_all_named_arrays():
    weights = {"W": np.array([[1.0, -5.0], [0.5, 3.0]]), "b": np.array([-4.0, 0.1]), "u": np.array([9.0, 9.0])}
    masks = Pruning(0.5, ("W", "b")).masks(weights)
    assert {name: mask.tolist() for name, mask in masks.items()} == {"W": [[0, 1], [0, 1]], "b": [1, 0]}
    everywhere = Pruning(0.25).masks(weights)
    assert {name: mask.tolist() for name, mask in everywhere.items()} == {
        "W": [[0, 0], [0, 0]],
        "b": [0, 0],
        "u": [1, 1],
    }


def test_pruning_neurons_keeps_rows_by_their_incoming_norm():
    weights = {"W": np.array([[1.0, 1.0], [0.0, 3.0], [2.0, 2.0]]), "b": np.array([9.0, 0.0, 0.0]), "u": np.ones(3)}
    masks = Pruning(2 / 3, ("W", "b", "u"), neurons=True).masks(weights)
    assert masks["W"].tolist() == [[0, 0], [1, 1], [1, 1]]
    assert masks["b"].tolist() == masks["u"].tolist() == [0, 1, 1]
    assert Pruning(0.01, ("W",), neurons=True).masks(weights)["W"].sum() == 2  # one is always left


@pytest.mark.slow
@pytest.mark.parametrize("pruning", [Pruning(0.25, ("W",)), Pruning(0.5), NEURONS], ids=["W", "all", "neurons"])
@pytest.mark.parametrize("weights", ["kept", "rewound", "redrawn"])
def test_tickets(short, parent, kept, pruning, weights):
    """Lottery tickets: the mask is that of the parent's end; the values its last, its first, or the child's own."""
    child = replaced(replaced(short, "start", Inherited(parent, pruning=pruning, weights=weights)), "seed", 5)
    first, last = begins(child, kept)
    end = kept(identity_of(parent))
    fresh = replaced(short, "seed", 5).initial_params()
    values = {"kept": end, "rewound": parent.initial_params(), "redrawn": fresh}[weights]
    masks = pruning.masks(end)
    for name in end:
        mask = masks.get(name, np.ones_like(end[name]))
        np.testing.assert_array_equal(first[name], np.where(mask > 0, values[name], 0))
        assert (last[name][np.asarray(mask) == 0] == 0).all()
    assert sum(mask.sum() for mask in masks.values()) < sum(mask.size for mask in masks.values())


@pytest.mark.slow
def test_a_pruned_network_is_the_small_network_of_its_neurons(short, parent, kept):
    """What the mask leaves trains as a network of that width would."""
    child = replaced(short, "start", Inherited(parent, pruning=NEURONS, weights="rewound"))
    first, last = begins(child, kept)
    chosen = np.flatnonzero(first["u"])
    assert len(chosen) == 4
    rows = {name: first[name][chosen] for name in ("W", "b", "u")} | {"c": first["c"]}
    small = krogh.Trial(short.task, krogh.Mlp(4, output_bias=True), short.training, start=Given(rows))
    _, ended = begins(small)
    for name in ("W", "b", "u"):
        np.testing.assert_allclose(ended[name], last[name][chosen], atol=1e-6)


@pytest.mark.slow
def test_parents_are_trained_before_their_children_whatever_their_order(short, parent):
    """Two generations in one call, the grandchildren first; nobody asks for the weights."""
    child = replaced(short, "start", Inherited(parent))
    grandchild = replaced(short, "start", Inherited(child, pruning=Pruning(0.5), weights="rewound"))
    table = krogh.run([grandchild, child, parent])
    assert table["id"].to_list() == [identity_of(one) for one in (grandchild, child, parent)]
    assert table["start"].to_list() == ["inherited", "inherited", "drawn"]
    assert table["start.parent"].to_list() == [identity_of(child), identity_of(parent), None]
    apart = Weights()
    for one in (parent, child, grandchild):
        again = krogh.run(one, weights=apart)
        assert again["loss"].to_list() == table.filter(id=identity_of(one))["loss"].to_list()
    # What the grandchild rewinds to is what the child began with: the parent's end.
    first, _ = begins(grandchild, apart)
    masks = Pruning(0.5).masks(apart(identity_of(child)))
    for name, leaf in apart(identity_of(parent)).items():
        np.testing.assert_array_equal(first[name], np.where(masks[name] > 0, leaf, 0))


@pytest.mark.slow
def test_children_of_many_parents_are_one_cohort_and_one_program(short, parent):
    """Parents, shares and steps are data; each child has its own parent's weights."""
    parent = replaced(parent, "model.width", 7)  # of which no program has been compiled
    parents = krogh.sweep(parent, seed=range(3))
    child = replaced(replaced(short, "model.width", 7), "start", Inherited(parent, pruning=Pruning(0.5, ("W",))))
    axes = {"start.parent.seed": range(3), "start.pruning.share": [0.25, 0.5], "start.step": [20, FINAL]}
    children = krogh.sweep(child, **axes, seed=range(2))
    assert len(parents) == len(children) == 1 and len(children[0]) == 24
    usage, weights = Usage(), Weights()
    table = krogh.run([*children, *parents], usage=usage, weights=weights)
    assert usage.compilations == 2
    assert (
        table["start.pruning.share"].to_list()[:24]
        == [0.25] * 4 + [0.5] * 4 + [0.25] * 4 + [0.5] * 4 + [0.25] * 4 + [0.5] * 4
    )
    for place, one in enumerate(children[0]):
        identity = int(parents[0].ids()[int(one.start.parent.seed)])
        assert table["start.parent"][place] == identity
        step = int(one.start.step)
        masks = one.start.pruning.masks(weights(identity, None if step == FINAL else step))
        assert ((weights(identity_of(one))["W"] != 0) == masks["W"]).all()


def test_identity_holds_the_parent_and_the_recipe(short, parent):
    other = replaced(parent, "training.optimiser.rate", 0.2)
    starts = [
        Drawn(),
        Given({}),
        Inherited(parent),
        Inherited(other),
        Inherited(parent, 20),
        Inherited(parent, pruning=Pruning(0.5)),
        Inherited(parent, pruning=Pruning(0.25)),
        Inherited(parent, pruning=Pruning(0.5, ("W",))),
        Inherited(parent, pruning=Pruning(0.5), weights="rewound"),
        Inherited(parent, pruning=Pruning(0.5), weights="redrawn"),
    ]
    assert len({identity_of(replaced(short, "start", start)) for start in starts}) == len(starts)


def test_without_the_parents_weights_nothing_is_trained(short, parent, monkeypatch):
    child = replaced(short, "start", Inherited(parent))
    monkeypatch.setattr(executor, "_run_together", lambda *_: pytest.fail("trained"))
    with pytest.raises(KroghError, match=rf"the weights of trial {identity_of(parent)}, which are not at hand"):
        krogh.run([short, child])
    with pytest.raises(KroghError, match=rf"no weights are kept of trial {identity_of(parent)} at its end"):
        krogh.run(child, weights=Weights())


@pytest.mark.slow
def test_a_parent_that_ended_before_the_snapshot_says_so(base, short):
    parent = krogh.Trial(base.task, base.model, base.training, snapshots=(500,))
    with pytest.raises(KroghError, match="at step 500 \\(it may have ended before\\)"):
        krogh.run([parent, replaced(short, "start", Inherited(parent, 500))])


def test_a_search_cannot_have_two_generations(short, parent, kept):
    children = krogh.sweep(replaced(short, "start", Inherited(parent)))
    open_ = [Waiting(np.zeros(0, np.int64), closed=False, expected=1) for _ in range(2)]
    with pytest.raises(KroghError, match="a search cannot train parents and their children at once"):
        list(run_cohorts([*krogh.sweep(parent), *children], open_))
    waiting = Waiting(np.arange(1), closed=False, expected=1)
    waiting.close()
    found = [finished for _, finished in run_cohorts(children, [waiting], weights_of=kept) if finished is not None]
    assert found[0].position.tolist() == [0] and found[0].weights is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": 30}, r"at its snapshots \(0, 20\); got step=30"),
        ({"weights": "frozen"}, "unknown choice of inherited weights 'frozen'"),
        ({"weights": "redrawn"}, "nothing inherited"),
    ],
)
def test_a_recipe_that_makes_no_sense_is_refused(parent, options, words):
    with pytest.raises(KroghError, match=words):
        Inherited(parent, **options)


def test_arrays_must_be_the_parents(short, parent):
    wider = replaced(parent, "model.width", 9)
    with pytest.raises(KroghError, match="arrays must be those of its parent"):
        replaced(short, "start", Inherited(wider))
    with pytest.raises(KroghError, match="unknown array to prune 'V'"):
        replaced(short, "start", Inherited(parent, pruning=Pruning(0.5, ("V",))))
    with pytest.raises(KroghError, match="equally many"):
        replaced(short, "start", Inherited(parent, pruning=Pruning(0.5, ("W", "c"), neurons=True)))
    with pytest.raises(KroghError, match="the parent must be a trial"):
        Inherited("seed 3")
    for share in (0.0, 1.5):
        with pytest.raises(KroghError, match="must be in \\(0, 1\\]"):
            Pruning(share)


@pytest.mark.slow
def test_a_probe_measures_from_what_the_trial_began_with(short):
    given = some_weights(short)
    trial = krogh.Trial(short.task, short.model, short.training, probes=(krogh.Movement(),), start=Given(given))
    weights = Weights()
    table = krogh.run(trial, weights=weights)
    moved = float(jnp.max(jnp.abs(weights(identity_of(trial))["W"] - given["W"])))
    assert table["curve.movement"][0].to_list() == pytest.approx([0.0, moved], abs=1e-6)
