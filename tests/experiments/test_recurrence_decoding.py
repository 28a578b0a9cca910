"""Experiments on inverting random recurrent networks, on tables whose law is known: claims can hold, and can fail."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import drawn, verdicts

from krogh.experiments.recurrence import backward, decoder, inversion, one_layer, pseudo_network, re_randomised
from krogh.experiments.recurrence.random_networks import networks_of
from krogh.lab import Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.networks.recurrence.decoders import decoding_law
from krogh.registry import EXPERIMENTS


def spread(value: float, which: int) -> float:
    """A value that varies a little from one network to the next."""
    return value * (1 + 0.01 * ((which * 7) % 5 - 2))


def judged(name: str, frames: dict[str, list[dict[str, Any]]], scale: str = "laptop") -> dict[str, str]:
    experiment = EXPERIMENTS[name]()
    tables = Tables(experiment.settings(scale), {key: pl.DataFrame(rows) for key, rows in frames.items()})
    if scale == "laptop":
        assert drawn(experiment, tables)
    return verdicts(experiment, tables)


# --- inversion ------------------------------------------------------------------------------------------------------


def inverted(falls: float, rises: float, literal: float) -> list[dict[str, Any]]:
    """Errors that fall by a factor from one width to the next, and rise from one L and one d to the next."""
    s, rows = inversion.Inverting().settings("laptop"), []
    cells = itertools.product(enumerate(s.dimensions), enumerate(s.widths), enumerate(s.lengths), range(s.networks))
    for (i, d), (j, m), (k, length), which in cells:
        error = spread(0.1 * falls**j * rises ** (i + k), which)
        rows.append({"variance": inversion.SCALED, "dimension": d, "width": m, "network": which, "length": length}
                    | {"relative_l2": error, "largest": 2 * error})  # fmt: skip
    for d, (j, m), length, which in itertools.product(
        inversion.ends_of(s.dimensions), enumerate(inversion.compared(s)), s.lengths, range(s.literal)
    ):
        error = spread(0.5 * literal**j, which)
        rows.append({"variance": inversion.LITERAL, "dimension": d, "width": m, "network": which, "length": length}
                    | {"relative_l2": error, "largest": 2 * error})  # fmt: skip
    return rows


def by_sgd(falls: float, rises: float, diverged: bool) -> list[dict[str, Any]]:
    s, rows = inversion.Inverting().settings("laptop"), []
    for (j, m), (k, length), seed in itertools.product(
        enumerate(s.sgd_widths), enumerate(s.sgd_lengths), range(s.seeds)
    ):
        row = {"variance": inversion.SCALED, "seed": seed, "dimension": 2, "length": length, "width": m}
        rows.append(row | {"diverged": False, "relative_l2": spread(0.1 * falls**j * rises**k, seed), "largest": 0.2})
        error = float("inf") if diverged else 0.3
        rows.append(row | {"variance": inversion.LITERAL, "diverged": diverged, "relative_l2": error, "largest": error})
    return rows


def test_inversion_is_reproduced_where_the_trends_are_there():
    found = judged("recurrence/inversion", {"ridge": inverted(0.6, 2.0, 1.1), "sgd": by_sgd(0.7, 1.5, True)})
    expected = {"width-d2", "length-d8", "dimension-L6", "literal-no-trend", "sgd-width-d2", "sgd-literal-diverges"}
    assert expected <= set(found) and len(found) == 13 and set(found.values()) == {REPRODUCED}


def test_inversion_without_them_is_not():
    found = judged("recurrence/inversion", {"ridge": inverted(1.3, 0.5, 0.4), "sgd": by_sgd(1.5, 0.5, False)})
    assert set(found.values()) == {NOT_REPRODUCED}


def test_what_sgd_leaves_is_read_off_the_last_row_of_its_curve():
    table = pl.DataFrame(
        {
            "variance": ["2/m", "1"], "seed": [0, 1], "outcome": ["failed", "diverged"], "task.dimension": [2, 2],
            "task.length": [4, 4], "model.width": [8, 8], "curve.relative_l2": [[1.0, 0.5], [1.0, None]],
            "curve.largest_deviation": [[2.0, 0.7], [2.0, None]],
        }
    )  # fmt: skip
    found = inversion.trained(table)
    assert found["relative_l2"].to_list() == [0.5, float("inf")] and found["diverged"].to_list() == [False, True]
    assert found["largest"].to_list() == [0.7, float("inf")]


def test_inversion_trains_the_decoder_alone():
    experiment = inversion.Inverting()
    cohorts = list(experiment.trials(experiment.settings("laptop")))
    assert {cohort.template.training.frozen for cohort in cohorts} == {("A", "W")}
    assert {cohort.labels["variance"] for cohort in cohorts} == {"1", "2/m"}
    literal = [cohort for cohort in cohorts if cohort.labels["variance"] == "1"]
    assert {cohort.template.model.variance for cohort in literal} == {1.0} and len(literal) == 3


# --- one layer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "power", "verdict"), [(1.0, 0.0, REPRODUCED), (2.0, 0.4, NOT_REPRODUCED)])
def test_one_layer(factor, power, verdict):
    s = one_layer.OneLayer().settings("laptop")
    layers = [
        {"width": m, "layer": layer, "cosine": c, "square": spread(factor * (m / 100) ** power, layer)}
        for m, layer, c in itertools.product(s.widths, range(s.layers), s.cosines)
    ]
    steps = [
        {"width": m, "network": which, "position": place, "square": spread(factor, which)}
        for m, which, place in itertools.product(s.step_widths, range(s.layers), range(1, s.length + 1))
    ]
    found = judged("recurrence/one-layer", {"layers": layers, "steps": steps})
    assert len(found) == 12 and set(found.values()) == {verdict}


def test_pairs_have_the_angle_that_is_asked_for():
    v, x = one_layer.pairs_at(0.5, 6, 7, np.random.default_rng(0))
    assert np.allclose(np.sum(v * x, axis=1), 0.5) and np.allclose(np.linalg.norm(x, axis=1), 1)


# --- the decoder ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "power", "plain", "centred", "verdict"),
    [
        (1.0, 0.0, (6.0, 2.0, 0.6, 0.4, 0.6), (0.1, 0.1, 0.11, 0.12, 0.12), REPRODUCED),
        (2.0, 0.3, (0.1, 0.5, 0.6, 0.7, 0.1), (0.1, 0.2, 0.3, 0.4, 0.5), NOT_REPRODUCED),
    ],
)
def test_the_decoder(factor, power, plain, centred, verdict):
    s = decoder.Decoder().settings("laptop")
    widths = []
    for m, length in itertools.product(s.widths, s.lengths):
        for which in range(networks_of(m, s.widths, s.networks)):
            over = spread(factor * (m / s.widths[0]) ** power, which)
            widths.append({"width": m, "network": which, "length": length, "over_law": over, "largest": 1.0}
                          | {"rms": over * decoding_law(m, length), "relative": over, "centred": over})  # fmt: skip
    sizes = [
        {"network": which, "eps_x": eps_x, "rms": 0.1, "own_signs_rms": 0.1}
        | {"relative": spread(a, which), "centred": spread(b, which)}
        for (eps_x, a, b), which in itertools.product(zip(s.sizes, plain, centred, strict=True), range(s.networks))
    ]
    found = judged("recurrence/decoder", {"widths": widths, "sizes": sizes})
    assert len(found) == 10 and set(found.values()) == {verdict}


def test_small_networks_are_cheap_and_there_are_more_of_them():
    s = decoder.Decoder().settings("laptop")
    assert [networks_of(m, s.widths, s.networks) for m in s.widths] == [48, 48, 48, 12]


# --- the pseudo-network ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holds", [True, False])
def test_the_pseudo_network(holds):
    s = pseudo_network.Pseudo().settings("laptop")
    rows = []
    cells = itertools.product(enumerate(s.widths), s.sizes, s.functions, range(2 * s.networks))
    for (j, m), eps_x, function, which in cells:
        correlation, deviation = (0.97, 0.3 / 2**j) if holds else (0.5, 0.3 * 2**j)
        movement = 3.4 / eps_x if holds else 30 * 1.4**j
        rows.append(
            {"width": m, "network": which, "eps_x": eps_x, "function": function, "offset": 0.2}
            | {"correlation": correlation - 0.001 * which, "deviation": spread(deviation, which)}
            | {"target_deviation": 0.5, "movement": spread(movement, which)}
        )
    found = judged("recurrence/pseudo-network", {"networks": rows})
    assert len(found) == 7 and set(found.values()) == {REPRODUCED if holds else NOT_REPRODUCED}


# --- re-randomised --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("power", "rise", "first", "verdict"), [(0.0, 0.4, 1.15, REPRODUCED), (-0.25, 0.02, 2.0, NOT_REPRODUCED)]
)
def test_re_randomised_rows(power, rise, first, verdict):
    s = re_randomised.ReRandomised().settings("laptop")
    rows = []
    for m, which, place in itertools.product(s.widths, range(s.networks), range(1, s.length + 1)):
        for count in (30, 300):
            size = spread((count / 30) ** power * (1 + rise * (place - 1)), which)
            rows.append(
                {"position": place, "width": m, "network": which, "rows_drawn": count, "state_over_law": first * size}
                | {
                    "flips": 0.3 * size * m ** (2 / 3) * count ** (1 / 3) * (count / m) ** 0.1,
                    "flips_over_law": 0.3 * size,
                }
                | {"product_over_law": size}
            )
    found = judged("recurrence/re-randomised", {"changes": rows})
    assert len(found) == 5 and set(found.values()) == {verdict}


# --- backward matrices ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("power", "norm", "off", "verdict"), [(0.5, 1.0, 0.02, REPRODUCED), (0.9, 1.5, 0.2, NOT_REPRODUCED)]
)
def test_backward_matrices(power, norm, off, verdict):
    s = backward.Backward().settings("laptop")
    rows = []
    for m, which in itertools.product(s.widths, range(s.networks)):
        size = spread(m**power, which)
        rows.append(
            {"width": m, "network": which, "largest": size, "over_bound": size / m**0.75, "row_square": norm * m}
            | {"row_norm": spread(norm, which), "state_off": spread(off, which), "decoder_gain": spread(norm, which)}
            | {"gain": 1.0, "columns": 1.1, "product": 5.0}
        )
    found = judged("recurrence/backward", {"networks": rows})
    assert len(found) == 5 and set(found.values()) == {verdict}


@pytest.mark.parametrize(
    "measured",
    [
        {"layers": one_layer.layer_errors, "steps": one_layer.step_errors},
        {"widths": decoder.by_width, "sizes": decoder.by_size},
        {"networks": pseudo_network.errors},
        {"changes": re_randomised.changes},
        {"networks": backward.sizes},
    ],
    ids=["one-layer", "decoder", "pseudo-network", "re-randomised", "backward"],
)
def test_what_is_measured_at_a_small_scale_decides_nothing(measured, request):
    name = f"recurrence/{request.node.callspec.id}"
    s = EXPERIMENTS[name]().settings("smoke")
    frames = {key: measure(s) for key, measure in measured.items()}
    assert all(len(frame) and not frame.null_count().sum_horizontal()[0] for frame in frames.values())
    again = {key: measure(s) for key, measure in measured.items()}
    assert all(frames[key].equals(again[key]) for key in frames), "seeds decide everything"
    found = verdicts(EXPERIMENTS[name](), Tables(s, frames))
    assert set(found.values()) == {INCONCLUSIVE}
