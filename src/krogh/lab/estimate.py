"""Estimates: numbers with their uncertainty, one kind for everything that is measured.

An `Estimate` is a value and draws of what the true number may be (a confidence distribution or a posterior). A draw is
itself an interval [least, most], for a draw may be known only to lie between two order statistics, or beyond a budget:

    interval at level 1-α  =  [α/2-quantile of the draws' least ends, (1-α/2)-quantile of their largest ends].

Arithmetic works draw by draw, by interval arithmetic. Whether two estimates are paired is decided where they are made:
draws come from a stream that belongs to the *sample* (the trials) they rest on. Means of two columns over the same
trials have draws with the columns' covariance, quantiles of one sample are drawn together; estimates of different
samples have independent streams. A sample is named, or known by its numbers.

Rules, each with the coverage that was measured for it in docs/statistics.md:

    exact       a number that was computed and not estimated
    mean        Student's t; the draws x̄ + Σ e_i(x_i - x̄)/√(n(n-1))/√(χ²/(n-1)) are multivariate t over columns
    mean_time   of positive numbers, the same on the logarithmic scale; what was not there at the budget is censored
    quantiles   order statistics: with K ~ Bin(n, q) the q-quantile lies in [X_(K), X_(K+1)], for every law
    rate        Clopper and Pearson: [Beta(s, n-s+1), Beta(s+1, n-s)]
    tails       any rule with one-sided ends, e.g. the band of Dvoretzky, Kiefer and Wolfowitz
    drawn       draws that were made elsewhere: a posterior, a bootstrap of a smooth statistic
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from krogh.errors import KroghError, require, require_integer
from krogh.numbers import interval

Floats = NDArray[np.float64]

DRAWS = 1999  # one less than 2000: the ends of a 95% interval are then draws, and not between two
LEVEL = 0.95
MOST_MULTIPLIERS = 4096  # trials beyond so many share multipliers: the covariance needs no more


# --- checks that the siblings share ---------------------------------------------------------------------------


def as_floats(name: str, values: ArrayLike) -> Floats:
    """`values` as a non-empty vector of floats without NaN, or a `KroghError` that shows what is wrong."""
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise KroghError(f"{name} must be a sequence of numbers; got {name}={values!r}") from None
    require(array.ndim == 1 and array.size, f"{name} must be a non-empty vector; got shape {array.shape}")
    bad = np.flatnonzero(np.isnan(array))
    if bad.size:
        raise KroghError(f"{name} must not contain NaN; got {name}[{bad[0]}]=nan ({bad.size} of {array.size})")
    return array


def as_times(times: ArrayLike, name: str = "times") -> Floats:
    """Convergence times as a vector in [0, inf]. A negative time (a sentinel such as -1) is refused."""
    array = as_floats(name, times)
    bad = np.flatnonzero(array < 0)
    if bad.size:
        got = f"{name}[{bad[0]}]={array[bad[0]]:g}"
        raise KroghError(f"{name} must be at least 0, and np.inf for a trial that never converged; got {got}")
    return array


def require_fraction(name: str, value: float, *, closed: bool = False) -> None:
    """Require `value` in (0, 1), or in [0, 1] when `closed`."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    inside = number and (0 <= value <= 1 if closed else 0 < value < 1)
    require(
        inside,
        f"{name} must lie {'in [0, 1]' if closed else 'strictly between 0 and 1'}; got {name}={value!r}",
    )


def quantile_rank(size: int, q: float) -> int:
    """The rank r in 1..size of the q-quantile, r = max(1, ceil(size q))."""
    # 100 * 0.07 is 7.000000000000001: without the slack the rank would be 8.
    return min(max(math.ceil(size * q * (1 - 1e-12)), 1), size)


# --- the estimate ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value with draws of what it may be; `samples` names what it rests on, with the number of trials of each."""

    value: float
    least: Floats  # (draws,) or (1,) for a number that is exact
    most: Floats
    samples: Mapping[str, int] = field(default_factory=dict)
    rule: str = ""
    horizon: float = math.inf  # an infinite value is known to exceed this

    @property
    def trials(self) -> int:
        """How many trials the number rests on, those of a sample that is used twice counted once."""
        return sum(self.samples.values())

    @property
    def censored(self) -> bool:
        """Whether the value was not reached, and is only known to exceed `horizon`."""
        return math.isinf(self.value) and self.value > 0

    @property
    def exact(self) -> bool:
        """Whether there is nothing uncertain about it."""
        return bool(self.least.size == 1 and self.least[0] == self.most[0])

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The central interval at `level`, its ends rounded outwards to draws."""
        require_fraction("level", level)
        count = self.least.size
        rank = max(math.floor((count + 1) * (1 - level) / 2 + 1e-9), 1)
        return float(np.sort(self.least)[rank - 1]), float(np.sort(self.most)[count - rank])

    @functools.cached_property
    def _ends(self) -> tuple[float, float]:
        return self.interval()

    @property
    def low(self) -> float:
        return self._ends[0]

    @property
    def high(self) -> float:
        return self._ends[1]

    def contains(self, x: float) -> bool:
        """Whether `x` lies in the closed interval [low, high]."""
        return self.low <= x <= self.high

    def __str__(self) -> str:
        return f"{self.value:.4g}" if self.exact else f"{self.value:.4g} {interval(self.low, self.high, digits=4)}"

    def points(self) -> Floats:
        """One number per draw, uniformly inside it: what statistics that are not monotone are computed on.

        A draw without an upper end is infinite; one without a lower end is taken at its upper one.
        """
        share = stream("points", *sorted(self.samples)).uniform(size=self.least.size)
        low = np.where(np.isneginf(self.least), self.most, self.least)
        known = np.isfinite(self.most) & np.isfinite(low)
        with np.errstate(invalid="ignore"):
            return np.where(known, low + share * (self.most - low), self.most)

    def clipped(self, low: float = -math.inf, high: float = math.inf) -> Estimate:
        """The same number, known to lie in [low, high]."""
        value = self.value if math.isnan(self.value) else min(max(self.value, low), high)
        return self._with(value, np.clip(self.least, low, high), np.clip(self.most, low, high))

    def _with(self, value: float, least: Floats, most: Floats, rule: str | None = None) -> Estimate:
        return Estimate(float(value), least, most, self.samples, self.rule if rule is None else rule)

    def map(self, function: Callable[[Any], Any], *, falling: bool = False) -> Estimate:
        """A monotone function of the number, rising unless it is `falling`."""
        with np.errstate(all="ignore"):
            ends = function(self.least), function(self.most)
            value = float(function(np.float64(self.value)))
        return self._with(value, *_known(*(ends[::-1] if falling else ends)))

    def __neg__(self) -> Estimate:
        return self._with(-self.value, -self.most, -self.least)

    def __abs__(self) -> Estimate:
        inside = (self.least <= 0) & (self.most >= 0)
        ends = np.abs(self.least), np.abs(self.most)
        return self._with(abs(self.value), np.where(inside, 0.0, np.minimum(*ends)), np.maximum(*ends))

    def __add__(self, other: Estimate | float) -> Estimate:
        return _combined(self, other, lambda a, b: a + b, lambda a, b: (a.least + b.least, a.most + b.most))

    def __sub__(self, other: Estimate | float) -> Estimate:
        return _combined(self, other, lambda a, b: a - b, lambda a, b: (a.least - b.most, a.most - b.least))

    def __mul__(self, other: Estimate | float) -> Estimate:
        return _combined(self, other, lambda a, b: a * b, _product)

    def __truediv__(self, other: Estimate | float) -> Estimate:
        return _combined(self, other, _over, _quotient)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Estimate:
        return exact(other) - self

    def __rtruediv__(self, other: float) -> Estimate:
        return exact(other) / self


def _known(least: Floats, most: Floats) -> tuple[Floats, Floats]:
    """What is undefined may be anything: it can only widen an interval."""
    return np.where(np.isnan(least), -math.inf, least), np.where(np.isnan(most), math.inf, most)


def _combined(a: Estimate, other: Estimate | float, of_values: Any, of_ends: Any) -> Estimate:
    b = other if isinstance(other, Estimate) else exact(other)
    with np.errstate(all="ignore"):
        value = float(of_values(np.float64(a.value), np.float64(b.value)))
        least, most = _known(*of_ends(a, b))
    rules = dict.fromkeys(rule for rule in (a.rule, b.rule) if rule)
    return Estimate(value, least, most, {**a.samples, **b.samples}, "; ".join(rules))


def _product(a: Estimate, b: Estimate) -> tuple[Floats, Floats]:
    ends = [x * y for x in (a.least, a.most) for y in (b.least, b.most)]
    ends = [np.where(np.isnan(end), 0.0, end) for end in ends]  # zero times whatever
    return functools.reduce(np.minimum, ends), functools.reduce(np.maximum, ends)


def _over(a: np.float64, b: np.float64) -> np.float64:
    return np.float64(math.nan) if b == 0 else a / b


def _quotient(a: Estimate, b: Estimate) -> tuple[Floats, Floats]:
    """[a]·[1/b], where 1/b may be anything if b may be on either side of 0."""
    low, high = b.least, b.most
    below, above = np.where(high == 0, -math.inf, 1 / high), np.where(low == 0, math.inf, 1 / low)
    either = ((low < 0) & (high > 0)) | ((low == 0) & (high == 0))
    inverse = np.where(either, -math.inf, below), np.where(either, math.inf, above)
    least, most = _product(a, Estimate(math.nan, *inverse))
    # Nothing is known of a quotient of two that are beyond all bounds (0·∞ is 0 only where the 0 is one).
    falls = ((a.least == -math.inf) & (high == math.inf)) | ((a.most == math.inf) & (low == -math.inf))
    rises = ((a.most == math.inf) & (high == math.inf)) | ((a.least == -math.inf) & (low == -math.inf))
    return np.where(falls, -math.inf, least), np.where(rises, math.inf, most)


def log(estimate: Estimate) -> Estimate:
    """ln of a positive number; draws at or below 0 have no lower end."""
    return estimate.map(lambda x: np.log(np.maximum(x, 0.0)))


def maximum(estimates: Sequence[Estimate], *, nothing: str = "") -> Estimate:
    """The largest of several numbers; `nothing` says why there may be none, of which nothing is known.

    The largest of k noisy values lies too high, most of all where the numbers are equal: the lower end is the largest
    of their lower ends at a k-th of the risk (one of k may fail by chance), the upper end the largest of the upper.
    Taking the largest of every draw would cover three equal medians in 80% of cases.
    """
    if nothing and not len(estimates):
        return unknown_estimate(nothing)
    require(len(estimates), "an extreme needs at least one estimate; got none")
    if len(estimates) == 1:
        return estimates[0]
    values = [one.value for one in estimates]
    value = math.nan if any(map(math.isnan, values)) else max(values)
    rules = "; ".join(dict.fromkeys(one.rule for one in estimates if one.rule))
    samples = {name: count for one in estimates for name, count in one.samples.items()}
    ordered = [(np.sort(one.least), np.sort(one.most)) for one in estimates]

    def lower(a: Floats) -> Floats:
        return functools.reduce(np.maximum, [_order_statistic(least, a / len(estimates)) for least, _ in ordered])

    def upper(a: Floats) -> Floats:
        return functools.reduce(np.maximum, [-_order_statistic(-most[::-1], a) for _, most in ordered])

    return tails(value, lower, upper, samples, f"extreme of {len(estimates)}; {rules}")


def minimum(estimates: Sequence[Estimate], *, nothing: str = "") -> Estimate:
    """The smallest of several numbers; see `maximum`."""
    return -maximum([-one for one in estimates], nothing=nothing)


def _order_statistic(ordered: Floats, share: Floats) -> Floats:
    """The draw below which a share of all lies, rounded down."""
    place = np.floor((ordered.size + 1) * share + 1e-9).astype(int) - 1
    return ordered[np.clip(place, 0, ordered.size - 1)]


# --- streams --------------------------------------------------------------------------------------------------


def stream(*names: Hashable) -> np.random.Generator:
    """The random stream of a sample: the same whenever its name is."""
    text = "\x1f".join(map(repr, names))
    return np.random.default_rng(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little"))


def sample_name(sample: Hashable | None, values: ArrayLike) -> str:
    """A sample's own name, or one made of its numbers."""
    if sample is not None:
        return sample if isinstance(sample, str) else repr(sample)
    content = np.ascontiguousarray(np.asarray(values, float)).tobytes()
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def levels_of(name: str, kind: str) -> Floats:
    """DRAWS numbers in (0, 1), evenly spread so that a single estimate has no Monte Carlo error, in a random order."""
    return (stream(kind, name).permutation(DRAWS) + 1) / (DRAWS + 1)


# --- rules ----------------------------------------------------------------------------------------------------


def exact(value: float, trials: int = 0, *, sample: Hashable | None = None, rule: str = "exact") -> Estimate:
    """A number that was computed and not estimated, e.g. the largest of `trials` numbers that are all at hand."""
    samples = {sample_name(sample, [float(value), trials]): int(trials)} if trials else {}
    return Estimate(float(value), *_known(np.array([float(value)]), np.array([float(value)])), samples, rule)


def unknown_estimate(why: str) -> Estimate:
    """Nothing is known: what decides nothing."""
    return Estimate(math.nan, np.array([-math.inf]), np.array([math.inf]), {}, why)


def largest(values: ArrayLike, *, sample: Hashable | None = None, trials: int | None = None) -> Estimate:
    """The largest of some numbers, about exactly these; NaN if one of them is, so that no comparison with it holds.

    They rest on a trial each, unless `trials` says otherwise: inputs executed, say.
    """
    return _extreme("largest", np.max, values, sample, trials)


def least(values: ArrayLike, *, sample: Hashable | None = None, trials: int | None = None) -> Estimate:
    """The least of some numbers; otherwise as `largest`."""
    return _extreme("least", np.min, values, sample, trials)


def _extreme(word: str, pick: Any, values: ArrayLike, sample: Hashable | None, trials: int | None) -> Estimate:
    numbers = np.asarray(values, np.float64).ravel()
    found = float(pick(numbers)) if numbers.size else math.nan
    count = numbers.size if trials is None else trials
    return exact(found, count, sample=sample_name(sample, numbers), rule=f"the {word} of {numbers.size}")


def _student(values: Floats, name: str) -> Floats:
    """Draws of t·s/√n for the mean of `values`, with the covariance of other columns over the same trials."""
    count = values.size
    rng = stream("mean", name, count)
    centred = values - values.mean()
    if count > MOST_MULTIPLIERS:
        centred = np.bincount(np.arange(count) % MOST_MULTIPLIERS, centred)
    mixed = centred @ rng.standard_normal((centred.size, DRAWS)) / np.sqrt(rng.chisquare(count - 1, DRAWS))
    # Only the order of the mixed draws is random: their sizes are Student's quantiles, without Monte Carlo error.
    ranks = np.empty(DRAWS)
    ranks[np.argsort(mixed, kind="stable")] = np.arange(DRAWS) + 1
    return scipy.stats.t.ppf(ranks / (DRAWS + 1), count - 1) * values.std(ddof=1) / math.sqrt(count)


def mean(values: ArrayLike, *, sample: Hashable | None = None) -> Estimate:
    """The mean over trials with Student's interval; unbounded with a single trial."""
    numbers = as_floats("values", values)
    name, count = sample_name(sample, numbers), numbers.size
    rule = f"Student's t, {count} trials"
    if count < 2 or not np.all(np.isfinite(numbers)):
        return Estimate(float(numbers.mean()), np.array([-math.inf]), np.array([math.inf]), {name: count}, rule)
    draws = numbers.mean() + _student(numbers, name)
    return Estimate(float(numbers.mean()), draws, draws, {name: count}, rule)


def mean_time(times: ArrayLike, *, horizon: float | None = None, sample: Hashable | None = None) -> Estimate:
    """The mean of positive numbers (times, sample sizes) with Student's interval on the logarithmic scale.

    A run that did not get there is `inf`, and known to need more than `horizon`, the budget: the mean is then infinite,
    and its lower end is that of the mean with the budget in place of what is missing.
    """
    numbers = as_times(times)
    require(np.all(numbers > 0), f"times must be positive to have a logarithm; got {numbers.tolist()}")
    late = float(np.max(numbers[np.isfinite(numbers)], initial=0.0))
    good = horizon is None or late <= horizon < math.inf
    require(good, f"horizon must be finite and at least every finite time, {late:g}; got horizon={horizon!r}")
    name, count, missing = sample_name(sample, numbers), numbers.size, np.isinf(numbers)
    rule, value = f"Student's t of logarithms, {count} trials", float(numbers.mean())
    floor = 0.0 if horizon is None else float(horizon)
    if count < 2 or (missing.any() and horizon is None):
        return Estimate(value, np.zeros(1), np.array([math.inf]), {name: count}, rule, floor)
    known = np.where(missing, floor, numbers)
    draws = known.mean() * np.exp(_student(np.log(known), name))
    return Estimate(value, draws, np.full(DRAWS, math.inf) if missing.any() else draws, {name: count}, rule, floor)


def quantile(times: ArrayLike, q: float = 0.5) -> float:
    """The q-quantile of censored times: the smallest t with F_n(t) >= q (numpy's `inverted_cdf`).

    It is always one of the observed times, so nothing is ever averaged with infinity: the median is infinite
    exactly when more than half of the trials failed. For an even number of trials this is the *lower* median.
    """
    times = as_floats("times", times)
    require_fraction("q", q, closed=True)
    position = quantile_rank(times.size, q) - 1
    return float(np.partition(times, position)[position])


def quantiles(
    values: ArrayLike,
    levels: Sequence[float],
    *,
    horizon: float | None = None,
    lowest: float = -math.inf,
    highest: float = math.inf,
    sample: Hashable | None = None,
) -> list[Estimate]:
    """Quantiles of one sample at ascending `levels`, drawn together, each with its distribution-free interval.

    With N ~ Bin(n, q) the number of observations below the q-quantile, it lies in [X_(N), X_(N+1)] (David & Nagaraja,
    Order Statistics, section 7.1), where X_(0) and X_(n+1) are `lowest` and `highest`: too small a sample has no ends,
    and no bootstrap says so. Infinite values are censored; with `horizon` they are known to exceed it.
    """
    ordered = np.sort(as_floats("values", values))
    count, name = ordered.size, sample_name(sample, ordered)
    for q in levels:
        require_fraction("q", q)
    require(list(levels) == sorted(set(levels)), f"levels must ascend; got {list(levels)}")
    below = np.concatenate([[lowest], ordered, [highest]])
    # A failure is later than the budget: as the lower end of a draw that is a fact, as the upper one infinity.
    floor = lowest if horizon is None else float(horizon)
    known = np.where(np.isposinf(below), floor, below) if horizon is not None else below
    upper, numbers = None, {}
    for q in reversed(levels):  # N(q) given N(q') for q < q' is binomial of N(q') with q/q'
        share = levels_of(name, f"quantile {q}")
        drawn_from = (count, q) if upper is None else (numbers[upper], q / upper)
        numbers[q] = np.nan_to_num(scipy.stats.binom.ppf(share, *drawn_from)).astype(int)  # of 0 trials there are 0
        upper = q
    found = []
    for q in levels:
        position = np.maximum(numbers[q], 0)
        rule = f"order statistics, {count} trials"
        least, most = np.minimum(known[position], below[position + 1]), below[position + 1]
        found.append(Estimate(quantile(ordered, q), least, most, {name: count}, rule, floor))
    return found


def median(values: ArrayLike, *, nothing: str = "", **options: Any) -> Estimate:
    """The (lower) median with its distribution-free interval; see `quantiles`, and `maximum` for `nothing`."""
    if nothing and not np.size(values):
        return unknown_estimate(nothing)
    return quantiles(values, [0.5], **options)[0]


def median_time(times: ArrayLike, *, horizon: float | None = None, sample: Hashable | None = None) -> Estimate:
    """The median of convergence times, infinite where more than half of the trials failed."""
    return median(as_times(times), horizon=horizon, lowest=0.0, sample=sample)


def rate(successes: int, trials: int, *, sample: Hashable) -> Estimate:
    """A success rate with Clopper and Pearson's interval, which never covers less than it says.

    `sample` names the trials: two cells of a grid may well have the same counts.
    """
    require_integer("trials", trials, 1)
    require_integer("successes", successes, 0, trials)
    name, misses = sample_name(sample, ()), trials - successes
    share = levels_of(name, "rate")
    least = scipy.stats.beta.ppf(share, successes, misses + 1) if successes else np.zeros(DRAWS)
    most = scipy.stats.beta.ppf(share, successes + 1, misses) if misses else np.ones(DRAWS)
    return Estimate(successes / trials, least, most, {name: int(trials)}, f"Clopper–Pearson, {trials} trials")


def share_of(flags: ArrayLike, *, sample: Hashable | None = None) -> Estimate:
    """The share of trials for which something holds."""
    held = np.asarray(flags)
    require(
        held.dtype == bool and held.ndim == 1 and held.size, f"flags must be booleans; got {held.dtype} {held.shape}"
    )
    return rate(int(held.sum()), held.size, sample=sample_name(sample, np.append(held.astype(float), held.size)))


def tails(
    value: float,
    lower: Callable[[Floats], Floats],
    upper: Callable[[Floats], Floats],
    samples: Mapping[str, int],
    rule: str,
) -> Estimate:
    """A number whose one-sided ends are known: it lies above `lower(a)` with confidence 1-a, and below `upper(a)`."""
    share = levels_of("\x1f".join(samples), rule)
    with np.errstate(all="ignore"):
        least = np.where(share <= 0.5, np.minimum(lower(np.minimum(share, 0.5)), value), value)
        most = np.where(share > 0.5, np.maximum(upper(np.minimum(1 - share, 0.5)), value), value)
    if np.isnan(value):  # nothing is known of the middle: every draw has both ends
        least, most = lower(np.minimum(share, 1 - share)), upper(np.minimum(share, 1 - share))
    return Estimate(float(value), *_known(least, most), samples, rule)


def normal(value: float, deviation: float, count: int, *, sample: Hashable | None = None, trials: int = 1) -> Estimate:
    """A mean over `count` independent terms, so many that its error is normal; `deviation` is that of one term."""
    require_integer("count", count, 1)
    name = sample_name(sample, [value, deviation, count])
    draws = value + scipy.stats.norm.ppf(levels_of(name, "normal")) * deviation / math.sqrt(count)
    return Estimate(float(value), draws, draws, {name: trials}, f"normal, {count} terms")


def drawn(
    value: float,
    draws: ArrayLike,
    samples: Mapping[str, int],
    rule: str,
    *,
    most: ArrayLike | None = None,
    horizon: float = math.inf,
) -> Estimate:
    """DRAWS numbers that were drawn elsewhere (or one); one that is undefined (NaN) may be anything."""
    least = np.asarray(draws, float)
    require(least.shape in ((DRAWS,), (1,)), f"an estimate has {DRAWS} draws, so that all combine; got {least.shape}")
    return Estimate(
        float(value), *_known(least, least if most is None else np.asarray(most, float)), samples, rule, horizon
    )
