"""What a smooth function φ(z) = Σ_i c_i z^i costs to learn: its coefficients, weighted, in logarithms.

    C_ε(φ,R) = Σ_i [ (C* R)^i + (√(ln(1/ε)/i) C* R)^i ] |c_i|       how wide a network must be; the second is 1 at i = 0
    C_s(φ,R) = C* Σ_i (i+1)^1.75 R^i |c_i|                          how many samples it needs

with C* = 10^4 unless said otherwise. C_ε(sin, 1) is already e^9999, so everything here is a natural logarithm. A class
of functions costs what its dearest member does. Sources: *Can SGD learn recurrent neural networks with provable
generalization?*, section 2; *Learning and generalization in RNNs*, Definition 2.1.

**Where a series without end is cut.** Terms are added in blocks of indices [n, 2n) until a block adds less than 1e-16
of the sum and its second half peaks no higher than its first. That is right wherever terms fall for good once they
fall, which holds for every named function. Past 2^20 terms only the surroundings of the largest term are added, down to
e^-45 of it, on the understanding that terms (the larger ones of any eight in a row) rise to one peak and fall.

**Where it has no value.** Both need the series to converge: C_ε at C* R, C_s at R. The radius of tanh is π/2, so
C_ε(tanh, R) is infinite from R = 1.6e-4 on. The sources (Example 2.1) then mean the Taylor polynomial of degree O(log
1/ε), which is within ε of φ for small arguments: `degree`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.tasks.series import Series, find_series
from krogh.theory.numerics import exp_or_inf
from krogh.theory.prediction import Variant, check_counts, check_open, check_positive, prediction

Array = NDArray[np.float64]
Phi = Series | str | Sequence[float]
"""φ as a series, a name, or coefficients c_1, c_2, ..."""

C_STAR = 1e4
"""The absolute constant of both sources, "e.g. 10^4"."""
_NEGLIGIBLE = math.log(1e-16)
_DEEP = -45.0
_DIRECT = 2**20
"""Most terms that are all added."""
_FARTHEST = 2**50
"""Indices beyond which a float no longer tells odd from even."""
_RUN = np.arange(8.0)
_MOST_TERMS = 2**22
"""Most terms around a peak that are all added; in wider ones a run of eight stands for its neighbours."""


def log_c_eps(phi: Phi, radius: float, eps: float, *, c_star: float = C_STAR, degree: int | None = None) -> float:
    """ln C_ε(φ, R) for R = `radius`; with `degree`, of the Taylor polynomial of that degree."""
    return _c_eps(_series(phi), radius, eps, c_star, degree).log


def log_c_s(phi: Phi, radius: float, *, c_star: float = C_STAR, degree: int | None = None) -> float:
    """ln C_s(φ, R) for R = `radius`; with `degree`, of the Taylor polynomial of that degree."""
    return _c_s(_series(phi), radius, c_star, degree).log


@dataclass(frozen=True)
class Concepts:
    """What is to be learned: functions `phi` (names, separated by ";"), p = `terms` of them per output, and C*.

    `degree` cuts every Taylor series off, which the sources do for tanh and the like.
    """

    phi: str = "z^2"
    terms: int = 1
    c_star: float = C_STAR
    degree: int | None = None

    def __post_init__(self) -> None:
        check_counts(terms=self.terms)
        check_positive(c_star=self.c_star)
        if self.degree is not None:
            require_integer("degree", self.degree, 1)
        require(self.members, f"phi must name at least one function; got phi={self.phi!r} (try 'z^2')")

    @property
    def members(self) -> tuple[Series, ...]:
        """The functions of the class."""
        return tuple(find_series(name) for name in self.phi.split(";") if name.strip())

    def log_c_eps(self, radius: float, eps: float) -> float:
        """ln C_ε(Φ, R): the largest over the class."""
        return max(log_c_eps(phi, radius, eps, c_star=self.c_star, degree=self.degree) for phi in self.members)

    def log_c_s(self, radius: float) -> float:
        """ln C_s(Φ, R): the largest over the class."""
        return max(log_c_s(phi, radius, c_star=self.c_star, degree=self.degree) for phi in self.members)


class _Sum(NamedTuple):
    """A sum of positive terms: its logarithm, and the mean index under the terms as weights."""

    log: float
    mean: float


class _Eps(NamedTuple):
    """C_ε: its logarithm, its mean index, and the part of that mean that the terms with ln(1/ε) have."""

    log: float
    mean: float
    mean_of_second: float


def _c_eps(phi: Series, radius: float, eps: float, c_star: float, degree: int | None) -> _Eps:
    check_positive(radius=radius, c_star=c_star)
    check_open("eps", eps, 0, 1)
    _check_radius(phi, "C_eps", "c_star * R", c_star * radius, f"c_star={c_star:g}, R={radius:g}", degree, eps)
    log_scale, log_log = math.log(c_star) + math.log(radius), math.log(-math.log(eps))

    def first(i: Array) -> Array:
        return i * log_scale + phi.log_magnitudes(i)

    def second(i: Array) -> Array:
        return i * (log_scale + 0.5 * (log_log - np.log(np.maximum(i, 1.0)))) + phi.log_magnitudes(i)

    one, two = _log_sum(first, phi, degree), _log_sum(second, phi, degree)
    log = float(np.logaddexp(one.log, two.log))
    share = math.exp(two.log - log) if log > -math.inf else 0.0
    return _Eps(log, (1 - share) * one.mean + share * two.mean, share * two.mean)


def _c_s(phi: Series, radius: float, c_star: float, degree: int | None) -> _Sum:
    check_positive(radius=radius, c_star=c_star)
    _check_radius(phi, "C_s", "R", radius, f"R={radius:g}", degree, None)
    log_radius = math.log(radius)
    found = _log_sum(lambda i: 1.75 * np.log1p(i) + i * log_radius + phi.log_magnitudes(i), phi, degree)
    return _Sum(math.log(c_star) + found.log, found.mean)


def _series(phi: Phi) -> Series:
    return phi if isinstance(phi, Series) else find_series(phi)


def _check_radius(
    phi: Series, measure: str, needs: str, argument: float, given: str, degree: int | None, eps: float | None
) -> None:
    if degree is not None:
        require_integer("degree", degree, 1)
        return
    if argument < phi.radius:
        return
    enough = 2 * math.ceil(-math.log(eps)) + 1 if eps is not None else 9
    smaller = " or a smaller c_star" if measure == "C_eps" else ""
    raise KroghError(
        f"{measure} of {phi.name} is infinite: it needs {needs} < {phi.radius:.4g}, the radius of convergence of "
        f"{phi.name}, and {needs} = {argument:g} ({given}); give a degree to cut the Taylor series off, "
        f"O(log 1/eps) in the source (try degree={enough}){smaller}"
    )


def _log_sum(log_term: Callable[[Array], Array], phi: Series, degree: int | None) -> _Sum:
    """ln Σ_i exp(log_term(i)) over i = 0 .. the degree, or without end as the module's text says."""
    last = degree if phi.degree is None else phi.degree if degree is None else min(degree, phi.degree)
    blocks: list[tuple[Array, Array]] = []
    total, start, stop = -math.inf, 0, 256
    while last is None or start <= last:
        index = np.arange(start, stop if last is None else min(stop, last + 1), dtype=np.float64)
        terms = log_term(index)
        added = _logsumexp(terms)
        if last is None and added == -math.inf:
            finite = [block[block > -np.inf] for _, block in blocks]
            final = next((float(block[-1]) for block in reversed(finite) if len(block)), 0.0)
            require(
                final < total + _NEGLIGIBLE,
                f"the coefficients of {phi.name} are 0 from degree {start} on, or too small for a float, before their "
                f"terms are: give its Series a log_magnitude, or a degree (try degree={start - 1})",
            )
            break
        blocks.append((index, terms))
        falls = terms[len(terms) // 2 :].max() <= terms[: (len(terms) + 1) // 2].max()
        if last is None and falls and added < total + _NEGLIGIBLE:
            break
        total = float(np.logaddexp(total, added))
        if stop >= _DIRECT and (last is None or stop <= last):
            return _windowed(log_term, phi, last)
        start, stop = stop, 2 * stop
    return _gathered(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _windowed(log_term: Callable[[Array], Array], phi: Series, last: int | None) -> _Sum:
    """The same for terms that rise to one peak and fall: its surroundings, by runs of eight where they are wide."""
    most = _FARTHEST if last is None else last - len(_RUN) + 1

    def height(start: float) -> float:
        return float(log_term(math.floor(start) + _RUN).max())

    far, tallest = float(_DIRECT // 2), height(0.0)
    while far < most and (height(far) > tallest + 2 * _DEEP or far < _DIRECT):
        tallest, far = max(tallest, height(far)), 2 * far
    require(
        last is not None or height(far) <= tallest + 2 * _DEEP,
        f"the largest term of {phi.name} has a degree beyond 2^50: R is too large to add its terms up (give a degree)",
    )
    low, high = 0.0, min(far, float(most))
    while high - low > 2:  # ternary search for the peak
        third = (high - low) / 3
        low, high = (low + third, high) if height(low + third) < height(high - third) else (low, high - third)
    peak = low
    floor = height(peak) + _DEEP
    left = _crossing(height, floor, peak, 0.0)
    right = _crossing(height, floor, peak, min(far, float(most)))
    span = right + len(_RUN) - left  # a place is the first of a run
    stride = max(1, math.ceil(span / _MOST_TERMS))
    cells = math.floor(left) + len(_RUN) * stride * np.arange(math.ceil(span / (len(_RUN) * stride)))
    middle = len(_RUN) * (stride - 1) // 2
    index = ((cells + middle)[:, None] + _RUN[None, :]).ravel()
    index = index[index <= (last if last is not None else math.inf)]
    found = _gathered(index, log_term(index))
    return _Sum(found.log + math.log(stride), found.mean)


def _crossing(height: Callable[[float], float], floor: float, inside: float, outside: float) -> float:
    """Between a place above the floor and one at the far end, where the height passes it (the end if it never does)."""
    if height(outside) >= floor:
        return outside
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if height(middle) >= floor else (inside, middle)
    return outside


def _gathered(index: Array, terms: Array) -> _Sum:
    log = _logsumexp(terms)
    return _Sum(log, float(np.sum(index * np.exp(terms - log))) if log > -math.inf else 0.0)


def _logsumexp(terms: Array) -> float:
    top = float(terms.max())
    return top + math.log(float(np.sum(np.exp(terms - top)))) if top > -math.inf else -math.inf


@prediction(
    "recurrence/complexity",
    source="Can SGD learn RNNs, section 2; Learning in RNNs, Definition 2.1",
    constants="explicit given C*, 'c_star', which the sources call sufficiently large, e.g. 10^4",
)
def complexity(eps: float, concepts: Concepts, radius: float = 1.0) -> dict[str, Any]:
    """What smooth functions cost a recurrent network to learn, as logarithms: width C_eps, samples C_s.

        C_eps(φ,R) = Σ_i [(C* R)^i + (sqrt(ln(1/eps)/i) C* R)^i] |c_i|;   C_s(φ,R) = C* Σ_i (i+1)^1.75 R^i |c_i|

    R = `radius`: sqrt(L) for sums of functions of single tokens, 1/eps_x for functions of the whole sequence. Values
    beyond floats are infinite; their logarithms are exact.
    """
    log_eps, log_s = concepts.log_c_eps(radius, eps), concepts.log_c_s(radius)
    return {"log_c_eps": log_eps, "log_c_s": log_s, "c_eps": exp_or_inf(log_eps), "c_s": exp_or_inf(log_s)}


LEAST_C_STAR = 1.5**1.75
"""From this C* on, 2^1.75 C_eps is at least C_s wherever φ(0) = 0: ((i+1)/2)^1.75 <= C*^(i-1) for all i >= 2."""


@prediction(
    "recurrence/complexity-order",
    source="Can SGD learn RNNs, section 2; Learning in RNNs, Definition 2.1",
    constants="printed: constants and polynomial hidden, taken as 1 and 1/eps; repaired: explicit (derived)",
)
def complexity_order(
    eps: float, concepts: Concepts, radius: float = 1.0, variant: Variant = "repaired"
) -> dict[str, Any]:
    """Whether C_s is below C_eps, and C_eps below C_s at a larger radius times a power of 1/eps.

        printed:   C_s(φ,R) <= C_eps(φ,R) <= C_s(φ,O(R)) poly(1/eps)
        repaired:  C_s(φ,R) <= 2^1.75 C_eps(φ,R) for C* >= 1.5^1.75;  C_eps(φ,R) <= C_s(φ,C* R) (1 + eps^(-1/(2e)))/C*

    The printed lower half fails: for φ = z it asks 2^1.75 <= 1 + sqrt(ln(1/eps)), that is eps < 0.0038. Repaired, term
    by term for φ(0) = 0: (i+1)^1.75 <= 2^1.75 C*^(i-1). The upper half: (ln(1/eps)/i)^(i/2) is largest at i =
    ln(1/eps)/e. `ratio_lower` = C_s over what bounds it and `ratio_upper` = C_eps over what bounds it are at most 1
    where it holds.
    """
    c_star = concepts.c_star
    log_eps, log_s = concepts.log_c_eps(radius, eps), concepts.log_c_s(radius)
    log_wide = concepts.log_c_s(c_star * radius)
    if variant == "printed":
        below, above = log_eps, log_wide - math.log(eps)
    else:
        require(
            c_star >= LEAST_C_STAR,
            f"the repaired order needs c_star at least 1.5^1.75 = {LEAST_C_STAR:.4f}; got c_star={c_star:g} (try 10)",
        )
        below = log_eps + 1.75 * math.log(2)
        above = log_wide + math.log1p(eps ** (-1 / (2 * math.e))) - math.log(c_star)
    return {
        "ratio_lower": exp_or_inf(log_s - below),
        "ratio_upper": exp_or_inf(log_eps - above),
        "lower_holds": log_s <= below + 1e-9,
        "upper_holds": log_eps <= above + 1e-9,
    }


@prediction(
    "recurrence/complexity-growth",
    source="Can SGD learn RNNs, Example 2.1; Learning in RNNs, Definition 2.1",
    constants="exponents computed, not orders: they are derivatives of the sums at these settings",
)
def complexity_growth(eps: float, concepts: Concepts, radius: float = 1.0) -> dict[str, Any]:
    """How fast the cost of smooth functions grows with the radius and with 1/eps.

        z^q: C_s ~ R^q, C_eps ~ R^q ln(1/eps)^(q/2) at most;  truncated to degree ln(1/eps): (1/eps)^O(ln R)

    `exponent_*` = d ln C/d ln R is the mean degree of the sum's terms. `log_exponent` = d ln C_eps/d ln ln(1/eps), at
    most q/2. `truncated` cuts every series off at degree ceil(ln(1/eps)), and `truncated_power` = ln C_eps/ln(1/eps) is
    the power of 1/eps that the sources call O(log R): it is near ln(C* R). "O(1)" for sin, cos, exp means R = O(1).
    """
    cut = math.ceil(-math.log(eps)) if 0 < eps < 1 else 1
    dearest = max(concepts.members, key=lambda phi: _c_eps(phi, radius, eps, concepts.c_star, concepts.degree).log)
    wide = _c_eps(dearest, radius, eps, concepts.c_star, concepts.degree)
    samples = _c_s(dearest, radius, concepts.c_star, concepts.degree)
    truncated = max(log_c_eps(phi, radius, eps, c_star=concepts.c_star, degree=cut) for phi in concepts.members)
    return {
        "log_c_eps": wide.log,
        "log_c_s": samples.log,
        "exponent_c_eps": wide.mean,
        "exponent_c_s": samples.mean,
        "log_exponent": wide.mean_of_second / 2,
        "truncated_degree": cut,
        "truncated_log_c_eps": truncated,
        "truncated_power": truncated / -math.log(eps),
    }


@prediction(
    "recurrence/parity-complexity",
    source="Learning in RNNs, appendix H and Definition 2.1; its growth with L derived",
    constants="explicit given C*, 'c_star'; 'order' has constant 1",
)
def parity_complexity(length: int, eps: float = 0.01, c_star: float = 1.0, eps_x: float = 1.0) -> dict[str, Any]:
    """What PARITY of L bits costs as one cosine of a unit vector: not O(1), but e^(π sqrt L).

        Φ(z) = (1 - cos(π sqrt(L) z))/2,   C_s(Φ,1) ~ (π sqrt L)^1.75 e^(π sqrt L)/4

    The source calls cos a function of complexity O(1), which is so at R = O(1); weights of norm 1 make the sum of the
    bits sqrt(L) <w, x>, and the factor enters Φ. Its theorem uses R = 1/eps_x, which multiplies the exponent again.
    Bits as unit tokens ask for 2 sqrt((L-2)/3) in place of sqrt(L), the same growth.
    """
    check_counts(length=length)
    check_open("eps_x", eps_x, 0, 1 + 1e-12)
    frequency = math.pi * math.sqrt(length)
    phi = find_series(f"cos({frequency!r})")
    log_s = log_c_s(phi, 1 / eps_x, c_star=c_star)
    log_eps = log_c_eps(phi, 1 / eps_x, eps, c_star=c_star)
    reach = frequency / eps_x
    return {
        "log_c_s": log_s,
        "log_c_eps": log_eps,
        "c_s": exp_or_inf(log_s),
        "log_order": math.log(c_star) + reach,
        "log_asymptote": math.log(c_star / 4) + 1.75 * math.log(reach) + reach,
        "frequency": frequency,
    }
