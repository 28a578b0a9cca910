"""Limits on learning a sparse parity that hold whatever the learner: samples, queries, noise, degree, embeddings.

The (n, k)-parity problem: x uniform on {-1,+1}^n, y = prod_{i in S} x_i for an unknown S of size k.
"""

from __future__ import annotations

import math
from typing import Any, Literal

from krogh.errors import require, require_integer
from krogh.theory.boolean.search import count_subsets
from krogh.theory.numerics import binary_entropy, ceil_or_inf, exp_or_inf, log_binomial
from krogh.theory.prediction import Variant, check_noise, check_open, check_parity, is_number, prediction


@prediction(
    "parity/statistical-limit",
    source="dissertation, sections B.1.1 and B.3.6",
    constants="noiseless count and the two derived noisy bounds explicit; 'order' is an order only",
)
def statistical_limit(
    n: int, k: int, noise: float = 0.0, failure: float = 0.05, variant: Variant = "repaired"
) -> dict[str, Any]:
    """Samples that identify the support, whatever the computation.

        log2 C(n,k) bits are needed; order k log(n) / a^2 with a the attenuation by label noise

    `noise` is the probability p of a flipped label; a = 1-2p (printed: 1/2-p). Derived and explicit, for an
    answer that is wrong with probability at most `failure` = d: `needed`, by Fano's inequality, is
    ((1-d) log2 C(n,k) - h(d)) / (1 - h(p)), h the binary entropy; `sufficient` are the samples with which the
    subset that fits the labels best is S: log2(C/d) without noise, 8 log(C/d) / (1-2p)^2 with it (Hoeffding).
    """
    check_parity(n, k)
    check_noise(noise)
    check_open("failure", failure, 0, 1)
    log_subsets = log_binomial(n, k)
    bits = log_subsets / math.log(2)
    capacity = 1.0 - binary_entropy(noise)
    known = max(0.0, (1 - failure) * bits - binary_entropy(failure))
    log_trials = log_subsets - math.log(failure)
    attenuation = _attenuation(noise, variant)
    clean = log_trials / math.log(2)
    noisy = _over(8 * log_trials, (1 - 2 * noise) ** 2)
    return {
        "bits": bits,
        "capacity_per_label": capacity,
        "needed": ceil_or_inf(_over(known, capacity)),
        "sufficient": ceil_or_inf(clean if noise == 0 else noisy),
        "order": _over(k * math.log(n), attenuation**2),
    }


@prediction(
    "parity/sq-limit",
    source="dissertation, section B.1.1",
    constants="'queries' explicit (derived, counting argument); 'order' = n^k tolerance^2 is an order only",
)
def sq_limit(n: int, k: int, tolerance: float) -> dict[str, Any]:
    """Statistical queries that any learner needs to identify the support.

        T / tolerance^2 >= Omega(n^k)

    A query answered within `tolerance` correlates beyond it with at most floor(1/tolerance^2) parities
    (Parseval), so an oracle that answers every query as if by noise rules out no more than these, and
    T >= (C(n,k) - 1) / floor(1/tolerance^2).
    """
    check_parity(n, k)
    within = is_number(tolerance) and 0 < tolerance <= 1
    require(within, f"tolerance must be a number in (0, 1]; got tolerance={tolerance!r}")
    per_query = math.floor(tolerance**-2 * (1 + 1e-12))
    subsets, log10 = count_subsets(n, k)
    log10_order = k * math.log10(n) + 2 * math.log10(tolerance)
    return {
        "parities_per_query": per_query,
        "queries": math.inf if subsets is None else -(-(subsets - 1) // per_query),
        "log10_subsets": log10,
        "log10_order": log10_order,
        "order": 10**log10_order if log10_order < 308 else math.inf,
    }


@prediction(
    "parity/resource-bound",
    source="dissertation, Proposition 6.3 and section C.2.1",
    constants="all explicit but for logarithms in the sample form, where the tolerance is taken as 1/sqrt(m)",
)
def resource_bound(
    n: int,
    k: int,
    parameters: int,
    steps: int,
    samples: int | None = None,
    tolerance: float | None = None,
    failure: float = 0.5,
    constant: float = 0.5,
) -> dict[str, Any]:
    """Parameters x steps x samples / luck, below which noisy gradient learning fails on some parity.

        P T / (tau^2 d) <= C(n,k)/2  implies that some (n,k)-parity is invisible with probability 1 - d over the start

    Give `samples` m, for tau = 1/sqrt(m) up to logarithms, or `tolerance` tau. P counts parameters, r(n+2)+1 for a
    two-layer network of width r; slopes of the network are at most 1. With `constant` 0.5, as printed, the proof's
    Markov inequality leaves 2d; 0.25 gives d. `samples_for_tolerance` make gradients of entries at most 1 as precise as
    the assumption asks, tau/2 at all T steps except with probability d (Hoeffding): 8 log(2PT/d)/tau^2. It is about
    the worst parity and an adversary's noise: plain gradient descent may do with less.
    """
    check_parity(n, k)
    require_integer("parameters", parameters, 1)
    require_integer("steps", steps, 1)
    check_open("failure", failure, 0, 1)
    require(constant in (0.5, 0.25), f"constant must be 0.5 (printed) or 0.25 (proved); got constant={constant!r}")
    one = (samples is None) != (tolerance is None)
    require(one, f"give either samples or tolerance; got samples={samples!r}, tolerance={tolerance!r}")
    if samples is not None:
        require_integer("samples", samples, 1)
    tau = 1 / math.sqrt(samples) if samples is not None else tolerance
    check_open("tolerance", tau, 0)  # type: ignore[arg-type]
    log_cost = math.log(parameters) + math.log(steps) - 2 * math.log(tau) - math.log(failure)  # type: ignore[arg-type]
    log_threshold = math.log(constant) + log_binomial(n, k)
    return {
        "cost": exp_or_inf(log_cost),
        "threshold": exp_or_inf(log_threshold),
        "log10_slack": (log_cost - log_threshold) / math.log(10),
        "fails": log_cost <= log_threshold,
        "tolerance": tau,
        "samples_for_tolerance": ceil_or_inf(8 * math.log(2 * parameters * steps / failure) / tau**2),  # type: ignore[operator]
    }


@prediction(
    "parity/reference-lines",
    source="dissertation, sections 6.2.1 and 6.3.2",
    constants="orders only, but for the bits",
)
def reference_lines(n: int, k: int, signal: float | None = None) -> dict[str, Any]:
    """Samples that other learners of an (n,k)-parity need, to draw beside a frontier.

        statistics log2 C(n,k);   kernels n^k;   one neuron online n^(k-1) to n^k;   a neuron of signal C: 1/C^2

    `signal` is a neuron's relevant gradient entry C, e.g. of "parity/over-sparse-neuron". Kernels need n^k whatever the
    width (Kamath et al., as cited).
    """
    check_parity(n, k)
    if signal is not None:
        check_open("signal", abs(signal) if is_number(signal) else signal, 0)
    log_n = math.log(n)
    return {
        "statistical_bits": log_binomial(n, k) / math.log(2),
        "statistical_order": k * log_n / math.log(2),
        "kernel_order": exp_or_inf(k * log_n),
        "online_order_low": exp_or_inf((k - 1) * log_n),
        "online_order_high": exp_or_inf(k * log_n),
        "signal_order": math.nan if signal is None else signal**-2,
    }


@prediction("parity/noise-attenuation", source="dissertation, section B.3.6", constants="all explicit")
def noise_attenuation(noise: float, gap: float = 1.0, variant: Variant = "repaired") -> dict[str, Any]:
    """How label noise shrinks every correlation with the label, and with it gradients and Fourier gaps.

        E_noisy[y f(x)] = (1 - 2p) E[y f(x)],  p the probability of a flipped label

    Printed: flip probability 1/2 - eps and factor eps, that is 1/2 - p, which is half of the truth. Samples
    needed for the same relative precision grow by the inverse square of the factor.
    """
    check_noise(noise)
    check_open("gap", gap, 0)
    factor = _attenuation(noise, variant)
    return {"factor": factor, "gap": factor * gap, "sample_multiplier": _over(1.0, factor**2)}


@prediction("parity/degree-barrier", source="dissertation, section B.3.7", constants="all explicit")
def degree_barrier(k: int, layers: int) -> dict[str, Any]:
    """Which parities a deep network of quadratic layers can represent and be trained towards.

        representable: k <= 2^(L-1);  layer-wise gradient zero for k > 2

    L counts the linear output layer. A function of degree below k is orthogonal to the parity. In end-to-end
    training the factor beyond the first layer has degree 2^(L-2) - 1 in the first layer's outputs, so the
    gradient's factor s'(w.x) df/dz has degree 2^(L-1) - 1 in x (derived), enough for k <= 2^(L-1).
    """
    require_integer("k", k, 1)
    require_integer("layers", layers, 2, 1000)
    largest = 2 ** (layers - 1)
    return {
        "largest_degree": largest,
        "representable": k <= largest,
        "layerwise_gradient_is_zero": k > 2,
        "downstream_degree": 2 ** (layers - 2) - 1,
        "gradient_degree": largest - 1,
    }


@prediction(
    "parity/random-walk",
    source="dissertation, section B.3.3",
    constants="a heuristic picture, not a theorem: drift and noise per step are settings",
)
def random_walk(drift: float, noise: float, steps: int, n: int = 1) -> dict[str, Any]:
    """Weight movement as n random walks, one with drift: rho is about t*drift against noise*sqrt(t).

        drift wins from t = (noise/drift)^2 on; against the largest of n walks, from 2 log(2n) times that

    `drift` is the step size times the largest population gradient, `noise` the standard deviation of a step.
    The largest of n unbiased walks is taken as noise*sqrt(2 t log(2n)).
    """
    check_open("drift", drift, 0)
    check_open("noise", noise, 0)
    require_integer("steps", steps, 1)
    require_integer("n", n, 1)
    spread, crossing = noise * math.sqrt(steps), (noise / drift) ** 2
    return {
        "drift_movement": drift * steps,
        "noise_movement": spread,
        "largest_noise_movement": spread * math.sqrt(2 * math.log(2 * n)),
        "crossing_steps": crossing,
        "crossing_steps_largest": crossing * 2 * math.log(2 * n),
    }


@prediction(
    "parity/initial-luck",
    source="dissertation, section 5.3.2",
    constants="order only: the exponent's constant is taken as 1",
)
def initial_luck(n: int, k: int) -> dict[str, Any]:
    """How unlikely a random initialisation is to be correlated with the parity: 2^(-Omega(n)).

    log10 of 2^-n, beside log10 of 1/C(n,k), the chance that one random subset is right
    """
    check_parity(n, k)
    return {"log10_order": -n * math.log10(2), "log10_random_subset": -count_subsets(n, k)[1]}


@prediction(
    "parity/minimum-width",
    source="dissertation, section B.4.1 and Lemma B.4, Claim 5",
    constants="sufficient by construction; necessary is proved only where stated",
)
def minimum_width(
    k: int, activation: Literal["relu", "power", "oscillating"] = "relu", output_bias: bool = True
) -> dict[str, Any]:
    """Hidden units with which a two-layer network represents a parity of k bits.

        ReLU: k with an output bias, k+1 without;  power z^k: k;  oscillating (zigzag, sine): 1

    For k = 2 without output bias, two ReLUs cannot even represent the sign of the parity: k+1 is necessary.
    """
    require_integer("k", k, 1)
    allowed = {"relu": k if output_bias else k + 1, "power": k, "oscillating": 1}
    require(activation in allowed, f"activation must be one of {', '.join(allowed)}; got {activation!r}")
    proved = allowed[activation] == 1 or (activation == "relu" and k == 2)
    return {"sufficient": allowed[activation], "proved_necessary": proved}


@prediction(
    "parity/kernel-floor",
    source="dissertation, section 5.4.1, Theorem 5.6",
    constants="all explicit; hinge loss only (for the 0-1 loss the statement fails below error 1/2)",
)
def kernel_floor(n: int, k: int, dimension: int, radius: float, epsilon: float = 0.5) -> dict[str, Any]:
    """The hinge loss that linear functions of a fixed embedding cannot go below on some k-parity.

        D R^2 < epsilon^2 C(n,k)  implies  loss > 1 - epsilon for some S;  floor 1 - R sqrt(D/C(n,k))

    The embedding has D = `dimension` coordinates and norm at most 1 everywhere, the function norm at most
    R = `radius`. Derived and sharper, for any dimension: 1 - R/sqrt(C(n,k)), since hinge >= 1 - y f and the
    squared norms of the embedding's coefficients sum to at most 1 over all S. Floors are cut off at 0.
    """
    check_parity(n, k)
    require_integer("dimension", dimension, 1)
    check_open("radius", radius, 0)
    check_open("epsilon", epsilon, 0)
    log_subsets = log_binomial(n, k)
    share = math.exp(-log_subsets / 2)
    return {
        "applies": math.log(dimension) + 2 * math.log(radius) < 2 * math.log(epsilon) + log_subsets,
        "loss_above": 1 - epsilon,
        "floor": max(0.0, 1 - radius * math.sqrt(dimension) * share),
        "floor_any_dimension": max(0.0, 1 - radius * share),
        "coefficient_norm_at_most": share,
        "dimension_needed": exp_or_inf(2 * math.log(epsilon / radius) + log_subsets),
    }


def _attenuation(noise: float, variant: Variant) -> float:
    return 1 - 2 * noise if variant == "repaired" else 0.5 - noise


def _over(numerator: float, denominator: float) -> float:
    """The quotient; infinite where the denominator is zero (labels of pure noise)."""
    return numerator / denominator if denominator > 0 else math.inf
