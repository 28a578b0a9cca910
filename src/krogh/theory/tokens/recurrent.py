"""What recurrent networks can and cannot do about token regression: a shared index is cheap, free ones are not.

Proposition 8 of the qSTR paper asks |U|^2 >= c N / (L^2 ln(1 + d_h)) of a network with free indices, and its norm half
is false. The witness is a state of unit norm that holds N signs, each read off by a function of bounded slope:
U = I, the states are the words of a random linear code of rate 1/4, and L stays bounded as N grows, while
d_h = 4 N. The transitions of the proposition are arbitrary functions of state, token and position, so a state
can be the word of the signs met so far. Gaussian labels are rounded first: to two levels, which leaves a risk of
1 - 2/pi, or to any fixed number of levels, which costs a constant factor in N and in L.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krogh.errors import require, require_integer
from krogh.theory.numerics import exp_or_inf, spectral_norm
from krogh.theory.prediction import Variant, check_counts, check_not_negative, check_open, check_positive, prediction
from krogh.theory.tokens.prompts import LinkNorms, Prompts

_MOST_SIGNS = 16
"""All 2^N words are written down, so N is small."""


@dataclass(frozen=True)
class SignStorage:
    """Words of unit norm for all patterns of N signs.

    `signs` [2^N, N] are the patterns, `states` [2^N, d_h] their words, `separation` the least distance of two
    words, `lipschitz` = 2/separation the slope with which every sign can be read off.
    """

    signs: NDArray[np.float64]
    states: NDArray[np.float64]
    separation: float
    lipschitz: float

    def read(self, states: ArrayLike, position: int) -> NDArray[np.float64]:
        """The sign at `position` of every state [batch, d_h]: exact on words, `lipschitz`-Lipschitz everywhere.

        min over words w of s(w) + L |h - w|, McShane's extension of the signs from the words to all states.
        """
        h = np.asarray(states, np.float64)
        squared = (h**2).sum(1)[:, None] - 2 * h @ self.states.T + (self.states**2).sum(1)[None, :]
        return (self.signs[:, position] + self.lipschitz * np.sqrt(np.maximum(squared, 0))).min(axis=1)


def sign_storage(length: int, *, expansion: int = 4, seed: int = 0) -> SignStorage:
    """Words of a random systematic linear code over GF(2), as sign vectors of norm 1 in dimension expansion * N.

    The least distance of a linear code is its least weight w: two words are at least 2 sqrt(w/d_h) apart.
    """
    require_integer("length", length, 1, _MOST_SIGNS)
    require_integer("expansion", expansion, 1)
    width = expansion * length
    rng = np.random.default_rng(seed)
    generator = np.concatenate([np.eye(length, dtype=np.int64), rng.integers(2, size=(length, width - length))], axis=1)
    bits = (np.arange(2**length)[:, None] >> np.arange(length)[None, :]) & 1
    words = (bits @ generator) % 2
    separation = 2 * float(np.sqrt(words[1:].sum(axis=1).min() / width))
    states = (1 - 2 * words).astype(np.float64) / np.sqrt(np.float64(width))
    return SignStorage((1 - 2 * bits).astype(np.float64), states, separation, 2 / separation)


class StateNorms(NamedTuple):
    """What Proposition 8 asks of an RNN: |U|_op, L, d_h, and N/(L^2 |U|_op^2 ln(1 + d_h))."""

    state: float
    lipschitz: float
    width: int
    ratio: float


def parameter_norm(parameters: Mapping[str, ArrayLike]) -> float:
    """|vec(Theta)|_2 over all arrays of a network."""
    return math.sqrt(math.fsum(float((np.asarray(p, np.float64) ** 2).sum()) for p in parameters.values()))


def state_norms(state_matrix: ArrayLike, later_weights: Sequence[ArrayLike], length: int) -> StateNorms:
    """The norms of Proposition 8, of U [d_h, 2 d_h] and the weights W_2, ..., W_Ly after it.

    L is the product of the operator norms: how steep the output is in U h where activations are 1-Lipschitz.
    By the printed norm floor, a ratio far above 1 rules out a small risk; but see "qstr/recurrent-width".
    """
    u = np.asarray(state_matrix, np.float64)
    require(u.ndim == 2, f"the state matrix must be a matrix [d_h, 2 d_h]; got shape {u.shape}")
    require_integer("length", length, 1)
    state = float(spectral_norm(u))
    lipschitz = math.prod(float(spectral_norm(np.atleast_2d(np.asarray(w, np.float64)))) for w in later_weights)
    gain = (state * lipschitz) ** 2 * math.log1p(len(u))
    return StateNorms(state, lipschitz, len(u), length / gain if gain > 0 else math.inf)


@prediction(
    "qstr/recurrent-width",
    source="qSTR paper, Proposition 8 (section 5.2) and its proof (appendix C.3, Proposition 35)",
    constants="orders: absolute constants are taken as 1; the printed norm floor is false (see 'variant')",
)
def recurrent_width(
    length: int, width: int, state_norm: float, lipschitz: float, variant: Variant = "repaired"
) -> dict[str, Any]:
    """Width and norm that a bidirectional RNN needs to predict 1STR better than some constant.

        d_h >= N / ln(1 + L^2 |U|^2);   printed: |U|^2 >= N / (L^2 ln(1 + d_h))

    d_h = `width`, |U| = `state_norm` the operator norm of the matrix that reads the states (of norm at most
    r_h), L = `lipschitz`: the output is L/r_h-Lipschitz in what is read. The states of prompts that differ in
    order N labels must be a distance of order 1/L apart in a ball of radius |U|: a packing. The width follows
    from the volume bound. The printed norm follows from the second bound of Lemma 41, which fails for
    Euclidean balls, and is itself false: N signs can be kept in unit states of dimension of order N at constant
    distances (a code of constant rate and distance), and are then read off by functions with L of order 1.
    Repaired, from the volume bound: L |U| >= exp(N/d_h) - 1, which is small once d_h exceeds N.
    """
    check_counts(length=length, width=width)
    check_positive(state_norm=state_norm, lipschitz=lipschitz)
    gain = (lipschitz * state_norm) ** 2
    if variant == "printed":
        norm_squared = length / (lipschitz**2 * math.log1p(width))
    else:
        per_unit = length / width
        norm_squared = (math.expm1(per_unit) / lipschitz) ** 2 if per_unit < 300 else math.inf
    return {
        "width_order": length / math.log1p(gain),
        "norm_order": math.sqrt(norm_squared),
        "norm_squared_order": norm_squared,
        "norm_ratio": norm_squared / state_norm**2,
        "width_ratio": length / math.log1p(gain) / width,
    }


@prediction(
    "qstr/norm-exponent",
    source="qSTR paper, Theorem 9 (section 5.2) and its proof (appendix C.4)",
    constants="exponents explicit (derived from the proof); factors taken as 1. Beyond 'width_proved' the proof "
    "uses the printed norm floor of 'qstr/recurrent-width', which does not hold for general output functions",
)
def norm_exponent(length: int, depth: int, growth: float, samples: int = 1) -> dict[str, Any]:
    """Sample sizes at which the minimum-norm RNN that fits 1STR overfits instead of generalising.

        n <= N^c1,  c1 = (1-c)/(3 L_y):  fitting costs |Theta|^2 = n^3, generalising L_y (N/ln d_h)^(1/L_y)

    L_y = `depth` of the output network, c = `growth` with ln d_h <= N^c. The norm of the network that fits does
    not depend on N (the source's proof says: on n, of which it is the cube). Where d_h < n, the width alone
    decides: d_h of order N^(1-c) is needed, so c1 must be below 1-c too, which it is. `samples` only sets at
    which n the norm of fitting is evaluated.
    """
    check_counts(length=length, samples=samples)
    require_integer("depth", depth, 2)
    check_open("growth", growth, 0, 1)
    exponent = min((1 - growth) / (3 * depth), 1 - growth)
    return {
        "exponent": exponent,
        "samples_order": length**exponent,
        "fitting_norm_squared_order": float(samples) ** 3,
        "generalising_norm_squared_order": depth * length ** ((1 - growth) / depth),
        "log_norm_allowed": length**growth / depth,
        "log_width_allowed": length**growth,
        "width_proved": length ** (1 - growth),
    }


@prediction(
    "qstr/recurrent-risk",
    source="qSTR paper, Theorem 7 (section 5.1), Lemma 32 and the proof at the end of appendix C.2",
    constants="the polynomial of the theorem is not given: parameters p, norm R and truncation tau are settings, "
    "and constants are taken as 1; state radius and Lipschitz limit explicit",
)
def recurrent_risk(
    samples: int,
    prompts: Prompts,
    link: LinkNorms,
    link_error: float,
    parameters: int,
    norm: float,
    truncation: float = 1.0,
    moment: float = 1.0,
) -> dict[str, Any]:
    """Population risk of the constrained empirical risk minimiser among RNNs on simple-qSTR.

        eps + tau sqrt(p ln(R N n tau) / n)

    Needs transitions that are 1/N-Lipschitz in the state and states kept within r_h = sqrt(q) r_x +
    sqrt(eps)/(r_a r_w). N enters through the logarithms only: that of the bound and that of r_x.
    """
    check_counts(samples=samples, parameters=parameters)
    check_positive(norm=norm, truncation=truncation, moment=moment)
    check_not_negative(link_error=link_error)
    require(truncation >= 1, f"truncation must be at least 1, as Lemma 32 asks; got truncation={truncation!r}")
    inside = norm * prompts.length * samples * truncation
    require(inside >= 1, f"norm * length * samples * truncation must be at least 1; got {inside!r} (try norm=1)")
    token_radius = prompts.token_radius(samples, moment)
    estimation = truncation * math.sqrt(parameters * math.log(inside) / samples)
    return {
        "risk": link_error + estimation,
        "estimation": estimation,
        "approximation": link_error,
        "token_radius": token_radius,
        "state_radius": math.sqrt(prompts.sparsity) * token_radius + math.sqrt(link_error) / link.slope,
        "lipschitz_limit": 1 / prompts.length,
    }


@prediction(
    "qstr/error-propagation",
    source="qSTR paper, Lemma 29 (appendix C.2)",
    constants="all explicit; 'factor' is attained",
)
def error_propagation(length: int, lipschitz: float, error: float = 1.0) -> dict[str, Any]:
    """How far states drift apart when every transition of a residual RNN is off by at most `error`.

        |h_N - h'_N| <= error ((1+a)^(N-1) - 1)/a  <= e N error  for a <= 1/N;   (N-1) error for a = 0

    a = `lipschitz` of the transition in the state. The projection onto a ball does not enlarge distances.
    """
    check_counts(length=length)
    check_not_negative(lipschitz=lipschitz, error=error)
    steps = length - 1
    if lipschitz == 0:
        factor = float(steps)
    else:
        exponent = steps * math.log1p(lipschitz)
        factor = math.expm1(exponent) / lipschitz if exponent < 700 else math.inf
    return {
        "factor": factor,
        "drift": factor * error if error > 0 else 0.0,
        "factor_simple": math.e * length,
        "within_limit": lipschitz <= 1 / length,
    }


@prediction(
    "qstr/recurrent-covering",
    source="qSTR paper, Lemmas 29, 30 and 32, Corollary 31 (appendix C.2)",
    constants="poly(R) is not given: it is taken as R^'power', a setting",
)
def recurrent_covering(
    parameters: int,
    norm: float,
    length: int,
    scale: float,
    samples: int = 1,
    truncation: float = 1.0,
    output_lipschitz: float = 1.0,
    power: float = 1.0,
) -> dict[str, Any]:
    """Logarithm of the number of RNNs that approximate all others within `scale`, and what follows from it.

        p ln(1 + poly(R) N / scale);   Rademacher complexity of the truncated loss tau sqrt(p ln(R N n tau) / n)

    `transition_scale` = scale/(4 e C N) is how finely each direction's transitions must be covered when the output
    is C-Lipschitz in the states (Lemma 29); `output_scale` = scale/2 is left for the output network.
    """
    check_counts(parameters=parameters, length=length, samples=samples)
    check_positive(norm=norm, scale=scale, truncation=truncation, output_lipschitz=output_lipschitz, power=power)
    log_inside = power * math.log(norm) + math.log(length) - math.log(scale)
    log_term = math.log1p(math.exp(log_inside)) if log_inside < 700 else log_inside
    complexity = math.log(max(1.0, norm * length * samples * truncation))
    return {
        "log_covering": parameters * log_term,
        "covering": exp_or_inf(parameters * log_term),
        "transition_scale": scale / (4 * math.e * output_lipschitz * length),
        "output_scale": scale / 2,
        "rademacher": truncation * math.sqrt(parameters * complexity / samples),
    }
