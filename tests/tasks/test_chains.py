"""In-context Markov chains: samplers, stationary laws, counts and strategies against plain Python and known numbers."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from krogh.errors import KroghError
from krogh.tasks import (
    Curriculum,
    DirichletRows,
    DoublyStochastic,
    GivenRows,
    Hard,
    Interpolated,
    MarkovChains,
    Mixture,
    Unigram,
    context_of,
    gram_counts,
    kl,
    stationary,
)
from krogh.tasks.chains import (
    _birkhoff,
    all_tokens,
    contexts_of,
    strategy_losses,
    strategy_name,
    successor_counts,
    token_by_token,
)

KEY = jax.random.key(8)
SIGMAS = 4.5
rows = jax.jit(lambda prior, size, k: prior.rows(KEY, size, k, k), static_argnums=(1, 2))
batch = jax.jit(lambda task, key, size: task.batch(key, size), static_argnums=2)


def close(sample, expected) -> bool:
    """Whether the mean of a sample lies within its error of what is expected."""
    sample = np.asarray(sample, np.float64)
    return abs(sample.mean() - expected) < SIGMAS * sample.std() / math.sqrt(len(sample)) + 1e-7


# --- priors ---

PRIORS = [
    (DirichletRows(), 9),
    pytest.param(DirichletRows([0.5, 1.0, 2.5]), 3, marks=pytest.mark.slow),
    (DoublyStochastic(), 4),
    (DoublyStochastic(sinkhorn=True), 9),
    pytest.param(Mixture(0.4), 3, marks=pytest.mark.slow),
    pytest.param(Unigram(), 3, marks=pytest.mark.slow),
    pytest.param(Interpolated(0.6), 2, marks=pytest.mark.slow),
    pytest.param(Hard(0.2), 2, marks=pytest.mark.slow),
    pytest.param(GivenRows([[0.25, 0.75], [1.0, 0.0]]), 2, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("prior", "k"), PRIORS)
def test_rows_are_probabilities_and_do_not_depend_on_how_many_are_drawn(prior, k):
    few, many = (np.asarray(rows(prior, size, k)) for size in (7, 64))
    assert many.shape == (64, k, k) and many.dtype == np.float32
    assert np.array_equal(few, many[:7])
    assert (many >= 0).all() and np.abs(many.sum(axis=-1) - 1).max() < 1e-6


@pytest.mark.parametrize("alpha", [None, [0.5, 1.0, 2.5]])
def test_dirichlet_rows_have_the_moments_of_their_law(alpha):
    drawn = np.asarray(rows(DirichletRows(alpha), 4000, 3), np.float64)
    a = np.broadcast_to(1.0 if alpha is None else alpha, 3).astype(float)
    total = a.sum()
    for i, j in itertools.product(range(3), range(3)):
        assert close(drawn[:, i, j], a[j] / total)
        assert close(drawn[:, i, j] ** 2, a[j] * (a[j] + 1) / total / (total + 1))
    assert close(drawn[:, 0, 0] * drawn[:, 1, 0], (a[0] / total) ** 2), "rows are independent"


@pytest.mark.slow
def test_rows_survive_an_alpha_that_underflows():
    drawn = np.asarray(rows(DirichletRows(0.001), 2000, 3))
    assert np.isfinite(drawn).all() and np.abs(drawn.sum(axis=-1) - 1).max() < 1e-6
    assert np.isfinite(stationary(drawn)).all()


def test_doubly_stochastic_rows_are_uniform_on_the_polytope():
    """k = 2: a is uniform. k = 3: the polytope in (P11, P12, P21, P22) has moments that a fine grid knows."""
    two = np.asarray(rows(DoublyStochastic(), 4000, 2), np.float64)
    assert np.abs(two[:, 0, 0] - two[:, 1, 1]).max() < 1e-6
    for power in (1, 2, 3, 4):
        assert close(two[:, 0, 0] ** power, 1 / (power + 1))
    three = np.asarray(rows(DoublyStochastic(), 6000, 3), np.float64)
    assert np.abs(three.sum(axis=1) - 1).max() < 1e-6 and (three >= 0).all()
    middle = (np.arange(40) + 0.5) / 40
    a, b, c, d = np.meshgrid(middle, middle, middle, middle, indexing="ij", sparse=True)
    inside = (a + b <= 1) & (c + d <= 1) & (a + c <= 1) & (b + d <= 1) & (a + b + c + d >= 1)
    for place, values in (((0, 0), a), ((0, 1), b), ((1, 1), d)):
        for power in (2, 3):
            exact = float(np.broadcast_to(values**power, inside.shape)[inside].mean())
            found = three[:, place[0], place[1]] ** power
            assert abs(found.mean() - exact) < SIGMAS * found.std() / math.sqrt(6000) + 0.01 * exact
    product = float(np.broadcast_to(a * d, inside.shape)[inside].mean())
    assert abs((three[:, 0, 0] * three[:, 1, 1]).mean() - product) < 0.005
    # by symmetry no entry, wherever it was drawn or left over, is larger than another
    for i, j in itertools.product(range(3), range(3)):
        assert close(three[:, i, j], 1 / 3)
        assert abs((three[:, i, j] ** 2).mean() - (three[:, 0, 0] ** 2).mean()) < 0.012


VOLUMES = {2: 1, 3: 1 / 8, 4: 11 / 11340, 5: 188723 / 836911595520}
"""Of the polytopes, relative to a cell of their lattice (Chan and Robbins)."""


@pytest.mark.parametrize("k", [3, 4, pytest.param(5, marks=pytest.mark.slow)])
def test_rejection_accepts_as_often_as_the_volume_of_the_polytope_says(k):
    rate = VOLUMES[k] * math.factorial(k - 1) ** (k - 1)
    assert abs(rate - {2: 1, 3: 0.5, 4: 0.2095, 5: 0.0748}[k]) < 1e-3
    cost = np.asarray(jax.jit(lambda: _birkhoff(KEY, 2000, k)[1])(), np.float64)
    assert close(cost, 1 / rate)


@pytest.mark.slow
def test_sinkhorn_is_doubly_stochastic_and_not_uniform():
    drawn = np.asarray(rows(DoublyStochastic(sinkhorn=True), 8000, 3), np.float64)
    assert np.abs(drawn.sum(axis=1) - 1).max() < 1e-3
    assert np.median(np.abs(drawn.sum(axis=1) - 1).max(axis=1)) < 1e-6
    exact = np.asarray(rows(DoublyStochastic(), 8000, 3), np.float64)
    norms, other = (np.square(tables).sum(axis=(1, 2)) for tables in (drawn, exact))
    assert abs(norms.mean() - other.mean()) > SIGMAS * math.hypot(norms.std(), other.std()) / math.sqrt(8000)


def test_unigram_rows_are_equal_and_flat():
    drawn = np.asarray(rows(Unigram(), 4000, 3), np.float64)
    assert np.array_equal(drawn, np.repeat(drawn[:, :1], 3, axis=1))
    assert close(drawn[:, 0, 0] ** 2, 1 / 6)


@pytest.mark.slow
def test_a_mixture_says_which_part_a_chain_is_of():
    latent_of = jax.jit(lambda prior: prior.latent(KEY, 3000, 3, 3))
    latent = latent_of(Mixture(0.3))
    part, P = np.asarray(latent["part"]), np.asarray(latent["P"])
    assert close(part, 0.3)
    assert np.abs(P[part == 1].sum(axis=1) - 1).max() < 1e-6
    assert (P[part == 0] == P[part == 0][:, :1]).all()
    pure = [np.asarray(latent_of(Mixture(p))["part"]) for p in (0.0, 1.0)]
    assert not pure[0].any() and pure[1].all()


@pytest.mark.slow
def test_interpolation_goes_from_unigram_to_doubly_stochastic():
    for p in (0.0, 0.5, 1.0):
        drawn = np.asarray(rows(Interpolated(p), 4000, 2), np.float64)
        eigenvalue = drawn[:, 0, 0] + drawn[:, 1, 1] - 1
        assert np.abs(eigenvalue).max() <= p + 1e-6
        assert close(eigenvalue**2, p**2 / 3) and close(eigenvalue, 0.0)
    assert np.abs(rows(Interpolated(0.0), 100, 2)[:, 0] - rows(Interpolated(0.0), 100, 2)[:, 1]).max() < 1e-6
    assert np.abs(rows(Interpolated(1.0), 100, 2).sum(axis=1) - 1).max() < 1e-6


@pytest.mark.slow
def test_hard_chains_are_near_the_uniform_one():
    drawn = np.asarray(rows(Hard(0.2), 4000, 2), np.float64)
    a = drawn[:, 0, 0]
    assert np.array_equal(a, drawn[:, 1, 1]) and np.abs(a - 0.5).max() <= 0.2 + 1e-6
    assert close((a - 0.5) ** 2, 0.04 / 3) and close(a, 0.5)


def test_a_curriculum_says_which_prior_is_on():
    schedule = Curriculum((DirichletRows(), Hard(0.1), Unigram()), (1, 5))
    assert [schedule.at(step).kind for step in range(7)] == ["dirichlet"] + ["hard"] * 4 + ["unigram"] * 2
    stages = [(prior.kind, steps) for prior, steps in schedule.stages(8)]
    assert stages == [("dirichlet", 1), ("hard", 4), ("unigram", 3)]
    two = Curriculum.two_steps(0.25)
    assert two.at(0).kind == "dirichlet" and float(two.at(1).eps) == 0.25
    for bad, message in (
        (lambda: Curriculum((Hard(0.1),), (1,)), "one more than boundaries; got 1 and 1"),
        (lambda: Curriculum((Hard(0.1), Unigram()), (0,)), "increase from 1 on"),
        (lambda: schedule.stages(5), "budget must be an integer at least 6"),
    ):
        with pytest.raises(KroghError, match=message):
            bad()


# --- stationary laws ---


@pytest.mark.parametrize("k", [3, 12])
def test_the_stationary_law_is_the_left_eigenvector(k):
    P = np.random.default_rng(k).dirichlet(np.full(k, 0.5), (20, k))
    found = np.asarray(stationary(P.astype(np.float32)))
    for table, law in zip(P, found, strict=True):
        values, vectors = np.linalg.eig(table.T)
        exact = np.real(vectors[:, np.argmax(np.real(values))])
        assert np.allclose(law, exact / exact.sum(), rtol=2e-4, atol=1e-6)


@pytest.mark.slow
def test_the_stationary_law_of_two_symbols_is_exact_where_chains_hardly_mix():
    a, b = np.float32(1 - 2**-20), np.float32(1 - 2**-18)
    found = np.asarray(stationary(np.array([[a, 1 - a], [1 - b, b]], np.float32)))
    assert np.allclose(found, np.array([1 - b, 1 - a]) / (2 - a - b), rtol=1e-6)


@pytest.mark.slow
def test_reducible_chains_have_a_stationary_law_too():
    for P in (np.eye(3), [[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]], [[0, 1, 0], [0, 1, 0], [0, 0.5, 0.5]]):
        P = np.array(P, np.float32)
        pi = np.asarray(stationary(P))
        assert np.isfinite(pi).all() and abs(pi.sum() - 1) < 1e-6 and np.abs(pi @ P - pi).max() < 1e-6


def test_the_stationary_law_of_contexts_is_that_of_the_chain_on_tuples():
    k, order = 2, 4
    P = np.random.default_rng(3).dirichlet(np.ones(k), (5, k ** (order - 1)))
    found = np.asarray(stationary(P.astype(np.float32)))
    tuples = list(itertools.product(range(k), repeat=order - 1))
    for table, law in zip(P, found, strict=True):
        square = np.zeros((len(tuples), len(tuples)))
        for s, context in enumerate(tuples):
            for y in range(k):
                square[s, tuples.index((*context[1:], y))] += table[s, y]
        exact = np.linalg.matrix_power(square, 20_000)[0]
        assert np.allclose(law, exact, rtol=1e-4, atol=1e-6)


# --- tokens ---


def test_tokens_follow_their_rows_from_the_first_one_on():
    P = np.array([[0.1, 0.6, 0.3], [0.5, 0.0, 0.5], [0.25, 0.25, 0.5]])
    pi = np.linalg.matrix_power(P, 500)[0]
    task = MarkovChains(3, length=4, prior=GivenRows(P))
    drawn = batch(task, KEY, 40_000)
    x = np.concatenate([drawn.x, drawn.y[:, -1:]], axis=1)
    assert drawn.x.dtype == drawn.y.dtype == jnp.int32
    for words in ((x[:, 0],), (x[:, 4],)):  # stationary at every position
        assert all(close(words[0] == s, pi[s]) for s in range(3))
    for i, j, m in itertools.product(range(3), repeat=3):
        hit = (x[:, 0] == i) & (x[:, 1] == j) & (x[:, 2] == m)
        assert close(hit, pi[i] * P[i, j] * P[j, m])
    assert not ((x[:, :-1] == 1) & (x[:, 1:] == 1)).any(), "what has no probability never happens"


@pytest.mark.parametrize(("k", "order", "places"), [(2, 2, 1), (2, 4, 7), (3, 2, 8), (3, 3, 13), (9, 2, 100)])
def test_tokens_are_those_of_a_plain_loop_one_by_one_and_all_at_once(k, order, places):
    contexts, size = k ** (order - 1), 20
    numbers = np.random.default_rng(places)
    sums = np.cumsum(numbers.dirichlet(np.ones(k), (size, contexts)), axis=-1)[..., :-1].astype(np.float32)
    uniforms = numbers.random((size, places), np.float32)
    uniforms[:, places // 2] = sums[:, 0, 0]  # on an edge, where it counts as passed
    first = numbers.integers(contexts, size=size, dtype=np.int32)
    expected = np.empty((size, places), np.uint8)
    for row, context in enumerate(first):
        for place in range(places):
            token = int(np.sum(uniforms[row, place] >= sums[row, context]))
            expected[row, place], context = token, (context * k + token) % contexts
    for way in (token_by_token, all_tokens):
        found = jax.jit(way)(first, uniforms, sums)
        assert found.dtype == jnp.uint8 and np.array_equal(found, expected), way.__name__


@pytest.mark.parametrize(("k", "order", "loops"), [(3, 2, False), (2, 4, False), (4, 3, True)])
def test_a_gpu_draws_tokens_without_a_loop_where_contexts_are_few(k, order, loops):
    task = MarkovChains(k, length=20, order=order, start="uniform")
    drawing = jax.jit(lambda seed: task.draw(jax.random.key(seed), 5))
    lowered = export.export(drawing, platforms=["cuda"])(jnp.uint32(0)).mlir_module()
    assert ("stablehlo.while" in lowered) == loops


def test_starts_uniform_stationary_and_given():
    P = np.array([[0.9, 0.1], [0.5, 0.5]])
    for start, chance in (("uniform", 0.5), ("stationary", 5 / 6), ([0.2, 0.8], 0.2)):
        x = np.asarray(batch(MarkovChains(2, length=2, prior=GivenRows(P), start=start), KEY, 20_000).x)
        assert close(x[:, 0] == 0, chance)


def test_ngrams_begin_stationary_on_tuples_and_follow_their_contexts():
    P = np.random.default_rng(5).dirichlet(np.ones(2), 4)
    task = MarkovChains(2, length=5, prior=GivenRows(P), order=3)
    drawn = batch(task, KEY, 40_000)
    x = np.concatenate([drawn.x, drawn.y[:, -1:]], axis=1)
    pi = np.asarray(stationary(P.astype(np.float32)), np.float64)
    for context in range(4):
        for place in (0, 2, 4):
            assert close(2 * x[:, place] + x[:, place + 1] == context, pi[context])
        for y in range(2):
            hit = (2 * x[:, 1] + x[:, 2] == context) & (x[:, 3] == y)
            assert close(hit, pi[context] * P[context, y])


def test_order_two_is_the_markov_chain_and_labels_are_the_next_tokens():
    task = MarkovChains(3, length=9)
    assert task.contexts == 3 and task.order == 2
    drawn = batch(task, KEY, 32)
    assert np.array_equal(drawn.x[:, 1:], drawn.y[:, :-1]) and np.array_equal(drawn.y, drawn.truth)
    assert drawn.latent["P"].shape == (32, 3, 3) and drawn.latent["P"].dtype == jnp.float32
    rows_of_last = np.asarray(drawn.latent["P"])[np.arange(32), np.asarray(drawn.x)[:, -1]]
    assert np.array_equal(task.true_rows(drawn), rows_of_last)


def test_the_judged_prior_is_that_of_the_validation_sample_alone():
    task = MarkovChains(2, length=6, prior=Unigram(), judged=DoublyStochastic())
    trained, judged = jax.jit(lambda task: (task.decode(task.draw(KEY, 20)), task.decode(task.test(KEY, 20))))(task)
    assert (np.asarray(trained.latent["P"])[:, 0] == np.asarray(trained.latent["P"])[:, 1]).all()
    assert np.abs(np.asarray(judged.latent["P"]).sum(axis=1) - 1).max() < 1e-6


# --- counts and strategies, against plain Python ---


def counted(tokens, k: int, m: int) -> dict:
    counts: dict = {}
    for end in range(m - 1, len(tokens)):
        context = tuple(tokens[end - m + 1 : end])
        counts.setdefault(context, [0] * k)[tokens[end]] += 1
    return counts


@pytest.mark.parametrize(("k", "m", "t"), [(2, 1, 9), (3, 2, 30), (2, 4, 40), (2, 4, 3)])
def test_counts_are_those_of_a_plain_loop(k, m, t):
    tokens = np.random.default_rng(t).integers(0, k, (6, t)).astype(np.int32)
    table, last = np.asarray(gram_counts(tokens, k, m)), np.asarray(successor_counts(tokens, k, m))
    assert table.shape == (6, k ** (m - 1), k)
    for place, word in enumerate(tokens.tolist()):
        counts = counted(word, k, m)
        for s, context in enumerate(itertools.product(range(k), repeat=m - 1)):
            assert table[place, s].tolist() == counts.get(context, [0] * k)
        if t >= m:
            context = tuple(word[t - m + 1 :]) if m > 1 else ()
            assert last[place].tolist() == counts.get(context, [0] * k)
    assert m > 3 or np.array_equal(successor_counts(tokens[0], k, m), last[0]), "leading axes are free"


def test_a_context_has_its_newest_token_in_the_lowest_digit():
    tokens = np.array([[2, 0, 1, 2]], np.int32)
    assert context_of(tokens, 3, 2).tolist() == [2]
    assert context_of(tokens, 3, 3).tolist() == [1 * 3 + 2]
    assert contexts_of(tokens, 3, 3).tolist() == [[2 * 3 + 0, 0 * 3 + 1, 1 * 3 + 2]]
    state = 2 * 3 + 0
    for y, place in ((1, 1), (2, 2)):  # the rule s ← (s·k + y) mod k^(n-1)
        state = (state * 3 + y) % 9
        assert contexts_of(tokens, 3, 3)[0, place] == state


@pytest.mark.parametrize("alpha", [pytest.param(None, marks=pytest.mark.slow), [0.5, 2.0, 1.0]])
def test_strategies_count_by_the_add_alpha_rule(alpha):
    task = MarkovChains(3, length=40, prior=DirichletRows(alpha), order=4)
    a = [1.0] * 3 if alpha is None else alpha
    tokens = np.asarray(batch(task, KEY, 5).x)
    names = list(task.strategies())
    said = jax.jit(lambda task, tokens: [of(tokens) for of in task.strategies().values()])(task, tokens)
    said = dict(zip(names, map(np.asarray, said), strict=True))
    assert list(said) == ["uniform", "unigram", "bigram", "trigram", "4-gram"] == [strategy_name(m) for m in range(5)]
    for place, word in enumerate(tokens.tolist()):
        assert np.allclose(said["uniform"][place], 1 / 3)
        for m in range(1, 5):
            context = tuple(word[len(word) - m + 1 :]) if m > 1 else ()
            counts = counted(word, 3, m).get(context, [0] * 3)
            expected = [(c + x) / (sum(counts) + sum(a)) for c, x in zip(counts, a, strict=True)]
            assert np.allclose(said[strategy_name(m)][place], expected, rtol=1e-6)


def test_a_chain_has_strategies_up_to_its_order():
    assert list(MarkovChains(3).strategies()) == ["uniform", "unigram", "bigram"]
    assert list(MarkovChains(2, order=3).strategies()) == ["uniform", "unigram", "bigram", "trigram"]


@pytest.mark.slow
def test_kl_and_what_a_trial_is_judged_by():
    p, q = np.array([0.5, 0.5, 0.0], np.float32), np.array([0.25, 0.25, 0.5], np.float32)
    assert abs(float(kl(p, np.log(q) + 3)) - math.log(2)) < 1e-6
    task = MarkovChains(2, length=5)
    drawn = batch(task, KEY, 30)
    logits = jax.random.normal(KEY, (30, 5, 2))
    judge = jax.jit(task.judge)
    found = np.asarray(judge(logits, drawn))
    for place in range(30):
        row = np.asarray(drawn.latent["P"], np.float64)[place, int(drawn.x[place, -1])]
        soft = np.exp(np.asarray(logits, np.float64)[place, -1])
        assert abs(found[place] - np.sum(row * np.log(row / (soft / soft.sum())))) < 1e-5
    truth = jnp.log(task.true_rows(drawn))[:, None, :]
    assert np.abs(judge(jnp.repeat(truth, 5, axis=1), drawn)).max() < 1e-6
    assert task.regression and task.causal and task.classes == 2


# --- the baselines of the reference (section 5) ---

BASELINES = [
    (MarkovChains(2, 50), 0.212, 0.092, 0.0177),
    (MarkovChains(2, 100), 0.212, 0.0875, 0.0092),
    (MarkovChains(3, 100), 0.280, 0.170, 0.0263),
    (MarkovChains(4, 100), 0.313, 0.226, 0.0487),
    (MarkovChains(8, 100), 0.361, 0.336, 0.153),
    (MarkovChains(8, 200), 0.362, 0.323, 0.0975),
    *(
        (MarkovChains(k, 100, DoublyStochastic()), *numbers)
        for k, numbers in ((2, (0.193, 0.196, 0.010)), (3, (0.215, 0.225, 0.027)), (4, (0.248, 0.262, 0.050)))
    ),
    *(
        (MarkovChains(k, 100, Unigram()), *numbers)
        for k, numbers in ((2, (0.193, 0.0048, 0.0092)), (3, (0.264, 0.0096, 0.025)), (4, (0.304, 0.0141, 0.0445)))
    ),
    (MarkovChains(2, 200, order=3), 0.225, 0.139, 0.084, 0.0090),
    (MarkovChains(3, 200, order=3), 0.280, 0.236, 0.174, 0.0373),
]


def assert_baselines(task, numbers, sequences):
    for (name, losses), expected in zip(strategy_losses(task, sequences, 1).items(), numbers, strict=True):
        error = losses.std() / math.sqrt(sequences)
        assert abs(losses.mean() - expected) < SIGMAS * error + 0.002, (name, losses.mean(), expected, error)


@pytest.mark.slow
def test_baselines_are_those_of_the_reference():
    assert_baselines(BASELINES[1][0], BASELINES[1][1:], 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("row", BASELINES, ids=[f"{row[0].prior.kind}-{row[0].k}-{row[0].length}" for row in BASELINES])
def test_all_baselines_are_those_of_the_reference(row):
    assert_baselines(row[0], row[1:], 40_000)


# --- bad input ---


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MarkovChains(1), "k must be an integer at least 2; got k=1"),
        (lambda: MarkovChains(2, length=1), "length must be an integer at least 2"),
        (lambda: DirichletRows(0.0), "alpha must be positive numbers; got alpha=0.0"),
        (lambda: DirichletRows([1.0, -1.0]), "alpha must be positive"),
        (lambda: MarkovChains(3, prior=DirichletRows([1.0, 2.0])), "one for each of 3 symbols"),
        (lambda: GivenRows([[0.5, 0.6], [0.5, 0.5]]), "sum to one; got row 0 = .*divide it by 1.1"),
        (lambda: MarkovChains(3, prior=GivenRows(np.eye(2))), r"P must have shape \[3, 3\]"),
        (lambda: MarkovChains(2, start=[0.5, 0.6]), "start must be probabilities"),
        (lambda: MarkovChains(2, start=[0.5, 0.25, 0.25]), "start must have 2 probabilities"),
        (lambda: MarkovChains(2, start="stationery"), "did you mean 'stationary'"),
        (lambda: MarkovChains(2, length=4, order=5), "order=5, length=4 .try length=5"),
        (lambda: MarkovChains(2, order=1), "order must be an integer at least 2"),
        (lambda: MarkovChains(9, order=5), "at most 16384; got 9.5 = 59049 .try order=4"),
        (lambda: MarkovChains(2, order=12), "at most 256 contexts; got .* = 2048 .use start='uniform'"),
        (lambda: MarkovChains(8, prior=DoublyStochastic()), "k ≤ 7; got k=8 .*sinkhorn=True"),
        (lambda: MarkovChains(8, prior=Mixture(0.5)), "sinkhorn=True"),
        (lambda: MarkovChains(2, prior=DoublyStochastic(), order=3), "order=2; got order=3"),
        (lambda: MarkovChains(3, prior=Hard(0.1)), "two symbols; got k=3"),
        (lambda: MarkovChains(3, prior=Interpolated(0.1)), "two symbols; got k=3"),
        (lambda: Hard(0.5), "strictly between 0 and 1/2; got eps=0.5"),
        (lambda: Mixture(1.5), "between 0 and 1; got p=1.5"),
        (lambda: MarkovChains(2, prior="flat"), "prior must be a prior such as DirichletRows"),
        (lambda: MarkovChains(2, judged="flat"), "judged must be a prior"),
    ],
)
def test_bad_input_is_one_clear_error(build, message):
    with pytest.raises(KroghError, match=message):
        build()
