"""The optimum at finite λ: the reference's table, general-purpose optimisers, and real networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PairArrays, norm
from krogh.networks.groups.measures import cross_entropy, dataset_margin
from krogh.networks.groups.written import group_network, parity_network
from krogh.programs.groups import load_group
from krogh.theory.groups.finite import Program, finite_lambda
from krogh.theory.groups.maximum import max_margin_cyclic, max_margin_group, max_margin_parity
from krogh.theory.groups.problems import ParityProblem, characters_of

TABLE = [
    ("S_3", 1e-3, 4.410, 4.33e-2, 0.942, {"2": 0.800, "sign": 0.200}),
    ("S_3", 1e-5, 9.058, 4.24e-4, 0.971, {"2": 0.825, "sign": 0.175}),
    ("S_3", 1e-7, 13.664, 4.24e-6, 0.9805, {"2": 0.8332, "sign": 0.1668}),
    ("S_4", 1e-7, 12.256, 4.82e-5, 0.946, {"3a": 0.390, "2": 0.1745, "3b": 0.390, "sign": 0.0456}),
    ("S_5", 1e-5, 6.408, 7.72e-2, 0.932, {"4a": 0.297, "5a": 0.186, "6": 0, "5b": 0.186, "4b": 0.297, "sign": 0.035}),
    ("S_5", 1e-9, 15.58, 7.54e-6, 0.967, {"4a": 0.247, "5a": 0.21, "6": 0.075, "5b": 0.21, "4b": 0.247, "sign": 0.012}),
    ("A_5", 1e-5, 7.457, 2.33e-2, 0.987, {"3a": 0.384, "3b": 0.384, "4": 0.232, "5": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("group", "lam", "margin", "entropy", "ratio", "shares"), TABLE)
def test_the_table_of_the_reference(group, lam, margin, entropy, ratio, shares):
    found = finite_lambda(group, lam)
    assert found.margin == pytest.approx(margin, rel=4e-4)
    assert found.cross_entropy == pytest.approx(entropy, rel=3e-3)
    assert found.ratio == pytest.approx(ratio, abs=6e-4)
    assert found.shares == pytest.approx(shares, abs=6e-4)
    assert not found.zero and found.residual <= 1e-10
    assert -1e-12 * found.cross_entropy <= found.gap <= 1e-9 * found.cross_entropy
    assert found.normalised_margin == pytest.approx(found.margin / found.rho)
    assert all(share == 0 for irrep, share in found.shares.items() if shares[irrep] == 0), "exactly unused"


def test_cyclic_groups_and_parities_are_closed():
    for p, margin, entropy in ((71, 5.533, 0.2443), (23, 6.302, 0.03954), (11, 6.698, 0.01226)):
        found = finite_lambda(p, 1e-4)
        assert found.margin == pytest.approx(margin, abs=1e-3) and found.ratio == 1
        assert found.cross_entropy == pytest.approx(entropy, rel=1e-3)
    assert finite_lambda(71, 1e-4).rho == pytest.approx(11992, abs=1)
    parity = finite_lambda(ParityProblem(10, k=4), 1e-3)
    assert parity.margin == pytest.approx(6.407, abs=1e-3) and parity.ratio == 1


@pytest.mark.parametrize("group", ["Z_9", "Z_15", "Z_2^3", "Z_3xZ_3"])
@pytest.mark.parametrize("share", [1e-6, 0.3, 0.95])
def test_the_closed_form_is_the_programs_optimum(group, share):
    """Not only for primes: wherever the real irreps have one dimension."""
    characters = characters_of(group)
    lam = share * finite_lambda(group, 1e-9).threshold
    closed = finite_lambda(group, lam)
    program = Program(characters.payoff(), characters.class_sizes[1:].astype(float), lam / characters.unit)
    y = program.solve()
    assert np.min(y @ program.payoff) == pytest.approx(closed.margin, rel=1e-8)
    assert program.cross_entropy(y) == pytest.approx(closed.cross_entropy, rel=1e-8)
    assert "closed form" in closed.method


@pytest.mark.parametrize(("group", "lam"), [("S_3", 1e-3), ("S_4", 1e-4), ("A_5", 1e-4), ("Q_8", 1e-3), ("Z_8", 1e-3)])
def test_no_general_optimiser_does_better(group, lam):
    characters = characters_of(group)
    b, sizes = characters.unit * characters.payoff(), characters.class_sizes[1:]

    def objective(logarithm):
        x = np.exp(logarithm)
        return np.logaddexp(0, np.logaddexp.reduce(np.log(sizes) - x @ b)) + lam * x.sum()

    found = finite_lambda(group, lam)
    ours = found.cross_entropy + lam * found.rho
    starts = np.random.default_rng(0).normal(math.log(found.rho / len(b)), 1, (3, len(b)))
    theirs = min(minimize(objective, start, method="BFGS", options={"gtol": 1e-9}).fun for start in starts)
    assert ours <= theirs + 1e-12 and theirs == pytest.approx(ours, rel=1e-5)


def penalised(network: PairArrays, group, lam: float) -> float:
    return cross_entropy(network, group) + lam * norm(network) ** 3


@pytest.mark.parametrize(("name", "lam"), [("S_3", 1e-3), ("Q_8", 1e-3), ("A_4", 1e-3), ("Z_6", 1e-3)])
def test_the_optimum_is_that_of_real_networks(name, lam):
    """A network with these shares has this cross-entropy and margin, and nearby ones are no better."""
    group = load_group(name)
    found = finite_lambda(group, lam)
    network = group_network(group, found.shares).scaled(found.rho ** (1 / 3))
    assert cross_entropy(network, group) == pytest.approx(found.cross_entropy, rel=1e-10)
    assert dataset_margin(network, group) == pytest.approx(found.margin, rel=1e-10)
    best = penalised(network, group, lam)
    random = np.random.default_rng(1)
    slopes = []
    for _ in range(20):
        step = [random.normal(size=part.shape) for part in (network.U, network.V, network.W)]
        moved = [
            PairArrays(network.U + e * step[0], network.V + e * step[1], network.W + e * step[2]) for e in (1e-4, -1e-4)
        ]
        values = [penalised(other, group, lam) for other in moved]
        assert min(values) > best - 1e-12
        slopes.append((values[0] - values[1]) / 2e-4)
    assert np.abs(slopes).max() < 1e-5, "stationary"


@pytest.mark.parametrize("group", ["S_3", "S_4", "A_5", "Q_8"])
def test_the_normalised_margin_rises_to_the_maximum(group):
    """Theorem 7.1, and how slowly."""
    ratios = [finite_lambda(group, 10.0**-e).ratio for e in (4, 6, 9, 20, 60, 200)]
    assert ratios == sorted(ratios) and 0.99 < ratios[-1] < 1
    last = finite_lambda(group, 1e-250)
    assert 1 - last.ratio == pytest.approx((1 - ratios[-1]) * 200 / 250, rel=0.05), "like 1/log(1/λ)"
    best = max_margin_group(group).irrep_shares
    assert finite_lambda(group, 1e-300).shares == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize("group", ["S_3", "S_5", "Z_11", "Z_8", "A_5", "A_4", "Q_8", "S_6"])
def test_from_the_threshold_on_the_zero_network_is_optimal(group):
    characters = characters_of(group)
    threshold = finite_lambda(group, 1.0).threshold
    d = characters.dimensions[1:].min()
    assert threshold == pytest.approx(2 / (3 * characters.order) ** 1.5 / math.sqrt(d))
    above, below = finite_lambda(group, threshold), finite_lambda(group, threshold * 0.999)
    assert above.zero and above.rho == 0 and above.cross_entropy == math.log(characters.order)
    assert math.isnan(above.normalised_margin) and "the zero network is optimal" in above.method
    assert not below.zero and below.rho > 0 and below.cross_entropy < math.log(characters.order)
    value = below.cross_entropy + below.lam * below.rho
    assert value < math.log(characters.order)


def test_thresholds_in_closed_form():
    assert finite_lambda(11, 1e-3).threshold == pytest.approx(max_margin_cyclic(11).value * 10 / 11) and (
        finite_lambda(11, 9e-3).zero
    )
    parity = finite_lambda(ParityProblem(5, k=3), 1e-3)
    assert parity.threshold == pytest.approx(max_margin_parity(3).value / 2)
    # For groups with an irrep of dimension 1 and others the threshold is larger than γ*(|G|-1)/|G|.
    assert finite_lambda("S_3", 1e-3).threshold > 1.3 * max_margin_group("S_3").value * 5 / 6


def test_parity_networks_reach_their_optimum():
    problem = ParityProblem(5, (1, 3))
    found = finite_lambda(problem, 1e-2)
    network = parity_network(5, (1, 3)).scaled(found.rho ** (1 / 3))
    assert cross_entropy(network, problem) == pytest.approx(found.cross_entropy, rel=1e-12)
    assert dataset_margin(network, problem) == pytest.approx(found.margin, rel=1e-12)
    for factor in (0.99, 1.01):
        other = network.scaled(factor)
        assert cross_entropy(other, problem) + 1e-2 * norm(other) ** 3 > found.cross_entropy + 1e-2 * found.rho


@pytest.mark.parametrize("group", ["S_3", "S_5", "S_6", "A_5", "D_4xD_4", "Q_8", "Z_8", "S_7"])
def test_the_program_is_solved_at_every_lambda(group):
    """Next to the threshold, where irreps come into use, where optima are nearly flat, and far below."""
    threshold = finite_lambda(group, 1.0).threshold
    for share in (1 - 1e-7, 0.5, 0.1, 1e-6, 1e-60, 1e-280):
        found = finite_lambda(group, share * threshold)
        assert found.residual <= 1e-10 and abs(found.gap) <= 1e-9 * found.cross_entropy
        assert sum(found.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("lam", [0, -1.0, 1e-310, math.inf, math.nan, "1", True])
def test_lambda_is_a_positive_number(lam):
    with pytest.raises(KroghError, match="lambda must be a positive number, at least 1e-300; got lambda="):
        finite_lambda("S_3", lam)
