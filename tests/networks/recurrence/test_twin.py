"""A network and its re-randomised twin, and the sizes that the theory rests on, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from krogh.errors import KroghError
from krogh.networks.recurrence.decoders import base_of, decoding_matrix, some_sequences, token_decoder
from krogh.networks.recurrence.norms import back_correlations, norm_checks, product_norm, state_norm
from krogh.networks.recurrence.random_network import random_rnn
from krogh.networks.recurrence.twin import rerandomised, stability

M, L, DX, EPS = 120, 5, 3, 0.1


@pytest.fixture(scope="module")
def network():
    return random_rnn(M, DX + 1, outputs=2, seed=1)


@pytest.fixture(scope="module")
def x():
    return some_sequences(3, L, DX, EPS, seed=2)


def test_only_the_chosen_rows_are_drawn_anew(network):
    twins = rerandomised(network, 11, seed=4)
    assert len(set(twins.rows.tolist())) == 11
    for name in ("W", "A"):
        changed = np.any(getattr(twins.twin, name) != getattr(network, name), axis=1)
        assert np.array_equal(np.flatnonzero(changed), twins.rows)
    fresh = np.concatenate([rerandomised(network, M, seed=s).twin.W.ravel() for s in range(3)])
    assert fresh.std() == pytest.approx((2 / M) ** 0.5, rel=0.02) and abs(fresh.mean()) < 0.002
    assert np.array_equal(twins.twin.B, network.B)


def test_stability_is_what_it_says(network, x):
    twins = rerandomised(network, 6, seed=5)
    found = stability(twins, x, seed=0)
    own, other = network.run(x), twins.twin.run(x)
    assert found["position"].to_list() == list(range(1, L + 1))
    v = np.random.default_rng([0, 17]).standard_normal(M)
    v /= np.linalg.norm(v)
    for row in found.iter_rows(named=True):
        l = row["position"]  # noqa: E741
        moved = other.h[l] - own.h[l]
        assert row["state"] == pytest.approx(np.mean([np.linalg.norm(one) for one in moved]))
        assert row["flips"] == np.mean([(a != b).sum() for a, b in zip(own.active[l], other.active[l], strict=True)])
        inner = [max(abs(w @ one) for w in network.W) for one in moved]
        assert row["inner"] == pytest.approx(np.mean(inner))
        rows = [np.linalg.norm([network.W[k] @ one for k in twins.rows]) for one in moved]
        assert row["rows"] == pytest.approx(np.mean(rows))
        changes, seen = [], []
        for b in range(len(x)):
            ends = []
            for run in (own, other):
                product = v
                for k in range(2, l + 1):
                    product = run.active[k, b] * (run.network.W @ product)
                ends.append(product)
            changes.append(np.linalg.norm(ends[1] - ends[0]))
            seen.append(np.linalg.norm(network.W[twins.rows] @ (ends[1] - ends[0])))
        assert row["product"] == pytest.approx(np.mean(changes))
        assert row["product_rows"] == pytest.approx(np.mean(seen))


def test_a_twin_of_nothing_or_too_much_is_refused(network):
    with pytest.raises(KroghError, match="count"):
        rerandomised(network, 0)
    with pytest.raises(KroghError, match="no more than 120 rows to draw anew; got count=121"):
        rerandomised(network, M + 1)


def test_backward_products_one_by_one(network, x):
    run = network.run(x)
    found = back_correlations(run, position=2)
    assert set(found) == {(j, k) for j in range(3, L + 1) for k in range(j, L + 1)}
    for (j, k), product in found.items():
        for b in range(len(x)):
            backs = []
            for end in (j, k):
                back = network.B
                for l in range(end, 2, -1):  # noqa: E741
                    back = (back * run.active[l, b]) @ network.W
                backs.append(back)
            assert np.allclose(product[b], backs[0] @ backs[1].T)
    with pytest.raises(KroghError, match=r"position must lie in 1\.\.4; got position=5"):
        back_correlations(run, position=5)


def test_sizes_are_what_they_say(network, x):
    run, base = network.run(x), network.run(base_of(L, DX, EPS))
    found = norm_checks(run, base, directions=30)
    assert found.states[3] == pytest.approx(np.linalg.norm(run.h[3], axis=1).mean())
    assert found.columns == pytest.approx(max(np.linalg.norm(c) for c in decoding_matrix(base).T))
    singular = np.linalg.svd(token_decoder(base), compute_uv=False)
    least, most = found.decoder_gains
    assert singular[-1] <= least <= found.decoder_gain <= most <= singular[0]
    product = np.eye(M)
    for l in range(2, L + 1):  # noqa: E741
        product = base.active[l, 0][:, None] * (network.W @ product)
    assert found.product == pytest.approx(np.linalg.norm(product, 2), rel=0.02)
    assert product_norm(base, np.random.default_rng(0)) <= np.linalg.norm(product, 2) * (1 + 1e-9)
    expected = np.linalg.norm(product) / M**0.5
    assert found.gains[L] == pytest.approx(expected, rel=0.2)


def test_states_have_the_norms_of_great_width():
    x = some_sequences(2, L, DX, 0.4, seed=0)
    norms = np.mean(
        [np.linalg.norm(random_rnn(1500, DX + 1, seed=s).run(x).h, axis=2).mean(axis=1) for s in range(4)], 0
    )
    for l in range(1, L + 1):  # noqa: E741
        assert norms[l] == pytest.approx(state_norm(l, L, 0.4), rel=0.06)
