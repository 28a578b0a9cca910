"""How near a network is to the induction head: the head itself, with its heads in any order, and a network as drawn."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from support import random_params

from krogh.errors import KroghError
from krogh.models import CausalTransformer
from krogh.networks.handmade import construct
from krogh.probes.features.induction import induction_distance
from krogh.tasks import MarkovChains

QUICK = {"xla_backend_optimization_level": 0}
CHAINS, TRIGRAMS = MarkovChains(k=3, length=16), MarkovChains(k=2, length=16, order=3)


def some_examples(task, size=200):
    draw = jax.jit(lambda: task.batch(jax.random.key(3), size), compiler_options=QUICK)
    return jax.tree.map(np.asarray, draw())


EXAMPLES = {2: None, 3: None}


def examples_of(task):
    if EXAMPLES[task.order] is None:
        EXAMPLES[task.order] = some_examples(task)
    return EXAMPLES[task.order]


def written(task, **settings):
    name = "chains/induction-head" if task.order == 2 else "chains/ngram-heads"
    more = {} if task.order == 2 else {"n": task.order}
    made = construct(name, k=task.k, length=task.length, **more, **settings)
    return made.model, {name: value.astype(np.float32) for name, value in made.parameters.items()}


@pytest.mark.parametrize("task", [CHAINS, TRIGRAMS], ids=["bigrams", "trigrams"])
def test_the_head_itself_is_at_no_distance(task):
    model, params = written(task, c=100.0, a=2.9, b=0.4)
    found = induction_distance(task, model, params, examples_of(task))
    assert len(found.previous) == task.order - 1 and min(found.previous) > 1 - 1e-6
    assert found.first < 1e-6 and found.second < 1e-4 and found.variation < 1e-4 and found.kl < 1e-7
    assert found.scale == pytest.approx(2.9, rel=1e-3)
    assert set(found.losses) == {"network", "first", "second", "both", "head"}
    assert all(loss == pytest.approx(found.losses["network"], abs=1e-4) for loss in found.losses.values())
    assert found.successors > found.chance + 0.1


def test_heads_are_told_apart_in_whatever_order_they_stand():
    model, params = written(TRIGRAMS, c=100.0)
    straight = induction_distance(TRIGRAMS, model, params, examples_of(TRIGRAMS))
    order = np.r_[4:8, 0:4]  # the columns of the second head first
    moved = {"E": params["E"][:, order], "P": params["P"][order], "v": params["v"][:, :, order]}
    moved |= {name: params[name][:, order][:, :, order] for name in "QKV"}
    turned = induction_distance(TRIGRAMS, model, moved, examples_of(TRIGRAMS))
    assert straight.heads == (0, 1, 1) and turned.heads == (1, 0, 0)
    assert turned.previous == pytest.approx(straight.previous) and turned.second < 1e-4
    assert turned.losses == pytest.approx(straight.losses, abs=1e-4)


def test_a_network_as_drawn_is_far_away():
    model = CausalTransformer(dimension=9)
    params = random_params(CHAINS, model, np.float32, 1 / 3)
    found = induction_distance(CHAINS, model, params, examples_of(CHAINS))
    assert found.previous[0] < 0.4 and found.first > 0.5 and found.second > 0.2
    assert abs(found.successors - found.chance) < 0.1, "no better than attention to everything"
    assert found.losses["network"] > found.losses["head"] or found.variation > 0.02
    assert "attention to the previous token" in found.summary and "in first" in found.summary


def test_shares_are_those_of_loops():
    model = CausalTransformer.paper(dimension=8, heads=2, spread=1.0, output_spread=1.0)
    params, examples = random_params(TRIGRAMS, model, np.float32, 0.5), examples_of(TRIGRAMS)
    found = induction_distance(TRIGRAMS, model, params, examples)
    weights = np.asarray(jax.jit(model.attention)(params, examples.x), np.float64)
    first, second, last = found.heads
    assert first != second
    for share, head, back in zip(found.previous, (first, second), (1, 2), strict=True):
        each = [weights[0, b, head, i, i - back] for b in range(200) for i in range(back, 16)]
        assert share == pytest.approx(np.mean(each), rel=1e-5)
    total, places = 0.0, 0
    for b, x in enumerate(examples.x.tolist()):
        after = [j for j in range(2, 16) if x[j - 2 : j] == x[14:]]
        total, places = total + weights[1, b, last, 15, after].sum(), places + len(after)
    assert found.successors == pytest.approx(total / 200, rel=1e-5)
    assert found.chance == pytest.approx(places / (200 * 16))


def test_a_head_behind_a_broken_layer_is_mended_by_ideal_attention():
    """Layer 1 made to look at itself: predictions are spoiled, and come back with ideal attention there."""
    model, params = written(CHAINS, c=100.0, a=2.9)
    whole = induction_distance(CHAINS, model, params, examples_of(CHAINS))
    broken = {**params, "v": np.roll(params["v"], -1, axis=1)}
    found = induction_distance(CHAINS, model, broken, examples_of(CHAINS))
    assert found.first > 0.9 and found.variation > 0.05
    assert found.losses["network"] > whole.losses["network"] + 0.02
    assert found.losses["first"] == pytest.approx(whole.losses["network"], abs=1e-4)
    assert found.losses["second"] == pytest.approx(whole.losses["network"], abs=1e-4)


def test_networks_without_such_layers_are_refused():
    model = CausalTransformer(dimension=8, layers=1)
    for task, given, echo in (
        (CHAINS, model, "two layers of a CausalTransformer; got CausalTransformer of layers=1"),
        (TRIGRAMS, CausalTransformer(dimension=8), "order 3 need 2 heads that look back; got heads=1 .try heads=2"),
    ):
        with pytest.raises(KroghError, match=echo):
            induction_distance(task, given, {}, examples_of(task))
