"""Sparse symmetric starts of a two-layer ReLU network: weights, gradients, and what the two theorems ask for (C.2).

    over-sparse     every row is the indicator of a set of s > k coordinates, s odd; good where the set contains S
    under-sparse    s < k ones, s even, and eps elsewhere; good where the set lies inside S

Rows come in pairs that differ in the sign of the output weight alone, so that the network begins as zero and the first
gradient of the hinge loss is -u_i g with g = E[1[w·x + b > 0] x chi_S(x)], the same for every loss that reads y. Good
neurons are lucky: the sparser the start, the fewer samples show them S, and the fewer there are.

The weights are those of `Mlp(width, output_bias=True)`, to begin a trial with: `start=Given(over_sparse_start(...))`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from krogh.errors import require, require_integer
from krogh.theory.boolean.fourier import subset_mask
from krogh.theory.boolean.half import half_coefficient, limiting_weight, threshold_coefficient
from krogh.theory.boolean.majority import majority_coefficient
from krogh.theory.numerics import ceil_or_inf, exp_or_inf, least_integer, log_binomial
from krogh.theory.prediction import check_even, check_odd, check_open, check_parity, is_number, prediction

Array = NDArray[np.float64]
Weights = dict[str, Array]
Kind = Literal["over", "under"]

LARGEST_OFFSET = 0.75
"""Up to here the over-sparse biases keep neurons dead that see one relevant coordinate only."""


# --- what may be asked for ------------------------------------------------------------------------------------


def check_sparsity(n: int, k: int, s: int, kind: Kind) -> None:
    """Refuse a sparsity for which the lemmas say nothing, and say which condition fails."""
    require(kind in ("over", "under"), f"kind must be 'over' or 'under'; got kind={kind!r}")
    check_parity(n, k)
    check_even("k", k)
    require_integer("s", s, 1 if kind == "over" else 0, n)
    if kind == "over":
        check_odd("s", s)
        require(s > k, f"an over-sparse start needs s > k ones in a row; got s={s}, k={k} (try s={k + 1})")
        return
    require(s % 2 == 0, f"s must be even for an under-sparse start; got s={s} (try {s - 1} or {s + 1})")
    require(s < k, f"an under-sparse start needs s < k ones in a row; got s={s}, k={k} (try s={k - 2})")
    require(k < n, f"k must be less than n for an irrelevant coordinate to exist; got n={n}, k={k}")


def default_epsilon(n: int, k: int, s: int) -> float:
    """1/(4k(n-s)): half of what the read-out needs to have the right sign, 2k(n-s) eps < 1."""
    return 1 / (4 * k * (n - s))


def _check_epsilon(n: int, s: int, epsilon: float) -> None:
    check_open("epsilon", epsilon, 0)
    require(
        (n - s) * epsilon < 1,
        f"the small weights must not outweigh a one, (n-s) epsilon < 1; got n={n}, s={s}, epsilon={epsilon!r} "
        f"(try less than {1 / (n - s):.3g})",
    )


def _check_offset(offset: float) -> None:
    within = is_number(offset) and 0 < offset <= LARGEST_OFFSET
    require(within, f"offset must be a number above 0 and at most {LARGEST_OFFSET}; got offset={offset!r}")


# --- the starts -----------------------------------------------------------------------------------------------


def over_sparse_biases(k: int, offset: float = 1 / 16) -> Float[Array, " half"]:
    """The grid (-k + 2i + offset)/(2k), i = 0..k/2-1, of an over-sparse start.

    Printed: i = 1..k/2-1 and offset 1/16, with which no read-out represents the parity. An offset of 5/8 makes the
    read-out far smaller: its norm is 18 instead of 181 for k = 2, 156 instead of 11953 for k = 4.
    """
    check_even("k", k)
    _check_offset(offset)
    return (-k + 2 * np.arange(k // 2) + offset) / (2 * k)


def under_sparse_biases(k: int, epsilon: float) -> Float[Array, " k"]:
    """The k values eps g/(2k), g = -(k-1), -(k-3), ..., k-1."""
    check_even("k", k)
    check_open("epsilon", epsilon, 0)
    return epsilon * (2 * np.arange(k) - (k - 1)) / (2 * k)


def over_sparse_start(n: int, k: int, s: int, width: int, seed: int = 0, offset: float = 1 / 16) -> Weights:
    """W, b, u and c of an over-sparse symmetric start: rows of s ones, biases of the grid, output weights ±1 in pairs.

    Rows i and i + width/2 are one neuron with both signs. Source: dissertation, section C.2.2.
    """
    check_sparsity(n, k, s, "over")
    return _symmetric(n, s, width, seed, 0.0, over_sparse_biases(k, offset))


def under_sparse_start(n: int, k: int, s: int, width: int, seed: int = 0, epsilon: float | None = None) -> Weights:
    """The same of an under-sparse start: s ones and eps elsewhere, 1/(4k(n-s)) unless given.

    Source: dissertation, section C.2.3; the bound on eps is that of the main text, printed with a binomial there.
    """
    check_sparsity(n, k, s, "under")
    small = default_epsilon(n, k, s) if epsilon is None else epsilon
    _check_epsilon(n, s, small)
    return _symmetric(n, s, width, seed, small, under_sparse_biases(k, small))


def _symmetric(n: int, s: int, width: int, seed: int, other: float, biases: Array) -> Weights:
    require_integer("width", width, 2)
    check_even("width", width)
    require_integer("seed", seed, 0)
    rng, half = np.random.default_rng(seed), width // 2
    rows = np.full((half, n), other)
    np.put_along_axis(rows, rng.random((half, n)).argsort(axis=1)[:, :s], 1.0, axis=1)
    b, u = rng.choice(biases, half), rng.choice([-1.0, 1.0], half)
    return {"W": np.tile(rows, (2, 1)), "b": np.tile(b, 2), "u": np.concatenate([u, -u]), "c": np.zeros(())}


def good_neurons(W: Float[Array, "width n"], support: Iterable[int], kind: Kind) -> NDArray[np.bool_]:
    """Which neurons are good: their ones contain the support (over-sparse), or lie in it (under-sparse); (width,)."""
    ones = np.asarray(W) == 1
    inside = _indicator(support, ones.shape[1])
    return ones[:, inside].all(axis=1) if kind == "over" else ~ones[:, ~inside].any(axis=1)


# --- gradients ------------------------------------------------------------------------------------------------


def over_sparse_gradient(n: int, support: Iterable[int], ones: Iterable[int]) -> Float[Array, " n"]:
    """g_i = E[1[w·x + b > 0] x_i chi_S(x)] of a neuron that is 1 on the set `ones`, 0 elsewhere, with |b| < 1.

        S inside:  C = Maj^_s(k-1)/2 on S, c = Maj^_s(k+1)/2 on the other ones, 0 elsewhere
        one coordinate of S outside:  C there, 0 elsewhere;   two or more outside:  0

    Source: dissertation, Lemmas C.3 and C.4.
    """
    inside, active = _indicator(support, n), _indicator(ones, n)
    k, s = int(inside.sum()), int(active.sum())
    check_sparsity(n, k, s, "over")
    missing = inside & ~active
    relevant, irrelevant = _over_sparse_pair(k, s)
    if missing.any():
        return np.where(missing, relevant if missing.sum() == 1 else 0.0, 0.0)
    return np.where(inside, relevant, np.where(active, irrelevant, 0.0))


def under_sparse_gradient(n: int, support: Iterable[int], ones: Iterable[int]) -> Float[Array, " n"]:
    """The same of a neuron that is 1 on `ones`, eps elsewhere, with (n-s) eps < 1 and |b| < eps.

        i in S:       Half^_s(|both \\ i|) Maj^_{n-s}(|S \\ (both + i)|) / 2,          both = S ∩ ones
        i not in S:   Half^_s(|both + (ones ∩ i)|) Maj^_{n-s}(|(S + i) \\ ones|) / 2

    Source: dissertation, Lemmas C.13 to C.15. Even n-s is included: Maj is then that of n-s+1 bits.
    """
    inside, active = _indicator(support, n), _indicator(ones, n)
    k, s = int(inside.sum()), int(active.sum())
    check_sparsity(n, k, s, "under")
    both = int((inside & active).sum())
    near = np.where(active, np.where(inside, both - 1, both + 1), both)
    far = np.where(active, k - both, np.where(inside, k - both - 1, k - both + 1))

    def product(tied: int, rest: int) -> float:
        known = 0 <= tied <= s and 0 <= rest <= n - s
        return half_coefficient(s, tied) * threshold_coefficient(n - s, rest) / 2 if known else 0.0

    return np.array([product(int(t), int(r)) for t, r in zip(near, far, strict=True)])


def _over_sparse_pair(k: int, s: int) -> tuple[float, float]:
    """C_{k,s} and c_{k,s}."""
    return majority_coefficient(s, k - 1) / 2, majority_coefficient(s, k + 1) / 2


def _under_sparse_pair(n: int, k: int, s: int) -> tuple[float, float]:
    """xi_rel and xi_irr of a good neuron."""
    tie = half_coefficient(s, s) / 2
    irrelevant = threshold_coefficient(n - s, k - s + 1) if k - s + 1 <= n - s else 0.0
    return tie * threshold_coefficient(n - s, k - s - 1), tie * irrelevant


def _indicator(members: Iterable[int], n: int) -> NDArray[np.bool_]:
    chosen = [*members]
    subset_mask(chosen, n)
    inside = np.zeros(n, dtype=bool)
    inside[chosen] = True
    return inside


@prediction(
    "parity/over-sparse-neuron",
    source="dissertation, Lemmas C.2, C.3 and C.4",
    constants="all explicit; the ratio is exact (printed: at most 4k/s, for s > 4k)",
)
def over_sparse_neuron(n: int, k: int, s: int) -> dict[str, Any]:
    """The population gradient of a good over-sparse neuron, and how rare such neurons are.

        C = Maj^_s(k-1)/2 on the support, c = Maj^_s(k+1)/2 on the neuron's other coordinates, |c/C| = (k-1)/(s-k)

    The support has the largest entries exactly where s >= 2k (`points_at_support`); k even, s odd, s > k.
    """
    check_sparsity(n, k, s, "over")
    relevant, irrelevant = _over_sparse_pair(k, s)
    return {
        "relevant": relevant,
        "irrelevant": irrelevant,
        "gap": abs(relevant) - abs(irrelevant),
        "ratio": (k - 1) / (s - k),
        "printed_ratio": 4 * k / s,
        "relevant_at_least": math.sqrt(limiting_weight(k - 1) / math.comb(s, k - 1)) / 2,
        "points_at_support": s >= 2 * k,
        "samples_scale": relevant**-2,
        "good_probability": good_probability(n, k, s, "over"),
    }


@prediction(
    "parity/under-sparse-neuron",
    source="dissertation, Lemmas C.13, C.14 and C.15",
    constants="all explicit (printed ratio: (n-s)/(k-s-1))",
)
def under_sparse_neuron(n: int, k: int, s: int) -> dict[str, Any]:
    """The population gradient of a good under-sparse neuron, and how rare such neurons are.

        xi_rel = Half^_s(s) Maj^_{n-s}(k-s-1)/2 on S without its ones, xi_irr = Half^_s(s) Maj^_{n-s}(k-s+1)/2 off S

    |xi_rel/xi_irr| = (n-k)/(k-s-1), or (n+1-k)/(k-s-1) where n-s is even. k and s even, s < k; s = 0 is a dense start.
    """
    check_sparsity(n, k, s, "under")
    relevant, irrelevant = _under_sparse_pair(n, k, s)
    return {
        "relevant": relevant,
        "irrelevant": irrelevant,
        "gap": abs(relevant) - abs(irrelevant),
        "ratio": abs(relevant / irrelevant) if irrelevant else math.inf,
        "printed_ratio": (n - s) / (k - s - 1),
        "samples_scale": relevant**-2,
        "good_probability": good_probability(n, k, s, "under"),
        "epsilon": default_epsilon(n, k, s),
    }


# --- luck -----------------------------------------------------------------------------------------------------


def good_probability(n: int, k: int, s: int, kind: Kind) -> float:
    """The chance that one row is good: C(n-k, s-k)/C(n, s) over-sparse, C(k, s)/C(n, s) under-sparse."""
    log_good = log_binomial(n - k, s - k) if kind == "over" else log_binomial(k, s)
    return math.exp(log_good - log_binomial(n, s))


@prediction(
    "parity/good-neurons",
    source="dissertation, Lemmas C.2 and C.10, Theorem C.16",
    constants="all explicit; the lemma's bound (s/2n)^k is up to 2^k too small",
)
def good_neuron_count(n: int, k: int, s: int, kind: Kind = "over", failure: float = 0.05) -> dict[str, Any]:
    """How probable a good neuron is, and the width that has one for every bias.

        over:  p = C(n-k, s-k)/C(n, s) >= (s/2n)^k, s >= 2k-2;    under:  p = C(k, s)/C(n, s)
        width = 2 ceil(Q log(Q/failure)/p),  Q = k/2 or k biases

    Neurons come in pairs; a pair is good or not as one.
    """
    check_sparsity(n, k, s, kind)
    check_open("failure", failure, 0, 1)
    probability, biases = good_probability(n, k, s, kind), k // 2 if kind == "over" else k
    width = 2 * ceil_or_inf(biases * math.log(biases / failure) / probability)
    return {
        "probability": probability,
        "lemma_lower_bound": (s / (2 * n)) ** k if kind == "over" and s >= 2 * k - 2 else math.nan,
        "order": (s / n) ** k if kind == "over" else (k / n) ** s,
        "biases": biases,
        "width": width,
        "good_expected": width * probability,
    }


# --- the two theorems -----------------------------------------------------------------------------------------


def over_sparse_features(
    k: int, offset: float = 1 / 16
) -> tuple[Float[Array, "values values"], Int[NDArray[np.int64], " values"]]:
    """The ideal features (1, relu(s/(2k) + b_j), relu(-s/(2k) + b_j)) at every sum s = -k, -k+2, ..., k of k signs."""
    sums = 2 * np.arange(k + 1) - k
    arguments = np.multiply.outer(np.array([1.0, -1.0]), sums / (2 * k))
    active = np.maximum(arguments[:, :, None] + over_sparse_biases(k, offset)[None, None, :], 0.0)
    return np.concatenate([np.ones((k + 1, 1)), active[0], active[1]], axis=1), sums


def over_sparse_read_out(k: int, offset: float = 1 / 16) -> Float[Array, " values"]:
    """The weights of the ideal features with which their sum is chi_S; their Euclidean norm is the theorem's B_k.

    chi_S = (-1)^((k-s)/2) at the sum s; the source prints s mod 2. Source: dissertation, Lemma C.6.
    """
    features, sums = over_sparse_features(k, offset)
    return np.asarray(np.linalg.solve(features, (-1.0) ** ((k - sums) // 2)), np.float64)


@prediction(
    "parity/over-sparse-theorem",
    source="dissertation, Theorem 6.4 and Lemmas C.5 to C.11",
    constants="explicit, from the proof; astronomically loose. The orders of the main text hide constants of k",
)
def over_sparse_theorem(
    n: int, k: int, s: int, epsilon: float = 0.1, failure: float = 0.01, offset: float = 1 / 16
) -> dict[str, Any]:
    """What Theorem 6.4 asks of width, samples, sparsity and steps for a hinge loss of at most 7 epsilon.

        r = ceil(20 k (2n/s)^k log(2k/d)),  r' = r (s/2n)^k / (2k),  eta = 1/(2k|C|),
        tau = min(e/(4 B k r' n eta), 1/(16 eta k n)),
        m = max(4 log(4nr/d)/tau^2, (4 sqrt(2) B sqrt(8kr') + 1)^2 log(2/d)/e^2),
        s >= 4 k r' B^2/e^2,   T/(1 + log T) >= 100 (B sqrt(8kr') + e)^2/e^2

    with probability 1 - 4d; e = `epsilon`, d = `failure`, B the norm of the read-out. Printed: T without B^2, and
    bounds on C through constants that are upside down; here C is exact. k even, s odd, s > 4k.
    """
    check_sparsity(n, k, s, "over")
    require(s > 4 * k, f"Theorem 6.4 needs s > 4k; got s={s}, k={k} (try s={4 * k + 1})")
    check_open("epsilon", epsilon, 0, 0.5)
    check_open("failure", failure, 0, 0.5)
    relevant, _ = _over_sparse_pair(k, s)
    norm = float(np.linalg.norm(over_sparse_read_out(k, offset)))
    log_union = math.log(2 * k / failure)
    width = ceil_or_inf(exp_or_inf(math.log(20 * k * log_union) + k * math.log(2 * n / s)))
    per_bias = width / (2 * k) * (s / (2 * n)) ** k if math.isfinite(width) else 10 * log_union
    rate = 1 / (2 * k * abs(relevant))
    tolerance = min(epsilon / (4 * norm * k * per_bias * n * rate), 1 / (16 * rate * k * n))
    feature_norm = math.sqrt(8 * k * per_bias)
    for_gradient = _gradient_samples(n, width, failure, tolerance)
    for_read_out = (4 * math.sqrt(2) * norm * feature_norm + 1) ** 2 * math.log(2 / failure) / epsilon**2
    smallest_s = 4 * k * per_bias * norm**2 / epsilon**2
    steps = 100 * (norm * feature_norm + epsilon) ** 2 / epsilon**2
    return {
        "width": width,
        "good_per_bias": per_bias,
        "rate": rate,
        "tolerance": tolerance,
        "samples": ceil_or_inf(max(for_gradient, for_read_out)),
        "smallest_s": ceil_or_inf(smallest_s),
        "s_is_large_enough": s >= smallest_s,
        "steps": least_integer(lambda t: t / (1 + math.log(t)) >= steps, start=2),
        "read_out_norm": norm,
        "feature_norm": feature_norm,
        "loss_at_most": 7 * epsilon,
        "probability": 1 - 4 * failure,
        "width_order": (n / s) ** k,
        "samples_order": (s / k) ** (k - 1) * n**2 * math.log(n),
    }


@prediction(
    "parity/under-sparse-theorem",
    source="dissertation, Theorems 6.5 and C.16",
    constants="samples and width explicit, from the proof with its tolerance repaired; the orders hide constants of s",
)
def under_sparse_theorem(n: int, k: int, s: int, failure: float = 0.05, width: int | None = None) -> dict[str, Any]:
    """What Theorem 6.5 asks of width and samples for one truncated step to leave a subnetwork that is the parity.

        tau < (|xi_rel| - |xi_irr|)/2,   m >= 4 log(4nr/d)/tau^2,   r = O(k^2 (n/k)^s),   m = O((n/k)^(k-s-1))

    `width` is r, that with a good neuron for every bias unless given. Printed: tau = |xi_irr|/2, though its exponent is
    that of xi_rel. `gain_order` is what s ones save in samples, and cost in width, against a dense start: n^s.
    k and s even, s < k; nothing is promised for s = k.
    """
    check_sparsity(n, k, s, "under")
    check_open("failure", failure, 0, 1)
    if width is not None:
        require_integer("width", width, 2)
    relevant, irrelevant = _under_sparse_pair(n, k, s)
    r = good_neuron_count(n, k, s, "under", failure)["width"] if width is None else width
    tolerance = (abs(relevant) - abs(irrelevant)) / 2
    require(tolerance > 0, f"a good neuron's gradient does not point at S unless n > 2k-s-1; got n={n}, k={k}, s={s}")
    epsilon = default_epsilon(n, k, s)
    return {
        "width": r,
        "tolerance": tolerance,
        "printed_tolerance": abs(irrelevant) / 2,
        "cut_off": (abs(relevant) + abs(irrelevant)) / 2,
        "samples": ceil_or_inf(_gradient_samples(n, r, failure, tolerance)),
        "epsilon": epsilon,
        "rate": epsilon / (2 * k * abs(relevant)),
        "weight_decay": 1 - epsilon / (2 * k),
        "read_out_error": 2 * k * epsilon * (n - s),
        "width_order": k**2 * (n / k) ** s,
        "samples_order": (n / k) ** (k - s - 1),
        "gain_order": float(n) ** s,
    }


@prediction(
    "parity/feature-generalisation",
    source="dissertation, Lemmas C.7 and C.8",
    constants="all explicit",
)
def feature_generalisation(
    samples: int, norm: float, feature_norm: float, feature_error: float = 0.0, failure: float = 0.05
) -> dict[str, Any]:
    """By how much the hinge loss of a linear function of slightly wrong features may exceed that of its sample.

        |L(h_psi) - L(h_psi')| <= B |psi - psi'|;   L_D - L_S <= (2 B |psi| + 1) sqrt(2 log(2/d)/m) + 2 B |psi - psi'|

    B = `norm` bounds the function's weights, |psi| = `feature_norm` the largest Euclidean norm of the features that
    were fixed before the sample was drawn, `feature_error` their largest distance from those in use.
    """
    require_integer("samples", samples, 1)
    check_open("norm", norm, 0)
    check_open("feature_norm", feature_norm, 0)
    within = is_number(feature_error) and 0 <= feature_error < math.inf
    require(within, f"feature_error must be a number of at least 0; got feature_error={feature_error!r}")
    check_open("failure", failure, 0, 1)
    sampling = (2 * norm * feature_norm + 1) * math.sqrt(2 * math.log(2 / failure) / samples)
    return {
        "loss_change": norm * feature_error,
        "sampling_error": sampling,
        "excess_at_most": sampling + 2 * norm * feature_error,
    }


def _gradient_samples(n: int, width: float, failure: float, tolerance: float) -> float:
    """Samples with which all n r entries of the gradient are known within `tolerance` (Lemma C.5)."""
    return 4 * (math.log(4 * n / failure) + math.log(width)) / tolerance**2 if math.isfinite(width) else math.inf
