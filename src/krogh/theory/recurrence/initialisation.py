"""What holds of a random ReLU Elman network: sizes, stability, near-linearity, and all tokens in its last state.

Lemmas of *Learning and generalization in RNNs*, appendices B to G, many of them restated from the first document's.
Where both exist, an order of magnitude from a lemma stands beside what is exact at infinite width
(`krogh.theory.recurrence.gram`) or measured. `krogh.theory.recurrence.scales` says what is taken for hidden constants
and what happens outside a lemma's range.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from krogh.errors import require_integer
from krogh.theory.prediction import Variant, check_not_negative, check_open, check_positive, prediction
from krogh.theory.recurrence.gram import gram
from krogh.theory.recurrence.scales import Network, check_eps_x, log_add, order

STATED = "O() hidden, taken as 1; exponents explicit"
_WIDTH_POWER = 46
"""m >= rho^46, so that sets of sqrt(m) rows may be drawn anew."""
_ROWS_POWER = 23
"""At most m/rho^23 rows may be drawn anew."""


@prediction("recurrence/inversion", source="Learning in RNNs, Theorem D.1 and Corollary D.1.1", constants=STATED)
def inversion(eps_x: float, network: Network) -> dict[str, Any]:
    """How well an explicit linear map of the last state gives back all tokens.

        max error <= L^4 (rho^11 m^(-1/12) + rho^7 m^(-1/12) + rho^7 m^(-1/4) + rho^11 m^(-1/4))
                     + rho² L^(11/6) eps_x^(5/3)

    for eps_x < 1/L. `simplified` keeps rho^11 m^(-1/12) of the bracket. A token's size is eps_x: `relative` divides by
    it, without which a small eps_x looks good while nothing is recovered. `typical_rms` = sqrt(2L/m) is derived: it is
    the error of one coordinate that is measured for small eps_x.
    """
    check_eps_x(eps_x, network, "Theorem D.1")
    front, log_rho, log_m = 4 * network.log_length, network.log_rho, network.log_width
    activation = 2 * log_rho + 11 / 6 * network.log_length + 5 / 3 * math.log(eps_x)
    width = front + _log_step(log_rho, log_m, 6.0, 1 / 6)
    error = log_add(width, activation)
    return {
        **order("error", error),
        "log_width_error_order": width,
        "log_activation_error_order": activation,
        **order("simplified", log_add(front + 11 * log_rho - log_m / 12, activation)),
        **order("relative", error - math.log(eps_x)),
        "typical_rms": math.sqrt(2 * network.length / network.width),
        **_needed_width(network),
    }


@prediction("recurrence/single-step", source="Learning in RNNs, Lemma C.3 and Assumption 1", constants=STATED)
def single_step(network: Network, kappa: float = 6.0, zeta: float = 1 / 6, independent: bool = False) -> dict[str, Any]:
    """How well one state gives back a linear function of the state before it and the token.

        |v·[h,x] - u·h'| <= (rho^(5+k) m^(-1/12) + rho^(1+k) m^(-z/2) + rho^(1+k) m^(-1/4) + rho^(5+k) m^(-1/4)) ||v||

    u = [W,A] v. k = `kappa`, z = `zeta` say how stable v is when rows of W and A are drawn anew: (6, 1/6) for the rows
    of the decoder. For v `independent` of W and A the term with z is absent (the source writes (0, 0), with which it
    would not vanish) and k is 0. Needs m >= rho^46.
    """
    check_not_negative(kappa=kappa)
    check_open("zeta", zeta, 0, 1)
    bound = _log_step(network.log_rho, network.log_width, 0.0 if independent else kappa, None if independent else zeta)
    return {**order("error", bound), **_needed_width(network)}


def _log_step(log_rho: float, log_m: float, kappa: float, zeta: float | None) -> float:
    """ln of the bracket of Lemma C.3; without the term of ζ where v is independent of the weights."""
    terms = [(5 + kappa) * log_rho - log_m / 12, (1 + kappa) * log_rho - log_m / 4, (5 + kappa) * log_rho - log_m / 4]
    if zeta is not None:
        terms.append((1 + kappa) * log_rho - zeta / 2 * log_m)
    return log_add(*terms)


def _needed_width(network: Network) -> dict[str, Any]:
    needed = _WIDTH_POWER * network.log_rho
    return {"log_width_needed": needed, "wide_enough": network.log_width >= needed}


@prediction(
    "recurrence/decoder-norm",
    source="Learning in RNNs, Claim E.4 and equation (37)",
    constants="the gains are explicit; O(L³) is hidden, taken as L³",
)
def decoder_norm(length: int) -> dict[str, Any]:
    """Norms of the matrix that decodes all tokens from the last state.

        largest column <= L³;   (1 - 1/(100L))^L <= ||V w||/||w|| <= (1 + 1/(100L))^L  for a fixed w

    The gains are between e^(-1/100) and e^(1/100), nearly: V keeps the length of a fixed vector to a hundredth.
    """
    require_integer("length", length, 1)
    low, high = _gains(length, length)
    return {"column_order": float(length) ** 3, "gain_low": low, "gain_high": high}


def _gains(length: int, steps: int) -> tuple[float, float]:
    """(1 ∓ 1/(100L))^steps."""
    step = 1 / (100 * length)
    return math.exp(steps * math.log1p(-step)), math.exp(steps * math.log1p(step))


@prediction(
    "recurrence/initial-state",
    source="Learning in RNNs, Lemma B.1; norms and distances repaired by the Gram recursion (derived)",
    constants="norm, distance and gains explicit; other O() hidden, taken as 1; 'repaired' at infinite width",
)
def initial_state(
    eps_x: float, network: Network, position: int | None = None, sparsity: int = 1, variant: Variant = "repaired"
) -> dict[str, Any]:
    """Sizes in a random network: its state, how far a sequence moves it from the base sequence, gains, flipped signs.

        | ||h_l|| - norm | <= rho²/sqrt(m);   ||h_l - h⁰_l|| <= distance;   flips <= L^(1/3) eps_x^(2/3) m;
        gains of D W ... D W over n steps (1 ± 1/(100L))^n, its norm <= L³;
        ||W h||_inf, entries of W D W ... D A <= rho/sqrt(m);  u·W D W ... D W v <= sqrt(s) rho/sqrt(m), u s-sparse

    l = `position` (the last unless given). Printed: norm sqrt(2 + (l-2) eps_x²) at all l, distance sqrt(L) eps_x.
    Repaired: sqrt(1 + (l-1) eps_x²) before the last position, where x_L adds 1; and the distance at infinite width,
    which tends to sqrt(2(l-1)) eps_x before the last position, beyond the printed one for l > L/2 + 1. `flip_share` is
    exact at infinite width and linear in eps_x, so the lemma's 2/3 is not sharp. Gains are those of all l steps.
    """
    check_eps_x(eps_x, network, "Lemma B.1")
    length, last = network.length, network.length
    place = last if position is None else position
    require_integer("position", place, 1, last)
    require_integer("sparsity", sparsity, 1)
    log_root = network.log_width / 2
    norm, distance, flips = _limits(length, eps_x, place)
    low, high = _gains(length, place)
    if variant == "printed":
        norm, distance = math.sqrt(max(0.0, 2 + (place - 2) * eps_x**2)), math.sqrt(length) * eps_x
    return {
        "norm": norm,
        "norm_tolerance": math.exp(2 * network.log_rho - log_root),
        "distance": distance,
        "flip_share": flips,
        **order("flips", network.log_length / 3 + 2 / 3 * math.log(eps_x) + network.log_width),
        "gain_low": low,
        "gain_high": high,
        "operator_norm_order": float(length) ** 3,
        **order("entry", network.log_rho - log_root),
        **order("entry_distance", network.log_rho + network.log_length / 2 + math.log(eps_x) - log_root),
        **order("sparse_form", math.log(sparsity) / 2 + network.log_rho - log_root),
        "log_sparsity_allowed": network.log_width - 3 * network.log_rho,
        "sparse_enough": math.log(sparsity) <= network.log_width - 3 * network.log_rho,
    }


def _limits(length: int, eps_x: float, place: int) -> tuple[float, float, float]:
    """‖h_l‖, ‖h_l - h⁰_l‖ and the share of flipped signs at infinite width, for x_L = (0, 1); the same for all tokens.

    Tokens are orthogonal to the base sequence's, so that one token direction stands for all of them.
    """
    x, base = np.zeros((length, 2)), np.zeros((length, 2))
    x[0, 1] = x[-1, 1] = base[0, 1] = base[-1, 1] = 1.0
    x[1:-1, 0], base[1:-1, 1] = eps_x, eps_x
    crossed = gram(x, base)
    square = float(gram(x, x).product[place, place])
    # equal norms: both sequences have tokens of norm eps_x
    return (
        math.sqrt(square),
        math.sqrt(max(0.0, 2 * (square - crossed.product[place, place]))),
        crossed.flips[place - 1],
    )


@prediction("recurrence/re-randomisation", source="Learning in RNNs, Lemma B.2", constants=STATED)
def re_randomisation(rows: int, network: Network) -> dict[str, Any]:
    """What changes in a random network when N rows of its matrices are drawn anew.

        ||h'|| <= rho^5 sqrt(N/m);  |<w_k,h'>|, ||W_K h'|| <= rho^5 (N/m)^(2/3);  flips <= rho^4 N^(1/3) m^(2/3);
        (product of D W)' v <= rho^5 (N/m)^(1/6) ||v||;  W_K times it <= rho^6 (N/m)^(2/3)

    N = `rows`, at most m/rho^23. This breaks the dependence between states and the weights that made them.
    """
    require_integer("rows", rows, 1, network.width)
    share, log_rho = math.log(rows) - network.log_width, network.log_rho
    allowed = network.log_width - _ROWS_POWER * log_rho
    return {
        **order("state", 5 * log_rho + share / 2),
        **order("inner", 5 * log_rho + 2 / 3 * share),
        **order("flips", 4 * log_rho + math.log(rows) / 3 + 2 / 3 * network.log_width),
        **order("product", 5 * log_rho + share / 6),
        **order("product_rows", 6 * log_rho + 2 / 3 * share),
        "log_rows_allowed": allowed,
        "few_enough": math.log(rows) <= allowed,
    }


@prediction(
    "recurrence/back-correlation",
    source="Learning in RNNs, Lemma F.11",
    constants="O() hidden, taken as 1; the typical size is measured, of order sqrt(m)",
)
def back_correlation(eps_x: float, network: Network) -> dict[str, Any]:
    """How little the backward matrices to two different positions have in common.

        |<u·Back_{i→j}, v·Back_{i→j'}>| <= m^(3/4) rho ||u|| ||v||  for j != j'

    Each row has squared norm about m: `relative` divides by it. Typical values are of order sqrt(m), not m^(3/4).
    """
    check_eps_x(eps_x, network, "Lemma F.11")
    bound = 0.75 * network.log_width + network.log_rho
    return {
        **order("inner", bound),
        **order("relative", bound - network.log_width),
        "typical_order": math.sqrt(network.width),
        "row_norm_squared": float(network.width),
    }


@prediction(
    "recurrence/linearisation",
    source="Learning in RNNs, Lemmas G.2 and G.3, Lemma D.4's proof; Can SGD learn RNNs, section 4",
    constants=STATED,
)
def linearisation(movement: float, network: Network, direction: float = 1.0) -> dict[str, Any]:
    """How far a network that has moved is from its first-order expansion.

        ||W'||_2, ||A'||_2 <= Delta/sqrt(m):   error <= rho^7 Delta^(4/3) m^(-1/6)
        the linear map at the moved point, on ||W~||_2, ||A~||_2 <= omega/sqrt(m):
            changed by <= omega rho^6 Delta^(1/3) m^(-1/6)
        ||h'|| <= rho^6 Delta/sqrt(m);   flips <= rho^4 Delta^(2/3) m^(2/3);   ||Back'|| <= rho^6 Delta^(1/3) m^(1/3)

    Delta = `movement` = sqrt(m) times the norm of the shift, omega = `direction`. But for a probability exp(-Ω(rho)),
    for Delta between varrho^-100 and varrho^100.
    """
    check_positive(movement=movement, direction=direction)
    log_delta, log_rho, log_m = math.log(movement), network.log_rho, network.log_width
    coupling = math.log(direction) + 6 * log_rho + log_delta / 3 - log_m / 6
    return {
        **order("error", 7 * log_rho + 4 / 3 * log_delta - log_m / 6),
        **order("coupling", coupling),
        **order("state", 6 * log_rho + log_delta - log_m / 2),
        **order("flips", 4 * log_rho + 2 / 3 * (log_delta + log_m)),
        **order("back", 6 * log_rho + log_delta / 3 + log_m / 3),
        "log_failure_order": -network.rho,
    }
