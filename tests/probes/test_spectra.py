"""Spectra of neurons against the discrete Fourier transform and against projectors written out."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.models import PairNetwork, PowerNetwork
from krogh.probes import FourierPower, IrrepPower, Moment, NeuronCounts, NeuronShares, frequency_kernels
from krogh.probes.spectra import spectrum
from krogh.programs.groups import from_table, symmetric
from krogh.tasks import GroupComposition, ParityClasses

QUICK = {"xla_backend_optimization_level": 0}  # compiling costs more here than running

measure = jax.jit(lambda probe, moment: probe.measure(moment), compiler_options=QUICK)


def moment(task, params) -> Moment:
    params = {name: jnp.asarray(leaf, jnp.float32) for name, leaf in params.items()}
    return Moment(task, PairNetwork(len(params["U"])), params, params, None, jnp.float32(0), jnp.int32(0))


def some(width, n, seed=0) -> dict:
    random = np.random.default_rng(seed)
    return {name: random.normal(size=(width, n)) for name in "UVW"}


def one_sided(u: np.ndarray) -> np.ndarray:
    """P_0 and P_j = |û(j)|² + |û(-j)|², each once."""
    n = len(u)
    hat = np.abs([sum(u[k] * np.exp(-2j * np.pi * j * k / n) for k in range(n)) for j in range(n)]) ** 2
    return np.array([hat[j] if j in (0, n - j) else hat[j] + hat[n - j] for j in range(n // 2 + 1)]) / n


def s3_kernels() -> np.ndarray:
    """(d/6)χ of trivial, sign and standard, from the permutations themselves."""
    permutations = np.asarray(symmetric(3).permutations)
    fixed = (permutations == np.arange(3)[None, :]).sum(axis=1)
    sign = np.array([round(np.linalg.det(np.eye(3)[permutation])) for permutation in permutations])
    return np.stack([np.ones(6), sign, 2 * (fixed - 1)]) / 6


@pytest.mark.parametrize("n", [2, 5, 6, 11, 12])
def test_the_kernels_of_frequencies_give_the_one_sided_power(n):
    vectors = np.random.default_rng(n).normal(size=(4, n)).astype(np.float32)
    quotient = jnp.asarray((np.arange(n)[None, :] - np.arange(n)[:, None]) % n)
    found = np.asarray(spectrum(jnp.asarray(vectors), frequency_kernels(n), quotient))
    np.testing.assert_allclose(found, [one_sided(row) for row in vectors.astype(np.float64)], rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), (vectors**2).sum(axis=1), rtol=1e-4)


def expected_columns(params: dict, powers, first: int) -> np.ndarray:
    """The eight columns of a largest power, in plain NumPy; `powers` of one vector."""
    each = {name: np.array([powers(row) for row in params[name]]) for name in "UVW"}
    largest = {name: table.max(axis=1) / table.sum(axis=1) for name, table in each.items()}
    lengths = np.linalg.norm(np.concatenate([params[name] for name in "UVW"], axis=1), axis=1)
    kept = lengths >= 0.1 * lengths.max()
    means = [np.average(largest[name], weights=lengths**3) for name in "UVW"]
    medians = [np.median(largest[name][kept]) for name in "UVW"]
    dominant = [each[name][:, first:].argmax(axis=1) for name in "UVW"]
    agree = (dominant[0] == dominant[1]) & (dominant[1] == dominant[2])
    return np.array([*means, *medians, agree[kept].mean(), kept.sum()])


def uneven(width: int, n: int) -> dict:
    """Neurons of different lengths, the last one to be left out, the first three of one frequency."""
    params = some(width, n)
    wave = np.cos(2 * np.pi * 2 * np.arange(n) / n)
    for name in "UVW":
        params[name][:3] = 0.05 * params[name][:3] + wave[None, :]
    lengths = np.linspace(1.0, 0.5, width)
    lengths[-1] = 0.01
    return {name: leaf * lengths[:, None] for name, leaf in params.items()}


def test_largest_power_of_a_cyclic_group():
    params = uneven(7, 9)
    params["U"][1] += 5.0  # frequency 0 has most of its power, which counts as power but not as a frequency
    found = measure(FourierPower(), moment(GroupComposition("Z_9"), params))
    np.testing.assert_allclose(found, expected_columns(params, one_sided, 1), rtol=1e-4)
    assert found[-1] == 6 and 3 / 6 <= found[-2] < 1


def test_agreement_asks_all_three_vectors():
    cosines = np.cos(2 * np.pi * np.outer([1, 2, 3], np.arange(7)) / 7)
    triples = np.array([(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 2, 2)])  # all, u and v, u and w, v and w
    params = {name: cosines[triples[:, place]] for place, name in enumerate("UVW")}
    found = measure(FourierPower(), moment(GroupComposition("Z_7"), params))
    assert found[-2] == 0.25 and found[-1] == 4


def test_a_cosine_has_all_power_in_one_frequency_and_a_unit_vector_has_as_much_in_each():
    """One-sided, so 1 and not 1/2; a neuron that reads single elements has 2/p (D.4)."""
    angles = 2 * np.pi * 3 * np.arange(11) / 11
    waves = {name: np.cos(angles + phase)[None] for name, phase in zip("UVW", (0.1, 0.2, 0.3), strict=True)}
    found = measure(FourierPower(), moment(GroupComposition("Z_11"), waves))
    np.testing.assert_allclose(found, [1, 1, 1, 1, 1, 1, 1, 1], rtol=1e-5)
    units = {name: np.eye(11)[[4]] for name in "UVW"}
    np.testing.assert_allclose(measure(FourierPower(), moment(GroupComposition("Z_11"), units))[:6], 2 / 11, rtol=1e-4)


def test_the_power_of_random_neurons_is_as_expected():
    """Before training on Z_71: the mean of the largest of K = 35 nearly exponential shares, H_K/K = 0.118."""
    task = GroupComposition("Z_71")
    params = PairNetwork(2000).init(jax.random.key(0), task)
    found = measure(FourierPower(kept=0.0), moment(task, params))
    assert np.abs(np.asarray(found[:3]) - 0.1183).max() < 4 * 0.0304 / np.sqrt(2000)


def test_largest_power_of_a_group_that_is_not_abelian():
    """Against projectors Π[g, h] = κ(g⁻¹h) written out, which are idempotent, orthogonal and add up to 1."""
    group, kernels, params = symmetric(3), s3_kernels(), uneven(7, 6)
    inverse = [int(np.flatnonzero(group.table[g] == group.identity)[0]) for g in range(6)]
    projectors = np.array(
        [[[kernel[group.table[inverse[g], h]] for h in range(6)] for g in range(6)] for kernel in kernels]
    )
    np.testing.assert_allclose(
        np.einsum("rgh,shk->rsgk", projectors, projectors), np.eye(3)[:, :, None, None] * projectors[None], atol=1e-12
    )
    expected = expected_columns(params, lambda u: np.einsum("g,rgh,h->r", u, projectors, u), 0)
    task = GroupComposition(group)
    for given in (kernels, projectors):
        np.testing.assert_allclose(measure(IrrepPower(given), moment(task, params)), expected, rtol=1e-4)


def test_representations_do_not_depend_on_how_elements_are_numbered():
    group, kernels, params = symmetric(3), s3_kernels(), some(5, 6)
    order = np.random.default_rng(4).permutation(6)  # new element i is old element order[i]
    back = np.argsort(order)
    moved = from_table(back[np.asarray(group.table)[np.ix_(order, order)]])
    assert moved.identity != 0
    found = measure(IrrepPower(kernels), moment(GroupComposition(group), params))
    renamed = {name: leaf[:, order] for name, leaf in params.items()}
    again = IrrepPower(kernels[:, order])
    again.check(GroupComposition(moved), PairNetwork(5))
    np.testing.assert_allclose(measure(again, moment(GroupComposition(moved), renamed)), found, rtol=1e-4)
    projectors = np.stack([kernel[np.argsort(group.table, axis=1)] for kernel in kernels])[:, order][:, :, order]
    with pytest.raises(KroghError, match="identity of table"):
        IrrepPower(projectors).check(GroupComposition(moved), PairNetwork(5))


def test_shares_and_counts_of_frequencies():
    params = uneven(7, 9)
    task = GroupComposition("Z_9")
    powers = np.array([sum(one_sided(params[name][i]) for name in "UVW") for i in range(7)])
    dominant = powers[:, 1:].argmax(axis=1) + 1
    lengths = np.linalg.norm(np.concatenate([params[name] for name in "UVW"], axis=1), axis=1)
    shares = [(lengths**3)[dominant == j].sum() / (lengths**3).sum() for j in range(1, 5)]
    counts = [(dominant[:6] == j).sum() for j in range(1, 5)]
    assert NeuronShares().columns(task) == ("share_1", "share_2", "share_3", "share_4")
    np.testing.assert_allclose(measure(NeuronShares(), moment(task, params)), shares, rtol=1e-5)
    assert measure(NeuronCounts(), moment(task, params)).tolist() == counts and sum(counts) == 6
    with_zero = NeuronShares(frequency_kernels(9))
    assert with_zero.columns(task)[0] == "share_0" and len(with_zero.columns(task)) == 5


def test_shares_of_representations():
    kernels, task = s3_kernels(), GroupComposition("S_3")
    sign = 6 * kernels[1]
    standard = np.array([kernels[2] * 3, kernels[2][::-1] * 3])
    standard = standard - standard.mean(axis=1, keepdims=True) - (standard @ sign)[:, None] * sign[None, :] / 6
    rows = np.stack([sign, 2 * standard[0], np.ones(6)])
    seen = moment(task, dict.fromkeys("UVW", rows))
    lengths = np.linalg.norm(rows, axis=1) ** 3
    expected = np.array([lengths[2], lengths[0], lengths[1]]) / lengths.sum()
    np.testing.assert_allclose(measure(NeuronShares(kernels), seen), expected, rtol=1e-4)
    assert measure(NeuronCounts(kernels), seen).tolist() == [1, 1, 1]
    assert measure(NeuronCounts(kernels, kept=1.0), seen).tolist() == (np.arange(3) == expected.argmax()).tolist()


def test_the_zero_network_has_no_power():
    zeros = {name: np.zeros((3, 5)) for name in "UVW"}
    seen = moment(GroupComposition("Z_5"), zeros)
    assert measure(FourierPower(), seen)[:6].tolist() == [0] * 6
    assert measure(NeuronShares(), seen).tolist() == [0, 0]


def test_what_is_refused():
    z5, s3, model = GroupComposition("Z_5"), GroupComposition("S_3"), PairNetwork(3)
    for build, echo in (
        (lambda: FourierPower().check(s3, model), "addition modulo 6; got 'S_3'"),
        (lambda: NeuronShares().check(s3, model), "addition modulo 6; got 'S_3'"),
        (
            lambda: FourierPower().check(ParityClasses(4, 2), PowerNetwork(3, 2)),
            "got 'power-network' on 'parity-classes'",
        ),
        (lambda: IrrepPower(s3_kernels()).check(z5, model), r"shape \[parts, 5\]; got \[3, 6\]"),
        (lambda: IrrepPower(s3_kernels()[1:]).check(s3, model), "add up to 1 at the identity of S_3"),
        (lambda: IrrepPower(s3_kernels(), kept=-1.0), "kept=-1.0"),
        (lambda: IrrepPower(np.eye(3)).check(GroupComposition([[0, 0, 0]] * 3), model), "identity fails"),
    ):
        with pytest.raises(KroghError, match=echo):
            build()
