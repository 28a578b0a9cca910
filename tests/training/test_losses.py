"""Losses and penalties against their formulas, and what training does with them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.engine.checking import constants_of
from krogh.engine.cohort import stack, sweep
from krogh.engine.memory import Plan, footprint, plan
from krogh.engine.program import start
from krogh.engine.round import train_round
from krogh.engine.trial import Trial
from krogh.errors import KroghError
from krogh.models import Mlp, PairNetwork, PowerNetwork
from krogh.tasks import GroupComposition, Parity, ParityClasses
from krogh.training import EuclideanNorm, NeuronNorm, Online, Population, Sgd, Stopping, Training
from krogh.training.losses import LOSSES, euclidean_norm, find_loss
from krogh.values import columns, describe, replaced

MARGINS = np.linspace(-6, 6, 97)
FORMULAS = {  # value and derivative in f, for a label y
    "hinge": (lambda f, y: np.maximum(1 - y * f, 0), lambda f, y: np.where(y * f < 1, -y, 0.0)),
    "square": (lambda f, y: (y - f) ** 2, lambda f, y: 2 * (f - y)),
    "logistic": (lambda f, y: np.log1p(np.exp(-y * f)), lambda f, y: -y / (1 + np.exp(y * f))),
    "huber": (
        lambda f, y: np.where(np.abs(f - y) <= 1, (f - y) ** 2 / 2, np.abs(f - y) - 0.5),
        lambda f, y: np.clip(f - y, -1, 1),
    ),
    "absolute": (lambda f, y: np.abs(f - y), lambda f, y: np.sign(f - y)),
    "scaled-cross-entropy": (
        lambda f, y: np.log1p(np.exp(-y * f)) / np.sqrt(2),
        lambda f, y: -y / (1 + np.exp(y * f)) / np.sqrt(2),
    ),
    "cross-entropy": (lambda f, y: np.log1p(np.exp(-y * f)), lambda f, y: -y / (1 + np.exp(y * f))),
    "multiclass-margin": (lambda f, y: np.maximum(1 - y * f, 0) / 2, lambda f, y: np.where(y * f < 1, -y / 2, 0.0)),
    "sigmoid-square": (  # 1 - σ(yf) is what is missing to the label
        lambda f, y: (1 + np.exp(y * f)) ** -2.0,
        lambda f, y: -2 * y * np.exp(y * f) * (1 + np.exp(y * f)) ** -3.0,
    ),
    "correlation": (lambda f, y: -y * f, lambda f, y: -y + 0 * f),
}
NOT_CONVEX = {"sigmoid-square"}


def both_labels() -> tuple[np.ndarray, np.ndarray]:
    return np.tile(MARGINS, 2), np.repeat([1.0, -1.0], len(MARGINS))


def evaluated(name: str) -> tuple[np.ndarray, np.ndarray]:
    f, y = (jnp.asarray(part, jnp.float32) for part in both_labels())

    @jax.jit
    def value_and_slope(f):
        values, pull = jax.vjp(lambda f: LOSSES[name](f, y), f)
        return values, pull(jnp.ones_like(values))[0]

    values, slopes = value_and_slope(f)
    assert values.dtype == jnp.float32 and values.shape == f.shape
    return np.asarray(values), np.asarray(slopes)


def test_every_loss_has_its_formula_here():
    assert set(FORMULAS) == set(LOSSES)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_values_and_slopes(name):
    f, y = both_labels()
    values, slopes = evaluated(name)
    value, slope = FORMULAS[name]
    assert np.abs(values - value(f, y)).max() < 1e-5
    smooth = np.abs(y * f - 1) > 1e-9 if name in ("hinge", "multiclass-margin", "absolute") else np.full(f.shape, True)
    assert np.abs(slopes - slope(f, y))[smooth].max() < 1e-5


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_losses_are_convex_and_treat_labels_alike(name):
    values, _ = evaluated(name)
    positive, negative = values[: len(MARGINS)], values[len(MARGINS) :]
    assert (np.diff(positive, 2).min() > -1e-5) == (name not in NOT_CONVEX)
    assert np.allclose(positive, negative[::-1], atol=1e-6)


@pytest.mark.parametrize(("name", "scale"), [("hinge", 1.0), ("square", 1.0), ("logistic", np.log(2))])
def test_losses_bound_the_error_from_above(name, scale):
    f, y = both_labels()
    assert np.all(evaluated(name)[0] >= scale * (y * f <= 0) - 1e-6)


def test_the_logistic_loss_survives_huge_predictions():
    f = jnp.array([1e4, -1e4, 1e30, -1e30, 0.0], jnp.float32)
    y = jnp.ones(5, jnp.float32)
    assert LOSSES["logistic"](f, y).tolist() == pytest.approx([0.0, 1e4, 0.0, 1e30, np.log(2)], rel=1e-6)
    slopes = jax.grad(lambda f: jnp.sum(LOSSES["logistic"](f, y)))(f)
    assert slopes.tolist() == pytest.approx([0.0, -1.0, 0.0, -1.0, -0.5])


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_nan_is_not_hidden(name):
    f, y = jnp.array([jnp.nan, 0.5], jnp.float32), jnp.ones(2, jnp.float32)
    assert np.isnan(LOSSES[name](f, y)).tolist() == [True, False]


def test_an_unknown_loss_is_refused_with_the_nearest():
    assert find_loss("hinge") is LOSSES["hinge"]
    with pytest.raises(KroghError, match="'hinges'; did you mean 'hinge'"):
        find_loss("hinges")
    with pytest.raises(KroghError, match="'focal'"):
        Training(loss="focal")


def test_cross_entropy_of_logits_is_minus_the_log_of_the_labels_probability():
    random = np.random.default_rng(0)
    logits, label = random.normal(size=(2, 7, 4)).astype(np.float32) * 5, random.integers(4, size=(2, 7))
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = -np.log(np.take_along_axis(shares, label[..., None], -1)[..., 0])
    assert np.allclose(LOSSES["cross-entropy"](jnp.asarray(logits), jnp.asarray(label)), expected, atol=1e-5)


@pytest.mark.parametrize(("name", "delta"), [("multiclass-margin", 1.0), ("multiclass-margin(2.5)", 2.5)])
def test_the_margin_loss_of_classes_is_that_of_a_plain_loop(name, delta):
    random = np.random.default_rng(0)
    logits, label = random.normal(size=(3, 7, 4)).astype(np.float32) * 2, random.integers(4, size=(3, 7))
    expected = np.zeros(label.shape)
    for place in np.ndindex(label.shape):
        f, y = logits[place].tolist(), label[place]
        expected[place] = sum(max(0.0, delta + f[i] - f[y]) for i in range(4) if i != y) / 4
    found = find_loss(name)(jnp.asarray(logits), jnp.asarray(label))
    assert found.dtype == jnp.float32 and np.allclose(found, expected, atol=1e-5)
    slope = jax.grad(lambda f: jnp.sum(find_loss("multiclass-margin(100)")(f, jnp.asarray(label))))(jnp.asarray(logits))
    assert np.allclose(slope, 1 / 4 - np.eye(4)[label], atol=1e-6), "where all hinges are active it is linear"


def test_the_margin_loss_of_two_logits_is_that_of_their_difference():
    logits = np.random.default_rng(1).normal(size=(9, 2)).astype(np.float32)
    label = np.arange(9) % 2
    single = LOSSES["multiclass-margin"](
        jnp.asarray(logits[:, 1] - logits[:, 0]), jnp.asarray(2.0 * label - 1, jnp.float32)
    )
    assert np.allclose(LOSSES["multiclass-margin"](jnp.asarray(logits), jnp.asarray(label)), single, atol=1e-6)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("multiclass-margin(0)", "Δ must be a positive number"),
        ("multiclass-margin(wide)", "Δ must be a positive number"),
        ("hinge(2)", "only 'multiclass-margin' takes a number"),
        ("multiclass-margins(2)", "did you mean 'multiclass-margin'"),
    ],
)
def test_numbers_of_losses_are_checked(loss, message):
    with pytest.raises(KroghError, match=message):
        Training(loss=loss)


def test_a_task_with_classes_may_have_either_loss_of_classes():
    for loss in ("cross-entropy", "multiclass-margin", "multiclass-margin(8)"):
        Training(loss=loss).check(ParityClasses(n=4, k=2))


def test_two_logits_and_their_difference_have_the_same_cross_entropy():
    logits = np.random.default_rng(1).normal(size=(9, 2)).astype(np.float32)
    label = np.arange(9) % 2
    signs = jnp.asarray(2.0 * label - 1, jnp.float32)
    single = LOSSES["cross-entropy"](jnp.asarray(logits[:, 1] - logits[:, 0]), signs)
    assert np.allclose(LOSSES["cross-entropy"](jnp.asarray(logits), jnp.asarray(label)), single, atol=1e-6)


RELU, CUBE = PairNetwork(3, "relu"), PairNetwork(3)
RATE = 0.5


def some(width=3, n=5) -> dict:
    random = np.random.default_rng(3)
    return {name: jnp.asarray(random.normal(size=(width, n)), jnp.float32) for name in "UVW"}


def naive_norm(params: dict, a: float, b: float) -> float:
    """‖θ‖_{a,b}, neuron by neuron."""
    total = 0.0
    for i in range(len(params["U"])):
        omega = [float(weight) for name in "UVW" for weight in params[name][i]]
        total += sum(abs(weight) ** a for weight in omega) ** (b / a)
    return total ** (1 / b)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("a", "b", "r"), [(2, 3, 3), (2, 3, 1), (2, 2, 2), (1, 3, 3), (2, 1, 1), (3, 2, 5), (2, 1.5, 3)]
)
def test_the_norm_of_neurons(a, b, r):
    params, penalty = some(), NeuronNorm(0.7, a, b, r)
    assert float(penalty.of(CUBE, params)) == pytest.approx(0.7 * naive_norm(params, a, b) ** r, rel=1e-5)
    slope = jax.grad(lambda p: penalty.of(CUBE, p))(params)
    moved = {name: params[name] + 1e-2 * (slope[name] / euclidean_norm(slope)) for name in params}
    back = {name: params[name] - 1e-2 * (slope[name] / euclidean_norm(slope)) for name in params}
    rise = 0.7 * (naive_norm(moved, a, b) ** r - naive_norm(back, a, b) ** r)
    assert rise / 2e-2 == pytest.approx(float(euclidean_norm(slope)), rel=2e-2)


@pytest.mark.parametrize(("model", "nu"), [(CUBE, 3), (RELU, 2), (PairNetwork(3, "power", 4), 5)])
def test_by_default_it_is_the_sum_of_the_neurons_norms_to_the_homogeneity(model, nu):
    """λ Σ ‖ω_i‖^ν, of slope λν‖ω_i‖^{ν-2} ω_i."""
    params = some()
    neurons = np.concatenate([np.asarray(params[name], np.float64) for name in "UVW"], axis=1)
    lengths = np.linalg.norm(neurons, axis=1)
    value, slope = jax.value_and_grad(lambda p: NeuronNorm(0.3).of(model, p))(params)
    assert float(value) == pytest.approx(0.3 * (lengths**nu).sum(), rel=1e-5)
    expected = 0.3 * nu * lengths[:, None] ** (nu - 2) * neurons
    np.testing.assert_allclose(np.concatenate([slope[name] for name in "UVW"], axis=1), expected, rtol=1e-4)


@pytest.mark.parametrize("penalty", [NeuronNorm(2.0), NeuronNorm(2.0, b=1, exponent=1), NeuronNorm(2.0, a=1, b=2)])
def test_slopes_are_finite_where_a_neuron_or_all_of_them_are_zero(penalty):
    one = {name: leaf.at[1].set(0.0) for name, leaf in some().items()}
    for params in (one, jax.tree.map(jnp.zeros_like, one)):
        slope = jax.grad(lambda p: penalty.of(CUBE, p))(params)
        for leaf in slope.values():
            assert np.isfinite(leaf).all() and not np.any(leaf[1])


def trial(penalty, model=CUBE, **changes) -> Trial:
    stopping = Stopping(budget=4, check_every=1, validation="exact")
    training = Training(Sgd(RATE), changes.pop("regime", Population()), stopping, "cross-entropy", penalty)
    return Trial(GroupComposition("Z_5"), model, training, **changes)


def _stepped(one: Trial):
    state = start(one)
    return state.params, train_round(one, constants_of(one), state)


stepped = jax.jit(_stepped, compiler_options={"xla_backend_optimization_level": 0})  # compiling costs more than running


@pytest.mark.slow
@pytest.mark.parametrize("regime", [Population(), Online(7)])
def test_a_step_of_training_follows_the_penalty(regime):
    """θ' = θ - η(∇ + λν‖ω‖^{ν-2} ω), and the penalty is part of the loss."""
    before, free = stepped(trial(None, regime=regime))
    again, bound = stepped(trial(NeuronNorm(0.2), regime=regime))
    lengths = np.linalg.norm(np.concatenate([before[name] for name in "UVW"], axis=1), axis=1)
    for name in "UVW":
        np.testing.assert_array_equal(before[name], again[name])
        pulled = np.asarray(free.params[name]) - RATE * 0.2 * 3 * lengths[:, None] * np.asarray(before[name])
        np.testing.assert_allclose(bound.params[name], pulled, atol=1e-6)
    assert float(bound.loss - free.loss) == pytest.approx(0.2 * (lengths**3).sum(), rel=1e-4)


def test_a_number_means_the_norm_of_all_parameters():
    _, number = stepped(trial(0.3))
    _, value = stepped(trial(EuclideanNorm(0.3)))
    for name in "UVW":
        np.testing.assert_array_equal(number.params[name], value.params[name])


def identity(one: Trial) -> int:
    return int(stack([one])[0].ids()[0])


@pytest.mark.parametrize(
    ("penalty", "known"),
    [(None, 11534738000957038136), (0.1, 5511006290813256067), (0.0, 3668453549195957895), (2, 18314845416473099526)],
)
def test_trials_with_a_bare_number_keep_their_identity(penalty, known):
    """Written down: where a trial's identity changes, so must the store's schema, and docs/determinism.md says why."""
    training = Training(stopping=Stopping(budget=100), penalty=penalty)
    assert identity(Trial(Parity(n=8, k=2), Mlp(4), training, seed=3)) == known


def test_different_penalties_are_different_trials():
    values = [None, 0.1, EuclideanNorm(0.1), NeuronNorm(0.1), NeuronNorm(0.2), NeuronNorm(0.1, b=2)]
    assert len({identity(trial(value)) for value in values}) == len(values)
    assert identity(trial(NeuronNorm(0.1, b=2))) == identity(trial(NeuronNorm(0.1, 2, 2.0)))


def test_a_sweep_over_weights_is_one_cohort():
    (cohort,) = sweep(trial(NeuronNorm(1e-4)), training__penalty__weight=[1e-4, 1e-3], seed=range(2))
    assert len(cohort) == 4 and len(set(cohort.ids().tolist())) == 4
    assert [float(one.training.penalty.weight) for one in cohort] == pytest.approx([1e-4, 1e-4, 1e-3, 1e-3])
    row = columns(trial(NeuronNorm(1e-4)))
    assert row["training.penalty"] == "NeuronNorm" and row["training.penalty.weight"] == 1e-4
    assert describe(trial(0.1))["training"]["penalty"] == 0.1
    assert replaced(trial(0.1), "training.penalty", NeuronNorm(0.5)).training.penalty.b is None


def test_the_memory_of_a_large_step_is_planned_for():
    """A few arrays of inputs by width, and not one of inputs by width by classes."""
    stopping = Stopping(budget=100, check_every=100, validation="exact", early=False)
    training = Training(Sgd(0.05), Population(), stopping, "cross-entropy", NeuronNorm(1e-4))
    one = Trial(GroupComposition("Z_71"), PairNetwork(500), training)
    array = 4 * 71 * 71 * 500
    work = footprint(one).work
    assert 3 * array < work < 71 * array
    assert footprint(replaced(one, "training.penalty", None)).work < work

    class Gpu:
        platform = "gpu"

        def memory_stats(self):
            return {"bytes_limit": 139 << 30}

    assert plan(one, 4, Gpu()) == Plan(slots=4, block=4)


def test_what_is_refused():
    for build, echo in (
        (lambda: NeuronNorm(-0.1), "≥ 0; got -0.1"),
        (lambda: EuclideanNorm(float("nan")), "≥ 0; got nan"),
        (lambda: NeuronNorm(0.1, a=0.5), "a must be a finite number, at least 1; got a=0.5"),
        (lambda: NeuronNorm(0.1, b=0), "b must be a finite positive number; got b=0.0"),
        (lambda: NeuronNorm(0.1, exponent=float("inf")), "exponent=inf"),
        (lambda: Training(penalty="much"), "expected a float32 number; got 'much'"),
        (lambda: trial(NeuronNorm(0.1)), None),
    ):
        if echo is None:
            build()
            continue
        with pytest.raises(KroghError, match=echo):
            build()
    with pytest.raises(KroghError, match=r"homogeneous neurons.*got the model 'mlp'"):
        Trial(Parity(8, 2), Mlp(4), Training(penalty=NeuronNorm(0.1)))


def test_classes_need_the_loss_of_classes():
    with pytest.raises(KroghError, match="'parity-classes' has classes: its loss is 'cross-entropy'; got loss='hinge'"):
        Trial(ParityClasses(4, 2), PowerNetwork(4, 2), Training(Sgd(0.1), Population()))
