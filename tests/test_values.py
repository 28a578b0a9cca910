"""Values: what is structure and what is data, identities, sweeps and stacks."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.engine.cohort import Trials, stack, sweep
from krogh.engine.trial import Trial
from krogh.errors import KroghError
from krogh.models import Mlp, Neuron, PolyNet
from krogh.probes import Error, Movement
from krogh.tasks import DisjointParity, Parity
from krogh.training import Adam, Offline, Online, Piecewise, Sgd, Stopping, Training
from krogh.values import check_fields, columns, describe, digest, plain, replaced, structure_of

TRIAL = Trial(Parity(n=8, k=2), Mlp(4), Training(stopping=Stopping(budget=100)))
OFFLINE = replaced(TRIAL, "training.regime", Offline(16))


def the(cohorts: list[Trials]) -> Trials:
    assert len(cohorts) == 1
    return cohorts[0]


def identity(trial: Trial) -> int:
    return int(the(stack([trial])).ids()[0])


# Fields.


def test_numbers_become_arrays_of_their_declared_type():
    sgd = Sgd(rate=1)
    assert sgd.rate.dtype == np.float32 and sgd.rate.shape == ()
    assert Offline(np.int64(5)).m.dtype == np.int32
    assert Sgd(0.1, layer_rate={"W": 1, "a": 2}).layer_rate["W"].dtype == np.float32
    assert TRIAL.seed.dtype == np.uint32


def test_arrays_of_either_library_make_equal_values():
    ours, theirs = Sgd(np.float64(0.1)), Sgd(jnp.float32(0.1))
    assert describe(ours) == describe(theirs) and structure_of(ours) == structure_of(theirs)
    first, second = Parity(n=8, support=jnp.array([1, 3])), Parity(n=8, support=[1, 3])
    assert describe(first) == describe(second) and structure_of(first) == structure_of(second)


@pytest.mark.parametrize("given", ["x", None, True, 2**31, -(2**31) - 1, 1.0, [1, 2.5], 1j])
def test_what_is_not_an_integer_is_refused(given):
    with pytest.raises(KroghError, match="m: expected an int32 number; got"):
        Offline(given)


def test_who_gives_a_wrong_number_is_told_of_which_field():
    for build, says in (
        (lambda: Sgd(rate="0.1"), "rate: expected a float32 number; got '0.1'"),
        (lambda: Sgd(0.1, layer_rate={"W": "much"}), r"layer_rate\['W'\]: expected a float32"),
        (lambda: Stopping(budget=10**11), "budget: expected an int32 number; got 100000000000"),
    ):
        with pytest.raises(KroghError, match=says):
            build()


def test_numbers_of_numpy_are_structure_as_those_of_python_are():
    """In a process of its own: here annotations are checked."""
    code = """
import warnings
import numpy as np, krogh
warnings.simplefilter("error")
def trial(n, width, yes):
    task = krogh.Parity(n=n, k=type(n)(2), noisy=yes)
    return krogh.Trial(task, krogh.Mlp(width), snapshots=(type(n)(0), type(n)(10)))
one, other = trial(8, 4, True), trial(np.int64(8), np.int32(4), np.bool_(True))
assert one == other and hash(one.task.n) == hash(other.task.n)
assert [part.ids().tolist() for part in krogh.sweep(one)] == [part.ids().tolist() for part in krogh.sweep(other)]
print(type(other.task.n), type(other.task.noisy), type(other.model.width), *map(type, other.snapshots))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout.split("<class ")[1:] == ["'int'> ", "'bool'> ", "'int'> ", "'int'> ", "'int'>\n"], ran.stderr


def test_a_traced_number_passes_unchecked():
    found = jax.jit(lambda p: Parity(n=8, k=2, noise=p).batch(jax.random.key(0), 16).y)(0.25)
    assert np.array_equal(found, Parity(n=8, k=2, noise=0.25).batch(jax.random.key(0), 16).y)


# Descriptions.


def test_descriptions_are_plain_and_complete():
    plain_trial = describe(TRIAL)
    assert json.loads(json.dumps(plain_trial)) == plain_trial
    assert next(iter(plain_trial)) == "kind" and plain_trial["kind"] == "trial"
    assert plain_trial["task"] == {"kind": "parity", "n": 8, "k": 2, "support": [0, 1], "noise": 0.0}
    assert plain_trial["model"]["kind"] == "mlp" and plain_trial["model"]["width"] == 4
    assert plain_trial["training"]["optimiser"]["rate"] == 0.1


@pytest.mark.parametrize("number", [0.1, 0.3, 1e-8, 123456.0, 1 / 3])
def test_a_float_reads_as_it_was_written(number):
    found = describe(Sgd(number))["rate"]
    assert np.float32(found) == np.float32(number) and len(repr(found)) <= max(len(repr(number)), 12)


def test_plain_reaches_everything():
    tree = {"a": np.float32(0.1), "b": (jnp.arange(2), [np.int8(3)]), "c": None, "d": "text"}
    assert plain(tree) == {"a": 0.1, "b": [[0, 1], [3]], "c": None, "d": "text"}


def test_columns_are_one_flat_row():
    row = columns(replaced(TRIAL, "training.optimiser", Sgd(0.1, layer_rate={"W": 0.5})))
    assert row["task"] == "parity" and row["model"] == "mlp" and row["training.optimiser"] == "Sgd"
    assert row["task.n"] == 8 and row["task.support"] == "[0, 1]"
    assert row["training.optimiser.rate"] == 0.1 and row["training.optimiser.layer_rate.W"] == 0.5
    assert "" not in row and "kind" not in row
    assert all(isinstance(part, str | int | float | bool) for part in row.values())


def test_internal_fields_are_not_shown():
    assert "task.noisy" not in columns(TRIAL) and "training.regime.capacity" not in columns(OFFLINE)


# Structure.

DATA = {
    "seed": 5,
    "task.support": (3, 7),
    "task.noise": 0.2,
    "training.optimiser.rate": 0.5,
    "training.optimiser.decay": 0.5,
    "training.regime.m": 100,
    "training.stopping.budget": 200,
    "training.stopping.accuracy": 0.5,
    "training.stopping.consecutive": 3,
}
STRUCTURE = {
    "task.n": 9,
    "task": DisjointParity(n=8, k=2),
    "model.width": 5,
    "model.activation": "power",
    "model.output_bias": True,
    "model.initialiser": "gaussian",
    "model": PolyNet(2),
    "training.loss": "square",
    "training.optimiser": Adam(0.1),
    "training.optimiser.layer_rate": {"W": 0.1},
    "training.optimiser.schedule": Piecewise((1,), (1.0, 0.5)),
    "training.regime.batch_size": 8,
    "training.regime": Online(),
    "training.stopping.check_every": 5,
    "training.stopping.validation": 64,
    "training.stopping.early": False,
    "probes": (Error(),),
}


@pytest.mark.parametrize("path", sorted(DATA))
def test_data_fields_share_a_structure(path):
    assert structure_of(replaced(OFFLINE, path, DATA[path])) == structure_of(OFFLINE)


def test_structural_fields_each_make_another():
    texts = [structure_of(OFFLINE)]
    texts += [structure_of(replaced(OFFLINE, "model.degree", 2))]
    for path, new in STRUCTURE.items():
        base = replaced(OFFLINE, "model.degree", 2) if path == "model.activation" else OFFLINE
        texts.append(structure_of(replaced(base, path, new)))
    assert len(set(texts)) == len(texts)


def test_structures_with_equal_text_have_equal_programs():
    """The text and JAX's own tree definition tell the same values apart."""
    trials = [OFFLINE, *(replaced(OFFLINE, path, new) for path, new in DATA.items())]
    trials += [replaced(OFFLINE, path, new) for path, new in STRUCTURE.items() if path != "model.activation"]
    shapes = [
        (jax.tree.structure(trial), tuple((np.shape(x), x.dtype) for x in jax.tree.leaves(trial))) for trial in trials
    ]
    texts = [structure_of(trial) for trial in trials]
    for first in range(len(trials)):
        for second in range(first):
            assert (texts[first] == texts[second]) == (shapes[first] == shapes[second])


def test_probes_belong_to_the_structure():
    """Two trials that are observed differently never share a program."""
    trials = [replaced(TRIAL, "probes", probes) for probes in ((Error(),), (Movement(),), (Movement(), Error()))]
    assert len({structure_of(trial) for trial in trials}) == 3
    assert [len(cohort) for cohort in stack(trials)] == [1, 1, 1]


def test_digests_are_stable():
    assert digest("krogh").hex() == digest("krogh").hex() != digest("krogh ").hex()
    assert len(digest("a")) == 8 and len(digest("a", 16)) == 16


# Replacing.


def test_replacing_changes_one_field_and_nothing_else():
    before, after = describe(TRIAL), describe(replaced(TRIAL, "training.optimiser.rate", 0.7))
    assert after["training"]["optimiser"].pop("rate") == 0.7
    assert before["training"]["optimiser"].pop("rate") == 0.1
    assert before == after
    assert describe(TRIAL)["training"]["optimiser"]["rate"] == 0.1, "values do not change"


def test_replacing_validates_again():
    with pytest.raises(KroghError, match="rate=-1"):
        replaced(TRIAL, "training.optimiser.rate", -1)
    with pytest.raises(KroghError, match="width must be at least k=2"):
        replaced(TRIAL, "model.width", 1)
    with pytest.raises(KroghError, match="width=0"):
        replaced(TRIAL, "model.width", 0)
    with pytest.raises(KroghError, match="layer 'V'"):
        replaced(TRIAL, "training.optimiser.layer_rate", {"V": 0.1})


def test_unknown_paths_are_refused_with_the_nearest():
    with pytest.raises(KroghError, match="field of Sgd 'rat'; did you mean 'rate'"):
        replaced(TRIAL, "training.optimiser.rat", 0.1)
    with pytest.raises(KroghError, match="field of Trial 'modle'; did you mean 'model'"):
        replaced(TRIAL, "modle", 0.1)
    with pytest.raises(KroghError, match="'seed' of Trial has no field 'low'"):
        replaced(TRIAL, "seed.low", 0.1)


# Identity.


def test_identity_does_not_depend_on_neighbours():
    others = [replaced(TRIAL, path, new) for path, new in DATA.items() if "regime" not in path]
    alone = [identity(trial) for trial in (TRIAL, *others)]
    assert the(stack([TRIAL, *others])).ids().tolist() == alone
    assert the(stack([*reversed(others), TRIAL])).ids().tolist() == alone[::-1]
    assert the(stack([TRIAL, TRIAL])).ids().tolist() == alone[:1] * 2
    assert len(set(alone)) == len(alone)


def test_identity_does_not_depend_on_which_fields_vary():
    rates, seeds = [0.1, 0.2], [0, 1, 2]
    both = the(sweep(TRIAL, seed=seeds, training__optimiser__rate=rates))
    wider = the(sweep(TRIAL, seed=seeds, training__optimiser__rate=rates, task__noise=[0.0, 0.3]))
    by_rate = [the(sweep(replaced(TRIAL, "training.optimiser.rate", rate), seed=seeds)) for rate in rates]
    one_by_one = [identity(Trial(t.task, t.model, t.training, seed=int(t.seed))) for t in both]
    assert both.ids().tolist() == one_by_one
    assert both.ids().tolist() == [number for cohort in by_rate for number in cohort.ids().tolist()]
    assert set(both.ids().tolist()) < set(wider.ids().tolist())


def test_identity_survives_taking_trials_out_and_stacking_them_again():
    cohort = the(sweep(OFFLINE, seed=range(4), training__regime__m=[8, 16]))
    again = the(stack(list(cohort)))
    assert again.ids().tolist() == cohort.ids().tolist()
    assert [identity(trial) for trial in cohort] == cohort.ids().tolist()
    assert {structure_of(trial) for trial in cohort} == {cohort.structure}


def test_every_field_is_part_of_the_identity():
    known = {identity(OFFLINE)}
    for path, new in {**DATA, **STRUCTURE}.items():
        if path == "model.activation":
            continue
        number = identity(replaced(OFFLINE, path, new))
        assert number not in known, path
        known.add(number)


def test_identity_is_the_same_in_another_process():
    code = (
        "from krogh.engine.cohort import sweep; from krogh.engine.trial import Trial\n"
        "from krogh.models import Mlp; from krogh.tasks import Parity; from krogh.training import *\n"
        "trial = Trial(Parity(n=8, k=2), Mlp(4), Training(stopping=Stopping(budget=100)))\n"
        "print(sweep(trial, seed=range(3))[0].ids().tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == the(sweep(TRIAL, seed=range(3))).ids().tolist()


def test_a_million_seeds_have_a_million_identities_cheaply():
    cohort = the(sweep(TRIAL, seed=range(70_000)))
    ids = cohort.ids()
    assert len(cohort) == 70_000 and len(np.unique(ids)) == 70_000
    assert int(ids[65_536]) == identity(Trial(TRIAL.task, TRIAL.model, TRIAL.training, seed=65_536))


# Sweeps and stacks.


def test_a_sweep_runs_through_its_fields_in_order_and_seeds_vary_fastest():
    cohort = the(sweep(TRIAL, task__noise=[0.0, 0.2], training__optimiser__rate=[0.1, 0.5], seed=[7, 3]))
    found = [(plain(trial.task.noise), plain(trial.training.optimiser.rate), int(trial.seed)) for trial in cohort]
    assert found == [(p, r, s) for p in (0.0, 0.2) for r in (0.1, 0.5) for s in (7, 3)]


def test_a_sweep_over_structure_makes_cohorts_in_order_of_appearance():
    cohorts = sweep(TRIAL, model__width=[4, 8], training__optimiser__rate=[0.1, 0.2], seed=range(3))
    assert [(cohort.template.model.width, len(cohort)) for cohort in cohorts] == [(4, 6), (8, 6)]
    dotted = sweep(TRIAL, **{"model.width": [4, 8], "training.optimiser.rate": [0.1, 0.2]}, seed=range(3))
    assert [c.ids().tolist() for c in dotted] == [c.ids().tolist() for c in cohorts]


def test_a_sweep_is_the_stack_of_its_trials():
    cohort = the(sweep(TRIAL, seed=range(3), task__support=[(0, 1), (2, 5)]))
    trials = [Trial(Parity(n=8, support=s), Mlp(4), TRIAL.training, i) for s in ((0, 1), (2, 5)) for i in range(3)]
    assert the(stack(trials)).ids().tolist() == cohort.ids().tolist()


def test_seeds_carry_the_initialisation_unless_it_is_given():
    weights = [trial.initial_params()["W"] for trial in the(sweep(TRIAL, seed=[4, 9]))]
    alone = [replaced(TRIAL, "seed", seed).initial_params()["W"] for seed in (4, 9)]
    assert np.array_equal(weights, alone) and not np.array_equal(weights[0], weights[1])
    pinned = Trial(TRIAL.task, TRIAL.model, TRIAL.training, seed=0, init_seed=77)
    assert [int(trial.init_seed) for trial in the(sweep(pinned, seed=[4, 9]))] == [77, 77]
    crossed = the(sweep(TRIAL, seed=[4, 9], init_seed=[1, 2]))
    assert [(int(t.init_seed), int(t.seed)) for t in crossed] == [(1, 4), (1, 9), (2, 4), (2, 9)]


def test_the_seed_decides_data_and_the_init_seed_decides_weights():
    a, b = (Trial(TRIAL.task, TRIAL.model, TRIAL.training, seed=s, init_seed=5) for s in (1, 2))
    c = Trial(TRIAL.task, TRIAL.model, TRIAL.training, seed=1, init_seed=6)
    weights = jax.jit(lambda trial: trial.initial_params()["W"])
    inputs = jax.jit(lambda trial: trial.validation(32).x)
    assert np.array_equal(weights(a), weights(b)) and not np.array_equal(weights(a), weights(c))
    assert np.array_equal(inputs(a), inputs(c)) and not np.array_equal(inputs(a), inputs(b))


def test_a_stack_groups_by_structure_and_keeps_order():
    trials = [replaced(TRIAL, "model.width", width) for width in (8, 4, 8, 4, 16)]
    trials = [replaced(trial, "seed", place) for place, trial in enumerate(trials)]
    found = [[int(trial.seed) for trial in cohort] for cohort in stack(trials)]
    assert found == [[0, 2], [1, 3], [4]]


def test_taking_stacks_every_leaf():
    cohort = the(sweep(TRIAL, seed=range(5), task__noise=[0.0, 0.1]))
    taken = cohort.take(np.array([7, 0]))
    assert taken.seed.tolist() == [2, 0] and plain(taken.task.noise) == [0.1, 0.0]
    assert all(np.shape(leaf)[0] == 2 for leaf in jax.tree.leaves(taken))
    assert taken.task.support.tolist() == [[0, 1], [0, 1]]


def test_a_cohort_is_a_sequence():
    cohort = the(sweep(TRIAL, seed=range(5)))
    assert len(cohort) == len(list(cohort)) == 5
    for outside in (-1, 5):
        with pytest.raises(IndexError):
            cohort[outside]


def test_rows_say_what_the_trials_say():
    fields = {"task__noise": [0.0, 0.1], "task__support": [(0, 1), (3, 7)], "training__optimiser__rate": [0.3]}
    cohort = the(sweep(TRIAL, seed=range(3), **fields))
    positions = np.array([11, 0, 5])
    rows = cohort.rows(positions)
    for place, position in enumerate(positions):
        expected = columns(cohort[int(position)])
        assert set(rows) == set(expected)
        for name, value in rows.items():
            assert (value if np.ndim(value) == 0 else value[place]) == expected[name], name


def test_fitting_leaves_draws_and_rows_alone():
    cohort = the(sweep(OFFLINE, training__regime__m=[8, 32], seed=range(2)))
    fitted = cohort.fitted()
    assert fitted.template.training.regime.capacity == 32 and fitted.template.task.noisy is False
    assert {structure_of(trial) for trial in fitted} == {fitted.structure}
    everyone = np.arange(4)
    assert {name: str(part) for name, part in fitted.rows(everyone).items()} == {
        name: str(part) for name, part in cohort.rows(everyone).items()
    }
    for before, after in zip(cohort, fitted, strict=True):
        m = int(before.training.regime.m)
        ours = after.training.regime.sample(after.task, jax.random.key(3)).bits
        assert np.array_equal(before.training.regime.sample(before.task, jax.random.key(3)).bits, ours[:m])


@pytest.mark.parametrize(
    ("fields", "echo"),
    [
        ({"seed": []}, "seeds must be integers"),
        ({"seed": [-1]}, "seeds must be integers"),
        ({"seed": [2**32]}, "seeds must be integers"),
        ({"seed": [0.5]}, "seeds must be integers"),
        ({"task__noise": []}, "task.noise"),
        ({"task__nose": [0.1]}, "'nose'; did you mean 'noise'"),
        ({"task__noise": [0.7]}, "noise=0.7"),
    ],
)
def test_bad_sweeps_are_refused(fields, echo):
    with pytest.raises(KroghError, match=echo):
        sweep(TRIAL, **fields)


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, "one", None])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(KroghError, match="seed"):
        Trial(TRIAL.task, TRIAL.model, TRIAL.training, seed=seed)


def test_only_trials_stack():
    with pytest.raises(KroghError, match="got Mlp"):
        stack([Mlp(3)])
    with pytest.raises(KroghError, match="needs a model"):
        Trial(TRIAL.task, TRIAL.task)
    with pytest.raises(KroghError, match="needs a task"):
        Trial(Neuron("sine", 2), TRIAL.model)


def test_a_plain_number_is_no_field_of_a_value():
    class Bare(Mlp):
        extra: int = 3

    with pytest.raises(KroghError, match=r"field 'extra' of Bare must be declared with structure\(\)"):
        check_fields(Bare)
