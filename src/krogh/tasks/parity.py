"""Sparse parities: chi_S(x) = ∏_{i in S} x_i of uniform signs x (dissertation, §5.2, §7.5, §B.1.1).

parity             any support S, label noise p (§B.3.6)
disjoint-parity    one relevant coordinate in each of k blocks (§5.4.2)
parity-control     labels are coin flips, evaluation is on chi_S (Figure 5.3 right)
parity-classes     two logits in place of one: class 0 is chi_S = +1, class 1 is chi_S = -1 (section 7.5)
"""

import abc
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from krogh.errors import require, require_integer
from krogh.tasks import bits as signs
from krogh.tasks.base import ClassificationTask, Examples, Task, task
from krogh.tasks.boolean import BooleanTask, listed_cube, support_indices, whole_numbers
from krogh.tasks.system import System
from krogh.values import AnyArray, data, replaced, structure, traced

_KNOBS = {
    "n": "input bits: supports to choose from, while log C(n, k) samples identify one",
    "k": "relevant bits: the degree of the function, and the exponent of the search",
    "support": "which bits are relevant",
}
_BASELINES = ("guessing_accuracy", "random_search_steps", "elimination_samples", "samples", "statistical_queries")


class AbstractParity(BooleanTask):
    """What the parities share. Without label noise (`noisy` False) no noise words are drawn."""

    n: AbstractVar[int]
    k: AbstractVar[int]
    support: AbstractVar[Int[AnyArray, " k"]]
    noisy: AbstractVar[bool]

    @property
    @abc.abstractmethod
    def flip_probability(self) -> Any:
        """Probability that an observed label is the negated truth."""

    @property
    @abc.abstractmethod
    def supports(self) -> int:
        """How many supports a learner must tell apart."""

    @property
    def label_noise(self) -> Any:
        return self.flip_probability if self.noisy else None

    def truth(self, x: Float[Array, "size n"], bits: UInt32[AnyArray, "size words"]) -> Float[Array, " size"]:
        return signs.parity(bits, signs.support_mask(self.support, self.n))

    def fitted(self, leaves: Task) -> Task:
        noisy = bool(np.any(np.asarray(leaves.flip_probability) > 0))  # type: ignore[attr-defined]
        return replaced(self, "noisy", noisy)

    def limits(self) -> dict[str, float]:
        """Samples ~ log2 N/(1-2p)^2; statistical queries ~ N, for N possible supports (§B.1.1)."""
        kept = 1.0 - 2.0 * float(self.flip_probability)
        samples = math.log2(self.supports) / kept**2 if kept else math.inf
        return {"samples": samples, "statistical_queries": _float(self.supports)}

    def baselines(self) -> dict[str, float]:
        """Accuracy of guessing; mean steps of random search; samples elimination needs (noiseless only)."""
        noise = float(self.flip_probability)
        return {
            "guessing_accuracy": 0.5,
            "random_search_steps": _float(self.supports) if noise < 0.5 else math.inf,
            "elimination_samples": float(self.n) if noise == 0.0 else math.inf,
        }


def _float(count: int) -> float:
    try:
        return float(count)
    except OverflowError:
        return math.inf


def _check_size(n: Any, k: Any) -> None:
    require_integer("n", n, 1)
    require_integer("k", k, 1)
    require(k <= n, f"k must be at most n={n}; got k={k} (try k={n})")


def _check_noise(noise: Any, noisy: bool) -> None:
    if traced(noise):
        return
    number = np.asarray(noise)
    inside = number.shape == () and number.dtype.kind in "iuf" and 0.0 <= number < 0.5
    hint = "pure noise is the task 'parity-control'"
    require(inside, f"noise must be in [0, 1/2); got noise={noise} ({hint})")
    require(noisy or number == 0.0, f"noisy=False leaves the noise out; got noise={noise}")


def _checked_support(support: Any, n: int, k: int) -> Any:
    return support if traced(support) else np.sort(np.asarray(support_indices(support, n, k=k), np.int32))


@task("parity")
class Parity(AbstractParity):
    """(n,k)-parity with support S (first k coordinates unless given) and label noise p."""

    n: int = structure()
    k: int = structure()
    support: Int[AnyArray, " k"] = data(np.int32)
    noise: Float[AnyArray, ""] = data()
    noisy: bool = structure(default=True, fitted=True)

    system = System(
        knobs={**_KNOBS, "noise": "how often a label is flipped: 1/(1-2p)² as many samples"},
        baselines=_BASELINES,
        theory=(
            "parity/degree-barrier",
            "parity/elimination",
            "parity/enumeration",
            "parity/feature-generalisation",
            "parity/fourier-gap",
            "parity/good-neurons",
            "parity/gradient-gap",
            "parity/initial-luck",
            "parity/invisible-parities",
            "parity/kernel-floor",
            "parity/minimum-width",
            "parity/noise-attenuation",
            "parity/one-step-theorem",
            "parity/over-sparse-neuron",
            "parity/over-sparse-theorem",
            "parity/random-search",
            "parity/random-walk",
            "parity/reference-lines",
            "parity/resource-bound",
            "parity/sq-limit",
            "parity/statistical-limit",
            "parity/support-recovery",
            "parity/under-sparse-neuron",
            "parity/under-sparse-theorem",
        ),
        phenomena={
            "a plateau, then a sudden drop": (
                "parity/training-curves",
                "parity/gallery",
                "parity/no-plateau",
                "parity/activations",
            ),
            "hidden progress": ("parity/hidden-progress", "parity/fourier-gaps", "parity/histogram"),
            "learning near the computational limit": (
                "parity/scaling",
                "parity/batch-grid",
                "parity/robust-grid",
                "parity/initialisation",
                "parity/noise",
            ),
            "features that no fixed kernel has": ("parity/kernel-floor", "parity/one-step", "parity/layer-wise"),
            "grokking": ("parity/grokking", "frontiers/curves"),
            "a frontier of data, compute, width and luck": (
                "frontiers/success",
                "frontiers/surface",
                "frontiers/advice",
                "frontiers/invisible-parities",
            ),
            "more data may hurt": ("frontiers/slices",),
            "width as a parallel lottery": ("parity/width", "frontiers/tickets"),
            "sparse starts are luckier": (
                "frontiers/good-neurons",
                "frontiers/over-sparse",
                "frontiers/under-sparse",
            ),
        },
    )

    def __init__(self, n: int, k: int | None = None, support: Any = None, noise: Any = 0.0, noisy: bool = True):
        self.n, self.noisy = n, noisy
        self.k = np.size(support) if k is None and support is not None else k  # type: ignore[assignment]
        require(self.k is not None, "a parity needs k or a support; got neither")
        _check_size(self.n, self.k)
        self.support = _checked_support(np.arange(self.k) if support is None else support, n, self.k)
        _check_noise(noise, noisy)
        self.noise = noise

    @property
    def flip_probability(self) -> Any:
        return self.noise

    @property
    def supports(self) -> int:
        return math.comb(self.n, self.k)

    @classmethod
    def example(cls) -> "Parity":
        return cls(n=8, support=(1, 4, 6), noise=0.1)


@task("disjoint-parity")
class DisjointParity(AbstractParity):
    """One relevant coordinate in each of k blocks of n/k; `choice[i]` is its place in block i."""

    n: int = structure()
    k: int = structure()
    support: Int[AnyArray, " k"] = data(np.int32)
    noise: Float[AnyArray, ""] = data()
    noisy: bool = structure(default=True, fitted=True)

    system = System(
        knobs={
            **_KNOBS,
            "choice": "the relevant place of each block: blocks take the search for sets away",
            "noise": "how often a label is flipped",
        },
        baselines=_BASELINES,
        theory=("parity/plateau", "parity/polynet-error", "parity/polynet-flow", "parity/polynet-sgd"),
        phenomena={"a plateau, then a sudden drop": ("parity/disjoint-flow", "parity/disjoint-theorems")},
    )

    def __init__(
        self,
        n: int,
        k: int,
        choice: Any = None,
        noise: Any = 0.0,
        support: Any = None,
        noisy: bool = True,
    ):
        _check_size(n, k)
        nearest = max(k, round(n / k) * k)
        require(n % k == 0, f"k must divide n for disjoint blocks; got n={n}, k={k} (try n={nearest})")
        self.n, self.k, self.noisy, block = n, k, noisy, n // k
        if choice is not None:
            places = whole_numbers("choice", choice)
            inside = len(places) == k and all(0 <= place < block for place in places)
            require(inside, f"choice must hold k={k} places in 0..{block - 1}; got {places}")
            support = np.arange(k) * block + np.asarray(places)
        self.support = _checked_support(np.arange(k) * block if support is None else support, n, k)
        if not traced(self.support):
            blocks = [int(index) // block for index in self.support]
            require(blocks == list(range(k)), f"support must hit each block once; got blocks {blocks}")
        _check_noise(noise, noisy)
        self.noise = noise

    @property
    def flip_probability(self) -> Any:
        return self.noise

    @property
    def supports(self) -> int:
        return (self.n // self.k) ** self.k

    @classmethod
    def example(cls) -> "DisjointParity":
        return cls(n=9, k=3, choice=(0, 2, 1))


@task("parity-control")
class ParityControl(AbstractParity):
    """Labels are coin flips independent of x; what is learned is judged against chi_S."""

    n: int = structure()
    k: int = structure()
    support: Int[AnyArray, " k"] = data(np.int32)
    noisy: bool = structure(default=True, fitted=True)

    system = System(
        knobs=_KNOBS,
        baselines=("guessing_accuracy", "random_search_steps"),
        theory=("parity/random-walk",),
        phenomena={"hidden progress": ("parity/hidden-progress",)},
    )

    def __init__(self, n: int, k: int | None = None, support: Any = None, noisy: bool = True):
        inner = Parity(n, k, support)
        require(noisy, f"labels of a control are noise; got noisy={noisy}")
        self.noisy = noisy
        self.n, self.k, self.support = inner.n, inner.k, inner.support

    @property
    def flip_probability(self) -> Any:
        return np.float32(0.5)

    @property
    def supports(self) -> int:
        return math.comb(self.n, self.k)

    @classmethod
    def example(cls) -> "ParityControl":
        return cls(n=8, support=(0, 3))


@task("parity-classes")
class ParityClasses(ClassificationTask):
    """(n,k)-parity with support S (first k coordinates unless given) and two logits."""

    n: int = structure()
    k: int = structure()
    support: Int[AnyArray, " k"] = data(np.int32)

    system = System(
        knobs=_KNOBS,
        baselines=_BASELINES,
        theory=("algebra/max-margin", "algebra/finite-lambda"),
        phenomena={"harmonic features by maximum margin": ("algebra/parity",)},
    )

    def __init__(self, n: int, k: int | None = None, support: Any = None):
        inner = Parity(n, k, support)
        self.n, self.k, self.support = inner.n, inner.k, inner.support

    @property
    def classes(self) -> int:
        return 2

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.n,)

    def draw(self, key: PRNGKeyArray, size: int) -> UInt32[Array, "size words"]:
        return jax.random.bits(key, (size, signs.words(self.n)), jnp.uint32)

    def decode(self, raw: UInt32[AnyArray, "size words"]) -> Examples:
        sign = signs.parity(raw, signs.support_mask(self.support, self.n))
        y = (sign < 0).astype(jnp.int32)
        return Examples(signs.unpack(raw, self.n), y, y)

    @property
    def population_size(self) -> int | None:
        return Parity(self.n, self.k).population_size

    def population(self) -> UInt32[np.ndarray, "size words"]:
        return listed_cube(self.n)

    def limits(self) -> dict[str, float]:
        """As for one logit: samples ~ log2 C(n, k), statistical queries ~ C(n, k)."""
        return Parity(self.n, self.k).limits()

    def baselines(self) -> dict[str, float]:
        return Parity(self.n, self.k).baselines()

    @classmethod
    def example(cls) -> "ParityClasses":
        return cls(n=6, support=(1, 2, 4))
