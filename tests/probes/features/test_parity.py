"""The weights of parity networks, against Theorem 7.8 and by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.groups.arrays import PowerArrays
from krogh.networks.groups.written import parity_network
from krogh.probes.features.parity import parity_structure
from krogh.theory.groups.problems import ParityProblem


def test_the_weights_of_a_parity_have_the_structure_of_theorem_7_8():
    problem = ParityProblem(7, support=(1, 2, 4, 6))
    found = parity_structure(parity_network(7, problem.support), problem)
    assert np.all(found.off_support == 0) and np.allclose(found.deviation, 0) and np.allclose(found.imbalance, 0)
    assert np.all(found.sign == 1)
    assert np.allclose(list(found.pattern_shares().values()), 1 / 8) and len(found.pattern_shares()) == 8
    summary = found.summary()
    assert summary["kept"] == summary["patterns"] == 8 and summary["sign_rule"] == 1 and summary["kept_share"] == 1


def test_parity_structure_by_hand():
    u = np.array([[3.0, -4.0, 0.5], [6.0, 6.0, 0.0], [-0.3, 0.1, 0.2], [0.0, 0.0, 0.0]])
    w = np.array([[3.0, -4.0], [-5.0, 5.0], [0.1, 0.1], [0.0, 0.0]])
    found = parity_structure(PowerArrays(u, w, 2), ParityProblem(3, k=2))
    assert found.off_support.tolist() == [0.5, 0.0, 0.2, 0.0]
    assert np.allclose(found.off_share, [0.5 / 6, 0, 0.2 / 6, 0])
    assert np.allclose(found.least[:2], [0.6, 6 / math.sqrt(50)]) and np.allclose(found.most[:1], 0.8)
    assert np.allclose(found.imbalance[:3], [0.2, 0, math.sqrt(2)]) and np.isnan(found.imbalance[3])
    assert found.sign.tolist() == [-1, -1, 0, 0]
    assert found.kept.tolist() == [True, True, False, False]
    assert found.patterns[:3].tolist() == [[1, -1], [1, 1], [1, -1]], "(-,+) is (+,-) with both signs turned"
    assert found.summary()["sign_rule"] == 0


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_only_equal_shares_of_all_sign_patterns_cancel_below_degree_k(k):
    """The logits of shares p_σ are linear in p; those in proportion to the parity must have p constant."""
    patterns = np.array([(1, *rest) for rest in itertools.product((1, -1), repeat=k - 1)])
    cube = np.array(list(itertools.product((1, -1), repeat=k)))
    values = (cube @ patterns.T) ** k * patterns.prod(axis=1)[None, :]
    parity = cube.prod(axis=1)
    across = values - np.outer(parity, parity @ values) / len(cube)  # what is not in proportion to the parity
    assert np.allclose(across @ np.ones(len(patterns)), 0)
    assert np.linalg.matrix_rank(across, tol=1e-9) == len(patterns) - 1


@pytest.mark.parametrize(("problem", "message"), [(4, "expected a parity"), (ParityProblem(5, k=2), "needs 5 columns")])
def test_bad_input(problem, message):
    with pytest.raises(KroghError, match=message):
        parity_structure(parity_network(4, k=2), problem)
