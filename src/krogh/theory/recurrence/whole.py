"""Theorem 3.1: SGD on recurrent and input matrices learns one-hidden-layer functions of the whole sequence.

The target is F_s(x) = Σ_{r≤p} b_r Φ_r(⟨w_r, [x_2, .., x_{L-1}]⟩), of complexity C = C_ε(Φ, 1/ε_x). An explicit shift of
the input matrix, A*, makes the linearised network nearly the target (existence); SGD does as well as any shift near the
start (training); networks near the start generalise (Rademacher complexity). Source: *Learning and generalization in
RNNs*, section 3.4 and appendices D and G. `krogh.theory.recurrence.scales` says what is taken for hidden constants and
what happens outside a theorem's range.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from krogh.errors import require, require_integer
from krogh.tasks.series import Series
from krogh.theory.numerics import double_precision
from krogh.theory.prediction import Variant, check_counts, check_not_negative, check_open, check_positive, prediction
from krogh.theory.recurrence.complexity import Concepts
from krogh.theory.recurrence.scales import Network, check_eps_x, check_power, log_add, order

_GRID = 20_001


def slope_and_size(phi: Series, reach: float) -> tuple[float, float]:
    """L_Φ and C_Φ: the largest |Φ'| and |Φ| on [-reach, reach], on a grid of 20001 points with both ends."""
    with double_precision():
        z = jnp.linspace(-reach, reach, _GRID, dtype=jnp.float64)
        slopes = jax.vmap(jax.grad(lambda t: phi(t)))(z)
        return float(jnp.max(jnp.abs(slopes))), float(jnp.max(jnp.abs(phi(z))))


def regret_bound(
    theta_norm: float, rate: float, steps: int, scale: float, gradient_norms: ArrayLike, optimum: float = 0.0
) -> float:
    """What the average objective of T steps of SGD is at most, if the objective were convex in the shift (Lemma D.3).

        OPT' + ||θ*||²/(2 η T λ²) + (η/2T) Σ_t ||grad_t||²

    θ* = [W*, A*] with norm `theta_norm`, η = `rate`, T = `steps`, λ = `scale` on the output, so that θ*/λ is the shift
    that is competed with and OPT' = `optimum` its average objective on the same examples. `gradient_norms` are the
    T norms, or one bound on all of them. Explicit; for a network it holds up to its linearisation error.
    """
    check_not_negative(theta_norm=theta_norm)
    check_positive(rate=rate, scale=scale)
    check_counts(steps=steps)
    norms = np.asarray(gradient_norms, np.float64)
    fits = norms.ndim == 0 or norms.shape == (steps,)
    require(fits, f"gradient_norms must be one number or one per step, {steps}; got shape {norms.shape}")
    return float(optimum + theta_norm**2 / (2 * rate * steps * scale**2) + rate / 2 * np.mean(norms**2))


def best_rate(theta_norm: float, steps: int, scale: float, gradient_norm: float) -> float:
    """The rate at which `regret_bound` is least, ||θ*||/(λ G √T); the bound is then OPT' + ||θ*|| G/(λ √T)."""
    check_positive(theta_norm=theta_norm, scale=scale, gradient_norm=gradient_norm)
    check_counts(steps=steps)
    return theta_norm / (scale * gradient_norm * math.sqrt(steps))


def linear_rademacher(radius: float, norms: ArrayLike) -> float:
    """(B/N) √(Σ_q ||x_q||²): Rademacher complexity, from above, of x ↦ <w,x>, ||w|| <= B, on N points (Fact A.8)."""
    check_not_negative(radius=radius)
    sizes = np.atleast_1d(np.asarray(norms, np.float64))
    return float(radius * np.sqrt(np.sum(sizes**2)) / len(sizes))


@prediction(
    "recurrence/whole-training",
    source="Learning in RNNs, Theorems 3.1 and D.5, Lemma D.3",
    constants="lambda explicit; O(), Θ() taken as 1, poly(rho) as rho^'power', other polynomials likewise",
)
def whole_training(
    eps: float,
    samples: int,
    network: Network,
    concepts: Concepts,
    eps_x: float | None = None,
    optimum: float = 0.0,
    power: float = 1.0,
) -> dict[str, Any]:
    """Average risk of the iterates of SGD on functions of the whole sequence, with its rate, steps and conditions.

        E (1/T) Σ_t risk <= OPT + eps + 1/poly(rho)
        lambda = eps/(10 L rho),  eta = 1/(eps rho² m),  T = p² C² poly(rho)/eps²,  C = C_eps(Φ, 1/eps_x)
        m, N >= poly(C, p, L, d, 1/eps),  eps_x = 1/poly(rho),  eps < 1/(p poly(rho) C_s(Φ, 1/eps_x))

    `eps_x` is 1/rho^power unless given. On the training set: OPT + eps/2 + 1/poly(rho) with N >= rho³ p C_Φ²/eps², C_Φ
    = C_s(Φ, sqrt(2L)), and the weights move by at most Delta/sqrt(m), Delta = C² p² poly(rho)/eps².
    """
    check_power(power)
    check_open("eps", eps, 0, 1)
    require_integer("samples", samples, 1)
    check_not_negative(optimum=optimum)
    chosen = network.rho**-power if eps_x is None else eps_x
    check_eps_x(chosen, network, "Theorem 3.1, whose lemmas ask for it")
    log_c, log_rho, log_p = concepts.log_c_eps(1 / chosen, eps), network.log_rho, math.log(concepts.terms)
    rest = math.exp(-power * log_rho)
    log_size = power * (log_c + log_p + math.log(network.length * network.outputs / eps))
    log_allowed = -(log_p + power * log_rho + concepts.log_c_s(1 / chosen))
    log_training = 3 * log_rho + log_p + 2 * concepts.log_c_s(math.sqrt(2 * network.length)) - 2 * math.log(eps)
    log_steps = 2 * (log_p + log_c - math.log(eps)) + power * log_rho
    return {
        "risk": optimum + eps + rest,
        "training_risk": optimum + eps / 2 + rest,
        "scale": eps / (10 * network.length * network.rho),
        "rate_order": 1 / (eps * network.rho**2 * network.width),
        **order("steps", log_steps),
        "log_movement_order": log_steps,
        "log_complexity": log_c,
        "eps_x": chosen,
        "log_size_needed": log_size,
        "wide_enough": network.log_width >= log_size,
        "enough_samples": math.log(samples) >= log_size,
        "log_training_samples_needed": log_training,
        "log_eps_allowed": log_allowed,
        "eps_small_enough": math.log(eps) < log_allowed,
    }


@prediction(
    "recurrence/whole-existence",
    source="Learning in RNNs, Theorem D.2 and Lemma G.4",
    constants="O() hidden, taken as 1; exponents explicit; L_Φ and C_Φ computed on a grid",
)
def whole_existence(
    eps: float, eps_x: float, network: Network, concepts: Concepts, movement: float | None = None
) -> dict[str, Any]:
    """How far the linearised network with the shift A* is from a function of the whole sequence.

        d L p rho² eps + d L^(17/6) p rho^4 L_Φ eps_x^(2/3) + d^(3/2) L^5 p rho^11 L_Φ C_Φ C m^(-1/30)
        after weights have moved by Delta/sqrt(m):  + C d^(1/2) rho^8 Delta^(1/3) m^(-1/6)

    C = C_eps(Φ, 1/eps_x); L_Φ and C_Φ are the largest slope and value of Φ on (-sqrt L, sqrt L). Lemma G.4 prints other
    powers of L, rho and d in the first line; these are the theorem's. Delta = `movement`, left out unless given.
    """
    check_eps_x(eps_x, network, "Theorem D.2")
    check_open("eps", eps, 0, 1)
    found = [slope_and_size(phi, network.root_length) for phi in concepts.members]
    slope, size = max(one for one, _ in found), max(one for _, one in found)
    log_c, log_rho, log_l = concepts.log_c_eps(1 / eps_x, eps), network.log_rho, network.log_length
    log_d, log_p = math.log(network.outputs), math.log(concepts.terms)
    parts = {
        "fit": log_d + log_l + log_p + 2 * log_rho + math.log(eps),
        "token": log_d + 17 / 6 * log_l + log_p + 4 * log_rho + math.log(slope) + 2 / 3 * math.log(eps_x),
        "width": 1.5 * log_d
        + 5 * log_l
        + log_p
        + 11 * log_rho
        + math.log(slope * size)
        + log_c
        - network.log_width / 30,
    }
    if movement is not None:
        check_positive(movement=movement)
        parts["movement"] = log_c + log_d / 2 + 8 * log_rho + math.log(movement) / 3 - network.log_width / 6
    return {
        **order("error", log_add(*parts.values())),
        **{f"log_{name}_error_order": part for name, part in parts.items()},
        "slope": slope,
        "size": size,
        "log_complexity": log_c,
    }


@prediction(
    "recurrence/whole-norm",
    source="Learning in RNNs, Lemma F.17",
    constants="O() hidden, taken as 1; exponents explicit",
)
def whole_norm(
    eps: float, eps_x: float, network: Network, concepts: Concepts, variant: Variant = "repaired"
) -> dict[str, Any]:
    """How large the shift A* is that represents a function of the whole sequence; W* is 0.

        ||A*||_F <= p rho d^(1/2) C_eps(Φ, 1/eps_x)/sqrt(m)

    Printed: without p. A* is a sum over p neurons, and p equal ones make it p times as large, so the printed bound
    fails for p beyond its other factors. `log_norm_times_root_width` depends on the width through rho alone.
    """
    check_eps_x(eps_x, network, "Lemma F.17")
    log_p = math.log(concepts.terms) if variant == "repaired" else 0.0
    log_c = concepts.log_c_eps(1 / eps_x, eps)
    norm = log_p + network.log_rho + math.log(network.outputs) / 2 + log_c - network.log_width / 2
    return {**order("norm", norm), "log_norm_times_root_width": norm + network.log_width / 2, "log_complexity": log_c}


@prediction(
    "recurrence/regret",
    source="Learning in RNNs, Lemma D.3 and the proof of Lemma G.1, its telescoping sum repaired",
    constants="all explicit; for a network up to its linearisation error, which 'recurrence/linearisation' bounds",
)
def regret(
    theta_norm: float, rate: float, steps: int, gradient_norm: float, scale: float = 1.0, optimum: float = 0.0
) -> dict[str, Any]:
    """Average objective of SGD from above, by the shift that it competes with and the gradients that it met.

        (1/T) Σ_t Obj_t <= OPT' + ||θ*||²/(2 eta T lambda²) + (eta/2) G²

    `gradient_norm` = G is their root mean square. `best_rate` makes the two terms equal.
    """
    check_positive(gradient_norm=gradient_norm, theta_norm=theta_norm)
    bound = regret_bound(theta_norm, rate, steps, scale, gradient_norm, optimum)
    best = best_rate(theta_norm, steps, scale, gradient_norm)
    return {
        "objective": bound,
        "distance_term": theta_norm**2 / (2 * rate * steps * scale**2),
        "gradient_term": rate / 2 * gradient_norm**2,
        "best_rate": best,
        "objective_at_best_rate": regret_bound(theta_norm, best, steps, scale, gradient_norm, optimum),
    }


@prediction(
    "recurrence/rademacher",
    source="Learning in RNNs, Lemma D.4, Facts A.7 and A.8",
    constants="O() hidden, taken as 1; exponents explicit",
)
def rademacher(
    movement: float, samples: int, network: Network, bound: float = 1.0, failure: float = 0.05
) -> dict[str, Any]:
    """Rademacher complexity and generalisation gap of networks whose weights moved by at most Delta/sqrt(m).

        R <= rho^7 Delta^(4/3) m^(-1/6) + rho² Delta/sqrt(N);   gap <= 2R + b sqrt(ln(1/failure)/N)

    Delta = `movement`, N = `samples`, |f| <= b = `bound`. The first term is the linearisation error, the second the
    linear class; the width makes the first small and is absent from the second but for rho.
    """
    check_positive(movement=movement, bound=bound)
    require_integer("samples", samples, 1)
    check_open("failure", failure, 0, 1)
    log_rho, log_delta = network.log_rho, math.log(movement)
    nonlinear = 7 * log_rho + 4 / 3 * log_delta - network.log_width / 6
    linear = 2 * log_rho + log_delta - math.log(samples) / 2
    complexity = log_add(nonlinear, linear)
    chance = math.log(bound) + 0.5 * math.log(math.log(1 / failure) / samples)
    return {
        **order("complexity", complexity),
        "log_nonlinear_order": nonlinear,
        "log_linear_order": linear,
        **order("gap", log_add(math.log(2) + complexity, chance)),
    }
