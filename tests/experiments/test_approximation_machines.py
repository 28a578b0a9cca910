"""Compiled machines step by step: in several arithmetics, under noise, with other codes of positions; and pictures."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import polars as pl
import pytest
from planted import drawn
from planted import verdicts as verdicts_of

from krogh.errors import KroghError
from krogh.experiments.approximation import machine_fidelity, machine_noise, position_codes
from krogh.experiments.approximation.common import simulate
from krogh.experiments.approximation.machine_fidelity import Settings, _longest, _spread, draw_trace, trace_table
from krogh.experiments.approximation.position_codes import CODES, noise_radius, retrieval, score_gap, wrong_share
from krogh.lab import Experiment, Results, Tables
from krogh.lab.claims import INCONCLUSIVE, NOT_REPRODUCED, REPRODUCED
from krogh.lab.experiment import measured_tables
from krogh.networks.machines.checks import check_machine
from krogh.networks.machines.compiled import compile_machine
from krogh.networks.machines.running import run_machine, run_transformer
from krogh.networks.margins.search import Scan
from krogh.programs.machines.library import load_machine
from krogh.programs.machines.running import trace
from krogh.registry import EXPERIMENTS

Given = dict[str, pl.DataFrame]


def verdicts(experiment: Experiment[Any], settings: Any, tables: Given) -> dict[str, str]:
    return verdicts_of(experiment, Tables(settings, tables))


def draws(experiment: Experiment[Any], settings: Any, tables: Given) -> list[str]:
    data = drawn(experiment, Tables(settings, tables))
    assert all(len(table) for table in data.values())
    return list(data)


BAD = [
    ("machine-fidelity", {"shown": "counter", "shown_input": "#000000"}, "must halt on '#000000'"),
    ("machine-noise", {"ratio": 1.0}, "ratio > 1"),
    ("position-codes", {"low": 200.0}, "0 < low < high"),
]


@pytest.mark.parametrize(("name", "changes", "words"), BAD)
def test_settings_that_do_not_go_together_are_refused(name, changes, words):
    with pytest.raises(KroghError, match=words):
        EXPERIMENTS[f"approximation/{name}"]().settings("smoke", changes)


# --- step by step -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adder", ["look-ahead", "ripple"])
def test_hard_attention_step_by_step_is_lookup(adder):
    machine, words = load_machine("palindrome"), ["", "0", "01", "010", "0110"]
    compiled = compile_machine(machine, 16, input_length=4, adder=adder)
    found, run = simulate(compiled, words), run_machine(compiled, words)
    assert (
        not found.wrong.any() and np.array_equal(found.output, run.output) and np.array_equal(found.output, found.label)
    )
    assert found.wrong.shape == (5, 17) and (found.deviation == 0).all() and found.gap.min() == 1.0
    assert check_machine(compiled, words).holds


@pytest.mark.slow
@pytest.mark.parametrize("arithmetic", ["float32", "bfloat16"])
@pytest.mark.parametrize("attention", ["hard", "soft"])
def test_arithmetics_are_those_of_xla(arithmetic, attention):
    """The transformer in JAX, operation by operation, on the smallest machine there is."""
    compiled = compile_machine(load_machine("parity"), 2, input_length=1, attention=attention)
    found = simulate(compiled, ["1"], arithmetic)
    parameters = {name: jnp.asarray(value) for name, value in compiled.dense_parameters(jnp.dtype(arithmetic)).items()}
    tokens, lengths = compiled.tokens(["1"])
    with jax.disable_jit():
        done = run_transformer(
            parameters, jnp.asarray(compiled.positions, arithmetic), jnp.asarray(tokens), jnp.asarray(lengths), 3,
            inverse_temperature=compiled.inverse_temperature,
        )  # fmt: skip
    coarse = float(jnp.finfo(arithmetic).eps)
    assert not found.wrong.any()
    assert float(done.deviation) == pytest.approx(found.deviation.max(), abs=coarse) and found.deviation.max() > 0
    assert float(done.gap) == pytest.approx(found.gap.min(), abs=8 * coarse) and found.gap.min() < 1


def test_gaps_and_deviations_in_bfloat16_are_known_numbers():
    """As XLA's bfloat16 has them, compiled, for the counter of one bit."""
    for attention, gap in (("hard", 0.9375), ("soft", 0.90625)):
        compiled = compile_machine(load_machine("counter"), 7, input_length=2, attention=attention)
        found = simulate(compiled, ["#0"], "bfloat16")
        assert (found.gap.min(), found.deviation.max()) == (gap, 2.0**-7) and not found.wrong.any()


def test_softmax_leaks_as_much_as_it_should_without_correction():
    compiled = compile_machine(load_machine("counter"), 7, input_length=2, attention=math.log(27), correction=False)
    found = simulate(compiled, ["#0"])
    assert found.wrong.any() and 0 < found.deviation[0] < 1 / 3 < found.deviation.max()


def test_other_weights_do_other_things():
    compiled = compile_machine(load_machine("parity"), 4, input_length=3)
    same = compiled.dense_parameters()
    assert not simulate(compiled, ["101", "11"], parameters=same).wrong.any()
    turned = {**same, "cls": -same["cls"]}
    found = simulate(compiled, ["101", "11"], parameters=turned)
    assert not found.wrong.any() and np.array_equal(found.output, -found.label)
    still = {**same, "L2.ff.W1": 0 * same["L2.ff.W1"]}
    assert simulate(compiled, ["101"], parameters=still).wrong.all()
    with pytest.raises(KroghError, match="unknown arithmetic"):
        simulate(compiled, ["1"], "float8")


def test_a_wrong_cell_alone_is_wrong():
    compiled = compile_machine(load_machine("parity"), 2, input_length=1)
    weights = compiled.dense_parameters()
    last = weights[f"L{compiled.depth}.ff.W3"]
    last[compiled.layout["pos2"]] = 0.0  # state and symbol of the first step come from pos3, and stay right
    assert simulate(compiled, ["1"], parameters=weights).wrong[0, 0]


def test_nothing_is_read_beyond_the_end_of_a_shorter_word():
    """What fills up a shorter word, the blank, is made to look like 1 in the encoder: only a mask hides it."""
    compiled = compile_machine(load_machine("parity"), 3, input_length=2)
    weights = compiled.dense_parameters()
    weights["E"][:, 0] = weights["E"][:, compiled.machine.encode("1")[0]]
    assert not simulate(compiled, ["1", "11"], parameters=weights).wrong.any()


def test_errors_beyond_all_numbers_are_infinite():
    compiled = compile_machine(load_machine("parity"), 4, input_length=3)
    huge = {name: 1e200 * value for name, value in compiled.dense_parameters().items()}
    found = simulate(compiled, ["101"], parameters=huge)
    assert math.isinf(found.deviation.max()) and found.wrong.any()


# --- fidelity -----------------------------------------------------------------------------------------------

FIDELITY = Settings(machines=("parity", "busy-beaver-2"), length=2, soft_words=2, random=2, counters=(1, 2))


@pytest.fixture(scope="module")
def faithful() -> Given:
    return {**measured_tables(machine_fidelity.MachineFidelity(), Results(pl.DataFrame(), FIDELITY))}


def test_machines_run_as_asked(faithful):
    table = faithful["machines"]
    assert len(table) == (2 + 2) * 2 * 2 and table["mismatches"].sum() == 0
    own = table.filter(machine="parity", attention="hard")
    assert own["words"].to_list() == [7, 7] and own["steps"].to_list() == [3, 3] and own["compared"][0] == 28
    assert table.filter(machine="parity", attention="soft")["words"].to_list() == [2, 2]
    assert table.filter(kind="random")["steps"].min() >= 8
    assert faithful["precision"].filter(bits=2)["steps"].to_list() == [15] * 12
    assert faithful["precision"]["deviations"].list.len().unique().sort().to_list() == [8, 16]
    assert (faithful["precision"]["deviations"].list.max() == faithful["precision"]["deviation"]).all()


def test_lengths_shrink_until_words_and_steps_fit():
    counter = load_machine("counter")  # 2 input symbols, 2^(m+2) - 2 steps
    assert _longest(counter, "counter", 6, 130, 300) == (6, 254)
    assert _longest(counter, "counter", 6, 130, 100) == (4, 62)
    assert _longest(counter, "counter", 6, 20, 300) == (3, 30)
    assert _spread(list("abcdefg"), 3) == ["a", "d", "g"] and _spread(["a"], 3) == ["a"]


def test_fidelity_is_reproduced_and_drawn(faithful):
    experiment = machine_fidelity.MachineFidelity()
    found = verdicts(experiment, FIDELITY, faithful)
    assert set(found.values()) == {REPRODUCED} and len(found) == 14
    assert draws(experiment, FIDELITY, faithful) == ["trace", "machines", "precision"]


@pytest.mark.parametrize(
    ("name", "column", "value", "broken"),
    [
        ("machines", "mismatches", 1, {"library-hard", "library-soft", "random-hard", "random-soft"}),
        ("machines", "wrong_outputs", 1, {"library-hard", "library-soft", "random-hard", "random-soft"}),
        ("machines", "gap", 0.99, {"gap-hard", "gap-soft"}),
        ("machines", "deviation", 1e-6, {"binary-hard", "binary-soft"}),
        ("precision", "mismatches", 2, {"corrected-float64", "corrected-float32", "corrected-bfloat16"}),
        ("precision", "output_error", 0.4, {f"corrected-{kind}-output" for kind in ("float64", "float32", "bfloat16")}),
    ],
)
def test_a_fault_is_not(faithful, name, column, value, broken):
    tables = {**faithful, name: faithful[name].with_columns(**{column: pl.lit(value)})}
    found = verdicts(machine_fidelity.MachineFidelity(), FIDELITY, tables)
    assert {name for name, verdict in found.items() if verdict == NOT_REPRODUCED} == broken


# --- the picture --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "word"), [("binary-addition", "101+11"), ("busy-beaver-2", "")])
def test_the_picture_shows_both_programs(name, word):
    table, run = trace_table(name, word), trace(load_machine(name), word, 200)
    assert run.halted_at is not None and len(table) == run.halted_at + 1
    assert table["cell"].to_list() == run.cell[: len(table)].tolist()
    for word in ("state", "symbol", "cell"):
        assert table[word].to_list() == table[f"network_{word}"].to_list()
    for time in (0, len(table) // 2, len(table) - 1):
        under = table["tape"][time][int(run.cell[time]) - table["first_cell"][0]]
        assert under == run.symbol[time], "the cell under the head shows the symbol under the head"
    states, symbols, bits = (np.array(table[f"{word}_entries"].to_list()) for word in ("state", "symbol", "cell"))
    assert np.array_equal(states.argmax(axis=1), table["state"])
    assert (states.sum(axis=1) == 1).all() and (symbols.sum(axis=1) == 1).all()
    weights, size = 2 ** np.arange(bits.shape[1])[::-1], 2 ** bits.shape[1]
    assert np.array_equal((bits @ weights) % size, table["cell"].to_numpy() % size)


def test_the_sum_stands_on_the_last_tape():
    figure = draw_trace("binary-addition", "101+11", trace_table("binary-addition", "101+11"))
    assert "1 0 0 0" in figure.data["tape"][-1]
    assert figure.data["equal"].all() and "they agree at every step" in figure.caption


def test_a_picture_of_a_wrong_network_says_so():
    wrong = trace_table("busy-beaver-2", "").with_columns(pl.col("network_cell") + (pl.col("time") == 2))
    figure = draw_trace("busy-beaver-2", "", wrong)
    assert figure.data["equal"].to_list() == [time != 2 for time in range(len(wrong))]
    assert "differ at 1 times" in figure.caption


# --- noise --------------------------------------------------------------------------------------------------


def test_noise_on_the_classifier_alone_flips_at_norm_one():
    compiled = compile_machine(load_machine("counter"), 3, input_length=1)
    weights = compiled.dense_parameters()
    noise = {name: np.zeros_like(array) for name, array in weights.items()}
    norms = np.array([0.25, 0.5, 0.99, 1.0, 2.0])
    still = machine_noise.radii_along(compiled, "#", weights, noise | {"cls": weights["cls"]}, norms)
    assert still == {"radius": math.inf, "step_radius": math.inf}, "a larger classifier says the same"
    accept = compiled.layout["st"][list(compiled.machine.accept)]
    noise["cls"][accept] = -5.0
    found = machine_noise.radii_along(compiled, "#", weights, noise, norms)
    assert found == {"radius": 1.0, "step_radius": math.inf}
    wrong = machine_noise.radii_along(compiled, "#", {**weights, "cls": -weights["cls"]}, noise, norms)
    assert wrong["radius"] == 0.0


NOISE = machine_noise.Settings(counters=(2, 3))


def noise_tables(plain: dict[int, float], corrected: float = 5.0, directions: int = 10) -> Given:
    rows = [
        {"bits": bits, "steps": 2 ** (bits + 2) - 1, "correction": correction, "direction": direction,
         "radius": (corrected if correction else plain[bits]) * 1.1**direction, "step_radius": 0.1, "certificate": 1e-3,
         "parameters": 10**6, "layers": 16}
        for bits in plain for correction in (False, True) for direction in range(directions)
    ]  # fmt: skip
    return {"radii": pl.DataFrame(rows)}


def test_noise_verdicts():
    experiment = machine_noise.MachineNoise()
    good = noise_tables({2: 1e-4, 3: 1e-10})
    assert verdicts(experiment, NOISE, good) == dict.fromkeys(
        ("uncorrected-15", "uncorrected-31", "corrected-15", "corrected-31"), REPRODUCED
    )
    assert draws(experiment, NOISE, good) == ["noise"]
    found = verdicts(experiment, NOISE, noise_tables({2: 1e-2, 3: 1e-6}, corrected=0.5))
    assert set(found.values()) == {NOT_REPRODUCED}
    few = machine_noise.Settings(counters=(2, 3), directions=4)
    assert set(verdicts(experiment, few, noise_tables({2: 1e-4, 3: 1e-10}, directions=4)).values()) == {INCONCLUSIVE}


def test_measured_noise_without_correction_falls():
    settings = machine_noise.Settings(counters=(1,), directions=1, low=1e-8, ratio=100.0)
    table = machine_noise.radii(settings)
    plain, rounded = (table.filter(correction=value)["radius"][0] for value in (False, True))
    assert plain <= rounded and rounded >= 1.0 and table["parameters"][0] == 552_567
    assert (table["step_radius"] <= table["radius"]).all()


# --- codes of positions -------------------------------------------------------------------------------------

GAPS = {
    "binary": lambda t: 1.0,
    "1/t": lambda t: (1 / (t - 1) - 1 / t) ** 2 / 2,
    "t/T": lambda t: 1 / (2 * t**2),
    "angle": lambda t: math.sin(math.pi / t) ** 2,
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("places", [4, 7, 32])
def test_gaps_in_closed_form_and_all_answers_right(code, places):
    head = retrieval(code, places)
    assert score_gap(head) == pytest.approx(GAPS[code](places), rel=1e-9)
    answers = head.answers(head.parameters, np.arange(places))
    assert np.array_equal(answers, head.signs) and len(set(head.signs.tolist())) == 2
    assert max(np.abs(head.parameters[name]).max() for name in ("Wq", "bq", "Wk", "bk")) <= 2


def test_a_raised_null_key_flips_at_the_gap():
    class Up:
        """Noise on the null key's last entry alone."""

        def standard_normal(self, shape: Any) -> np.ndarray:
            noise = np.zeros(shape)
            if shape == (4,) and not self.seen:
                noise[-1] = 3.0
            self.seen += shape == (4,)
            return noise

        seen = -2  # bq and bk have four entries too, and come first

    head = retrieval("t/T", 8)
    norms = np.array([0.2, 0.9, 1.1, 5.0]) / (2 * 8**2)
    assert noise_radius(head, np.arange(8), norms, Up()) == pytest.approx(norms[2])  # type: ignore[arg-type]


def test_binary_codes_bear_coarse_arithmetic_and_scalar_ones_do_not():
    assert wrong_share(retrieval("binary", 512), "bfloat16") == 0.0
    assert wrong_share(retrieval("t/T", 512), "bfloat16") > 0.4
    assert wrong_share(retrieval("1/t", 2048), "float32") > 0.1
    assert wrong_share(retrieval("1/t", 2048), "float64") == 0.0


CODED = position_codes.Settings(times=(4, 16, 64, 256), directions=10)


def code_tables(exponents: dict[str, float]) -> Given:
    gaps, radii = [], []
    for code, a in exponents.items():
        for places in CODED.times:
            gaps.append(
                {
                    "code": code,
                    "T": places,
                    "gap": places**-a,
                    "wrong_float32": 0.0,
                    "wrong_bfloat16": 0.1,
                    "parameters": 9,
                }
            )
            for direction in range(CODED.directions):
                radius = 0.5 * places**-a * 1.05**direction
                radii.append({"code": code, "T": places, "direction": direction, "radius": radius})
    return {"gaps": pl.DataFrame(gaps), "radii": pl.DataFrame(radii)}


def test_code_verdicts():
    experiment = position_codes.PositionCodes()
    good = code_tables({"binary": 0.0, "1/t": 4.0, "t/T": 2.0, "angle": 2.0})
    found = verdicts(experiment, CODED, good)
    assert set(found.values()) == {REPRODUCED} and len(found) == 10
    assert draws(experiment, CODED, good) == ["codes"]
    bad = verdicts(experiment, CODED, code_tables({"binary": 0.5, "1/t": 0.2, "t/T": 0.2, "angle": 0.2}))
    assert set(bad.values()) == {NOT_REPRODUCED}
    few = position_codes.Settings(times=(4, 16), directions=10)
    assert INCONCLUSIVE in verdicts(experiment, few, {k: t.filter(pl.col("T") <= 16) for k, t in good.items()}).values()


def test_measured_codes():
    settings = position_codes.Settings(times=(4, 32), directions=2, ratio=10.0)
    tables = measured_tables(position_codes.PositionCodes(), Results(pl.DataFrame(), settings))
    assert tables["gaps"]["gap"].to_list() == pytest.approx([GAPS[code](t) for code in CODES for t in (4, 32)])
    norms = Scan(settings.low, settings.high, settings.ratio).norms
    assert set(tables["radii"]["radius"]) <= {*norms.tolist(), math.inf} and len(tables["radii"]) == 16
