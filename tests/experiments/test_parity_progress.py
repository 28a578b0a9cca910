"""Experiments on what training hides and what theory says of it, on tables whose law is known."""

from __future__ import annotations

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from planted import drawn as drawn_by
from planted import verdicts as verdicts_by
from scipy import optimize

import krogh.experiments.parity.disjoint_flow as flow
import krogh.experiments.parity.fourier_gaps as gaps
import krogh.experiments.parity.grokking as grokking
import krogh.experiments.parity.hidden_progress as hidden
import krogh.experiments.parity.kernel_floor as kernels
import krogh.experiments.parity.one_step as one_step
from krogh.engine.inheriting import identity_of
from krogh.errors import KroghError
from krogh.experiments.parity.disjoint_theorems import DisjointTheorems
from krogh.experiments.parity.layer_wise import END_TO_END, GREEDY, LayerWise
from krogh.lab import Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.models import Neuron
from krogh.registry import EXPERIMENTS
from krogh.tasks import Parity
from krogh.theory.boolean.disjoint_flow import flow_weights
from krogh.theory.boolean.fourier import cube
from krogh.theory.boolean.majority import support_recovery

INF = math.inf


DRAWN: set[str] = set()


def judged(name: str, changes: dict[str, Any] | None = None, **tables: pl.DataFrame) -> dict[str, str]:
    """The verdicts on planted tables; the figures of an experiment's first ones are drawn too."""
    experiment = EXPERIMENTS[name]()
    planted = Tables(experiment.settings("laptop", changes), tables)
    if name not in DRAWN:
        drawn_by(experiment, planted)
        DRAWN.add(name)
    return verdicts_by(experiment, planted)


# --- hidden progress ------------------------------------------------------------------------------------------


def progress_table(error: float, moved: float, related: bool, first: bool, seeds: int = 60) -> pl.DataFrame:
    """Trials of the panel "sine" at a table of `hidden._progress`."""
    rng, rows = np.random.default_rng(0), []
    for seed in range(seeds):
        time = float(rng.lognormal(6, 0.3))
        early = 1 / time if related else float(rng.normal())
        rows.append(
            {"panel": "sine", "seed": seed, "time": time, "error": error, "movement": moved, "control": 0.1}
            | {"early": early, "recovered": 100.0 if first else 500.0, "visible": 200.0}
        )
    return pl.DataFrame(rows)


CURVES = pl.DataFrame(
    [
        {"panel": "sine", "labels": labels, "seed": 0, "step": step, "error": 0.5, "movement": 0.1 * step}
        for labels in (hidden.REAL, hidden.CONTROL)
        for step in (0, 10, 20)
    ]
)


def progress_verdicts(**law: Any) -> dict[str, str]:
    return judged("parity/hidden-progress", {"panels": ("sine",)}, progress=progress_table(**law), curves=CURVES)


def test_hidden_progress_is_reproduced_where_weights_move_and_the_error_does_not():
    found = progress_verdicts(error=0.49, moved=0.5, related=True, first=True)
    assert found == dict.fromkeys(("sine-hidden", "sine-moves", "sine-predicts", "sine-support-first"), REPRODUCED)


def test_progress_in_the_open_and_none_beyond_noise_are_not():
    found = progress_verdicts(error=0.2, moved=0.1, related=False, first=False)
    assert found.pop("sine-predicts") == INCONCLUSIVE
    assert set(found.values()) == {NOT_REPRODUCED}


def curve_row(panel: str, labels: str, seed: int, time: float | None, steps: list[int], **columns: Any) -> dict:
    head = {"panel": panel, "labels": labels, "seed": seed, "convergence_time": time, "steps": steps[-1]}
    return head | {"curve.step": steps} | {f"curve.{name}": values for name, values in columns.items()}


def test_progress_is_read_off_the_curves():
    """t_c = 40: half-way is step 20; the support is lost once more at 20 and kept from 30 on."""
    steps = [0, 10, 20, 30, 40]
    real = {
        "error": [0.5, 0.5, 0.45, 0.3, 0.0],
        "movement": [0.0, 0.1, 0.3, 0.6, 0.9],
        "relevant_movement": [0.0, 0.1, 0.1, 0.5, 0.9],
        "irrelevant_movement": [0.0, 0.05, 0.2, 0.2, 0.2],
    }
    noise = {name: [0.0, 0.01, 0.02, 0.03, 0.04] for name in real}
    table = pl.DataFrame(
        [
            curve_row("sine", hidden.REAL, 3, 40.0, steps, **real),
            curve_row("sine", hidden.CONTROL, 3, None, steps, **noise),
        ]
    )
    (row,) = hidden._progress(table).to_dicts()
    assert row == {
        "panel": "sine", "seed": 3, "time": 40.0, "error": 0.45, "movement": 0.3, "control": 0.02, "early": 0.3,
        "recovered": 30.0, "visible": 30.0,
    }  # fmt: skip
    assert hidden._since(np.array(steps), np.zeros(5, bool)) == INF
    assert hidden._since(np.array(steps), np.ones(5, bool)) == 0


# --- grokking -------------------------------------------------------------------------------------------------

M, DECAYS = (120, 250, 3000), (0.0, 0.01, 0.03, 0.1)


def grokking_verdicts(law: Any) -> dict[str, str]:
    """`law` gives t_train, t_test and the test error at the fit, of a decay and a sample size."""
    rows = [
        {"decay": decay, "m": m, "seed": seed}
        | dict(zip(("t_train", "t_test", "error_at_fit"), law(decay, m), strict=True))
        for decay, m, seed in itertools.product(DECAYS, M, range(30))
    ]
    curves = pl.DataFrame(
        [
            {"decay": decay, "m": m, "step": step, "training_error": 0.1, "error": 0.4}
            for decay, m, step in itertools.product(DECAYS, M, (200, 400))
        ]
    )
    changes = {"samples": M, "decays": DECAYS, "seeds": 30}
    return judged("parity/grokking", changes, times=pl.DataFrame(rows), curves=curves)


def like_the_source(decay: float, m: int) -> tuple[float, float, float | None]:
    if decay == 0.1:
        return INF, INF, None
    if m == 3000:
        return 800.0, 800.0, 0.0
    learns = decay == 0.03 or (decay > 0 and m == 250)
    return 600.0, 6000.0 if learns else INF, 0.48


def test_grokking_like_the_sources_is_reproduced():
    assert set(grokking_verdicts(like_the_source).values()) == {REPRODUCED}


def test_networks_that_learn_at_once_do_not_grok():
    found = grokking_verdicts(lambda decay, m: (600.0, 600.0, 0.0))
    assert found.pop("no-gap") == REPRODUCED and found.pop("decay-widens") == INCONCLUSIVE
    assert set(found.values()) == {NOT_REPRODUCED}


def test_times_are_read_off_both_curves():
    settings = grokking.GrokkingParities().settings("laptop")
    columns = {"training.optimiser.decay": 0.001, "training.regime.m": 250, "seed": 4, "convergence_time": 800.0}
    curve = {"curve.step": [0, 200, 400, 800], "curve.training_error": [0.5, 0.1, 0.0, 0.0]}
    table = pl.DataFrame([columns | curve | {"curve.error": [0.5, 0.5, 0.45, 0.0]}])
    (row,) = grokking._times(table, settings).to_dicts()
    assert row == {"decay": 0.01, "m": 250, "seed": 4, "t_train": 400.0, "t_test": 800.0, "error_at_fit": 0.45}


# --- Fourier gaps ---------------------------------------------------------------------------------------------


def test_the_gap_of_a_sine_neuron_is_that_of_its_gradient_by_enumeration():
    """Against the model's own predictions, differentiated by JAX, averaged over the cube."""
    neuron, task = Neuron("sine", 3, output_weight=False), Parity(6, support=(1, 2, 5))
    params = neuron.init(jax.random.key(0), task)
    x = jnp.asarray(cube(6), jnp.float32)
    y = jnp.prod(x[:, jnp.array([1, 2, 5])], axis=1)
    gradient = np.abs(jax.grad(lambda w: (y * neuron.predict(params | {"w": w}, x)).mean())(params["w"]))
    expected = gradient[[1, 2, 5]].max() - gradient[[0, 3, 4]].max()
    found = gaps.sine_gap(np.asarray(params["w"]), float(params["b"]), 3, np.array([1, 2, 5]))
    assert found == pytest.approx(expected, abs=1e-6)


def gap_verdicts(size: float, growth: float) -> dict[str, str]:
    laws = itertools.product(("relu", "sine"), gaps.LAWS, (2, 4))
    random = pl.DataFrame(
        [
            {"activation": activation, "weights": law, "k": k, "gap": size, "relaxed": size}
            for activation, law, k in laws
            for _ in range(200)
        ]
    )
    paths = pl.DataFrame(
        [
            {"k": 3, "seed": seed, "step": step, "gap": 0.1 * (growth if step else 1.0)}
            for seed in range(40)
            for step in (0, 10)
        ]
    )
    return judged("parity/fourier-gaps", {"ks": (2, 4), "path_ks": (3,), "paths": 40}, random=random, paths=paths)


def test_gaps_that_are_large_and_grow_are_reproduced_and_others_not():
    assert set(gap_verdicts(0.5, 4.0).values()) == {REPRODUCED}
    found = gap_verdicts(-0.1, 1.0)
    assert found.pop("path-k3-starts-positive") == REPRODUCED
    assert set(found.values()) == {NOT_REPRODUCED}


# --- disjoint-PolyNets ----------------------------------------------------------------------------------------


def test_small_steps_of_descent_follow_the_flow():
    starts = np.array([[0.5, -1.0, -0.7], [1.0, 1.0, 1.0]])
    last = {}
    for draw, time, v in flow.descend(starts, np.full((2, 3), 5.0), 1e-4):
        np.testing.assert_allclose(v, flow_weights(time, starts[draw]), rtol=0.01)
        last[draw] = v
    assert set(last) == {0, 1} and all(np.all(np.abs(v) > 5) for v in last.values())


def test_seeds_are_those_of_a_positive_product_and_know_the_trials_weights():
    trial = flow._trial(flow.DisjointFlow().settings("smoke"))
    seeds = flow.positive_seeds(trial, 5)
    for seed in range(seeds[-1] + 1):
        other = type(trial)(trial.task, trial.model, trial.training, seed)
        assert (np.prod(np.asarray(other.initial_params()["w"])[:, 0]) > 0) == (seed in seeds)


def flow_verdicts(off: float, plateau: float, late: float) -> dict[str, str]:
    population = pl.DataFrame(
        [
            {
                "draw": draw,
                "time": time,
                "zero_time": 1.0,
                "plateau_share": plateau,
                "error": 0.4,
                "flow_error": 0.4 + off,
            }
            for draw in range(20)
            for time in (0.1, 0.9)
        ]
    )
    sgd = pl.DataFrame(
        [{"seed": seed, "time": 100.0 * late, "plateau": plateau, "flow_steps": 100.0} for seed in range(40)]
    )
    trials = pl.DataFrame(
        [{"seed": seed, "curve.step": [0, 50], "curve.error": [0.5, 0.0]} for seed in range(40)],
    )
    return judged("parity/disjoint-flow", population=population, sgd=sgd, trials=trials)


def test_curves_on_the_flow_are_reproduced_and_others_not():
    assert set(flow_verdicts(0.001, 0.8, 1.2).values()) == {REPRODUCED}
    found = flow_verdicts(0.05, 0.2, 5.0)
    assert found.pop("sgd-learns") == REPRODUCED
    assert set(found.values()) == {NOT_REPRODUCED}


def theorem_verdicts(slope: float, irrelevant: float, relevant: float, error: float) -> dict[str, str]:
    blocks = DisjointTheorems().settings("laptop").blocks
    rows = [
        {"init": "ones", "k": k, "block": block, "seed": 0, "ratio": 1 - block ** (slope * (k / 2 - 1))}
        for k in (3, 4, 5)
        for block in blocks
    ]
    rows += [
        {"init": "gaussian", "k": k, "block": 1000, "seed": seed, "ratio": 0.9} for k in (3, 4, 5) for seed in range(30)
    ]
    weights = [
        {"seed": seed, "step": step, "relevant": relevant, "irrelevant": irrelevant, "bound": 1.0, "error": error}
        for seed in range(60)
        for step in (0, 100)
    ]
    return judged("parity/disjoint-theorems", plateau=pl.DataFrame(rows), weights=pl.DataFrame(weights))


def test_the_theorems_promises_are_kept_or_not():
    assert set(theorem_verdicts(-1.0, 1.2, 2.0, 0.0).values()) == {REPRODUCED}
    found = theorem_verdicts(-0.5, 1.6, 0.9, 0.3)
    assert {name for name, verdict in found.items() if verdict == REPRODUCED} == {
        f"plateau-gaussian-k{k}" for k in (3, 4, 5)
    }
    assert INCONCLUSIVE not in found.values()


def test_a_horizon_that_was_changed_decides_nothing():
    experiment = DisjointTheorems()
    settings = experiment.settings("laptop", {"horizon": 1000})
    assert settings.steps == 1000 and experiment.settings("laptop").steps == pytest.approx(1.9e5, rel=0.05)
    with pytest.raises(KroghError, match="horizon"):
        experiment.settings("laptop", {"block": 10, "k": 4})


# --- layer by layer ---------------------------------------------------------------------------------------------


def layer_verdicts(learns: Any, gradient: float) -> dict[str, str]:
    cells = ((3, 10, 4), (3, 10, 5))
    rows = [
        {"layers": layers, "task.n": n, "task.k": k, "trainer": trainer, "phase": phase, "seed": seed}
        | {"convergence_time": 100.0 if learns(k, trainer) else None}
        for layers, n, k in cells
        for trainer in (END_TO_END, GREEDY)
        for phase in ((1, 2) if trainer == GREEDY else (2,))
        for seed in range(20)
    ]
    gradients = [
        {"trainer": trainer, "k": k, "draw": draw, "gradient": gradient if trainer == GREEDY and k > 2 else 1.0}
        for trainer in (END_TO_END, GREEDY)
        for k in (2, 3, 4)
        for draw in range(20)
    ]
    trials, table = (pl.DataFrame(part, infer_schema_length=None) for part in (rows, gradients))
    return judged("parity/layer-wise", {"cells": cells, "seeds": 20}, trials=trials, gradients=table)


def test_depth_that_pays_end_to_end_alone_is_reproduced_and_other_things_not():
    assert set(layer_verdicts(lambda k, trainer: k == 4 and trainer == END_TO_END, 1e-16).values()) == {REPRODUCED}
    found = layer_verdicts(lambda k, trainer: not (k == 4 and trainer == END_TO_END), 0.1)
    assert found.pop("gradient-else") == REPRODUCED
    assert set(found.values()) == {NOT_REPRODUCED}


def test_layer_wise_cells_must_make_sense():
    for cell in ((5, 10, 2), (3, 4, 5)):
        with pytest.raises(KroghError, match="a cell is"):
            LayerWise().settings("smoke", {"cells": (cell,)})


def test_greedy_phases_of_a_study_follow_each_other():
    experiment = LayerWise()
    cohorts = list(experiment.trials(experiment.settings("smoke")))
    greedy = [cohort for cohort in cohorts if cohort.labels["trainer"] == GREEDY]
    assert [cohort.labels["phase"] for cohort in greedy] == [1, 2]
    assert greedy[1].parents().ids().tolist() == greedy[0].ids().tolist()
    assert [identity_of(trial) for trial in greedy[0]] == greedy[0].ids().tolist()


# --- one step ---------------------------------------------------------------------------------------------------


def test_rows_show_the_support_where_their_largest_entries_are():
    rows = np.array([[3.0, -2.0, 1.0, 0.5], [3.0, 1.0, -2.0, 0.5], [1.0, 1.0, 1.0, 1.0]])
    assert one_step.recovered_rows(rows, np.array([0, 1])).tolist() == [True, False, False]


def test_samples_of_gradients_recover_more_as_they_grow():
    settings = one_step.OneStep().settings("laptop", {"recovery_ks": (2,), "repeats": 100})
    table = one_step._recovery(settings)
    assert table["successes"][-1] >= 95 and table["successes"][0] < 60
    assert table["m"][-1] == support_recovery(11, 2)["samples"]


def step_verdicts(exact: float, small: float, accuracy: float, successes: int) -> dict[str, str]:
    settings = one_step.OneStep().settings("laptop")
    rng, rows = np.random.default_rng(0), []
    for n, batch, seed in itertools.product(settings.sizes, (one_step.EXACT, *settings.batches), range(8)):
        shown = exact if batch == one_step.EXACT else small if batch == settings.batches[0] else 0.4
        noise = 0.0 if batch == one_step.EXACT else 0.01 * rng.normal()
        rows.append(
            {"n": n, "batch": batch, "seed": seed, "recovered": shown + noise, "accuracy": accuracy + 1e-3 * noise}
        )
    recovery = [
        {"k": k, "share": share, "m": int(1000 * share), "successes": successes}
        for k in (2, 4)
        for share in one_step.SHARES
    ]
    return judged("parity/one-step", networks=pl.DataFrame(rows), recovery=pl.DataFrame(recovery))


def test_one_step_that_shows_the_support_is_reproduced_and_one_that_does_not_is_not():
    assert set(step_verdicts(1.0, 0.0, 0.98, 400).values()) == {REPRODUCED}
    assert set(step_verdicts(0.9, 0.8, 0.6, 300).values()) == {NOT_REPRODUCED}


# --- kernels and queries ------------------------------------------------------------------------------------------


def test_projected_descent_comes_near_the_least_loss():
    """Against a convex solver on a small problem."""
    rng = np.random.default_rng(0)
    psi = rng.normal(size=(64, 3))
    psi /= np.linalg.norm(psi, axis=1).max()
    y = np.sign(psi @ [1.0, -2.0, 0.5] + 0.3 * rng.normal(size=64))
    loss = lambda w: np.maximum(1 - y * (psi @ w), 0.0).mean()  # noqa: E731
    ball = {"type": "ineq", "fun": lambda w: 4.0 - w @ w}
    best = min(optimize.minimize(loss, rng.normal(size=3) / 2, constraints=ball, method="SLSQP").fun for _ in range(20))
    found = kernels.projected_hinge(psi, y, 2.0)
    assert best - 1e-6 <= found <= best + 0.02


def test_embeddings_have_norm_one_at_most_and_the_tangent_is_the_gradient():
    settings = kernels.KernelFloor().settings("smoke", {"n": 4, "k": 2, "width": 3, "draws": 1})
    (_, _, parities), (_, _, relu), (_, _, tangent) = kernels._embeddings(settings)
    for psi in (parities, relu, tangent):
        assert np.linalg.norm(psi, axis=1).max() == pytest.approx(1.0)
    assert relu.shape == (16, 3) and tangent.shape == (16, 3 * 4 + 3 + 3)
    rng = np.random.default_rng(0)
    w, b = (rng.uniform(-1, 1, shape) / 2 for shape in ((3, 4), 3))
    u = rng.uniform(-1, 1, 3) / math.sqrt(3)
    active = int(np.argmax(np.linalg.norm(tangent, axis=1)))
    x = cube(4)[active]

    def network(theta: np.ndarray) -> float:
        return float(np.maximum(theta[:12].reshape(3, 4) @ x + theta[12:15], 0.0) @ theta[15:])

    theta = np.concatenate([w.ravel(), b, u])
    step = 1e-6
    slope = [(network(theta + step * e) - network(theta - step * e)) / (2 * step) for e in np.eye(18)]
    ratio = tangent[active] @ tangent[active] / (np.array(slope) @ slope)
    np.testing.assert_allclose(tangent[active], np.sqrt(ratio) * np.array(slope), atol=1e-6)


def kernel_verdicts(norm: float, loss: float, beyond: int, total: float, over: float = 0.0) -> dict[str, str]:
    features = pl.DataFrame(
        [
            {
                "features": kind,
                "draw": draw,
                "dimension": 64,
                "least_norm": norm,
                "total": total,
                "radius": radius,
                "loss": loss,
            }
            for kind in kernels.FEATURES
            for draw in range(10)
            for radius in (1.0, 3.0, 10.0)
        ]
    )
    spread = features.filter((pl.col("draw") == 0) & (pl.col("features") == kernels.FEATURES[0]))
    floor = (1 - pl.col("radius") / math.sqrt(120)).clip(0.0) + over
    whole = spread.with_columns(features=pl.lit(kernels.ALL_PARITIES), loss=floor)
    features = pl.concat([features, whole])
    counts = {f"beyond_{tau:g}": beyond for tau in (0.3, 0.1, 0.03)}
    queries = pl.DataFrame([{"kind": "noise", "draw": d, "total": total, "square": 1.0} | counts for d in range(200)])
    return judged("parity/kernel-floor", features=features, queries=queries)


def test_floors_that_hold_are_reproduced_and_broken_ones_not():
    assert set(kernel_verdicts(0.01, 0.95, 1, 0.9).values()) == {REPRODUCED}
    found = kernel_verdicts(0.5, 0.01, 5000, 1.1, over=0.1)
    assert set(found.values()) == {NOT_REPRODUCED}


def test_random_gaps_are_those_of_the_sources_formula():
    """Γ of E[y x_i sin(w·x/√n)], by enumeration; its median at k = 2 is about 0.16, where a cosine has none."""
    settings = gaps.FourierGaps().settings("smoke", {"n": 9, "ks": (2,), "draws": 200})
    table = gaps._random_gaps(settings)
    first = table.filter(activation="sine", weights="gaussian")["relaxed"].to_numpy()
    w = np.random.default_rng(3).standard_normal((200, 9)) / 3
    x = cube(9)
    gradient = np.abs(((x[:, 0] * x[:, 1] * np.sin(x @ w[0]))[:, None] * x).mean(axis=0))
    assert first[0] == pytest.approx(gradient[:2].max() - gradient[2:].max())
    assert 0.1 < np.median(first) < 0.3
