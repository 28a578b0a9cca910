"""How a pair network's neurons spread over frequencies or irreducible representations (dissertation, chapter 7).

    P_j(u) = |û(j)|² + |û(-j)|²                     one-sided: a cosine has it all, where |û(j)|² alone has half
    P_R(u) = Σ_{g,h} u(g) κ_R(g⁻¹h) u(h)            κ_R = (d_R/|G|) χ_R, with Σ_R P_R(u) = ‖u‖²

κ_R is the identity's row of the projector onto R. The frequencies of Z_n are its irreducible representations over the
reals, κ_j(c) = (2/n) cos(2πjc/n), half of it for j = 0 and j = n/2, so that κ serves both. The largest normalised
power max_R P_R(u)/Σ_R P_R(u) is 1 where u lies in one representation (Figures 7.4 and 7.6).

Small neurons decay slowly and stay without structure: means and shares are weighted by ‖ω_i‖^ν, and medians and counts
are over the kept neurons, those with a norm of at least a tenth (`kept`) of the largest.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from krogh.errors import require
from krogh.models.base import Model
from krogh.models.two_layer import EXACT, LAYERS, PairNetwork, neuron_norms
from krogh.probes.base import Moment, Probe, probe
from krogh.probes.margins import KEPT, LEAST_NORM, check_share, kept_neurons, median_of, quotients
from krogh.tasks.base import Task
from krogh.tasks.composition import GroupComposition
from krogh.values import AnyArray, data


def frequency_kernels(n: int) -> Float[np.ndarray, "frequencies n"]:
    """κ_j(c) of Z_n for j = 0..⌊n/2⌋."""
    j, c = np.arange(n // 2 + 1)[:, None], np.arange(n)[None, :]
    twice = np.where((j == 0) | (2 * j == n), 1.0, 2.0)
    return (twice / n * np.cos(2 * np.pi * (j * c % n) / n)).astype(np.float32)


def spectrum(
    vectors: Float[Array, "vectors n"], kernels: Float[AnyArray, "parts n"], quotient: Int[Array, "n n"]
) -> Float[Array, "vectors parts"]:
    """P_R of every vector, one representation at a time: memory for one projector, whatever their number."""

    def part(kernel: Float[Array, " n"]) -> Float[Array, " vectors"]:
        projector = jnp.take(kernel, quotient, mode="clip").astype(vectors.dtype)
        return jnp.sum(jnp.matmul(vectors, projector, precision=EXACT) * vectors, axis=1)

    return jnp.maximum(jax.lax.map(part, jnp.asarray(kernels)).T, 0)


class _SpectralProbe(Probe):
    """What the probes of spectra share: parts are frequencies of Z_n, or those of `kernels` where they are given."""

    prefix: ClassVar[str]
    """What the columns' names begin with."""

    @property
    def given(self) -> Float[AnyArray, "parts n"] | None:
        """The kernels κ_R that the probe was given."""
        return getattr(self, "kernels", None)

    @property
    def first(self) -> int:
        """The first part that may dominate a neuron: frequency 0 is not one of the source's frequencies."""
        return 1 if self.given is None else 0

    def parts(self, task: GroupComposition) -> Float[AnyArray, "parts n"]:
        """The kernels κ_R."""
        return frequency_kernels(task.order) if self.given is None else self.given

    def powers(self, moment: Moment) -> Float[Array, "layers width parts"]:
        """P_R of the rows of U, V and W."""
        assert isinstance(moment.task, GroupComposition)
        rows = jnp.concatenate([moment.params[name] for name in LAYERS])
        found = spectrum(rows, self.parts(moment.task), quotients(moment.task))
        return found.reshape(len(LAYERS), -1, found.shape[1])

    def dominant(self, powers: Float[Array, "*layers width parts"]) -> Int[Array, "*layers width"]:
        """The part with most of each row's power."""
        return self.first + jnp.argmax(powers[..., self.first :], axis=-1)

    def check(self, task: Task, model: Model) -> None:
        pairs = isinstance(task, GroupComposition) and isinstance(model, PairNetwork)
        require(pairs, f"{self.kind} looks at a pair network on a composition; got {model.kind!r} on {task.kind!r}")
        assert isinstance(task, GroupComposition)
        group, kernels = task.group(), np.asarray(self.parts(task))
        fits = kernels.ndim == 2 and kernels.shape[1] == group.order
        require(fits, f"kernels must have the shape [parts, {group.order}]; got {list(kernels.shape)}")
        unit = np.arange(group.order) == group.identity
        whole = bool(np.allclose(kernels.sum(axis=0), unit, atol=1e-3))
        require(whole, f"kernels must add up to 1 at the identity of {group.name}, element {group.identity}, and to 0")
        if self.given is None:
            check_cyclic(self.kind, task)

    @classmethod
    def example(cls) -> Any:
        named = any(field.name == "kernels" for field in dataclasses.fields(cls))
        return cls(frequency_kernels(GroupComposition.example().order)) if named else cls()


def _kernels(given: Any) -> Any:
    """Kernels as they are; of projectors the row of element 0, which is the identity of every named group."""
    array = np.asarray(given)
    return array[:, 0] if array.ndim == 3 else array


class _LargestPower(_SpectralProbe):
    """Columns, for u, v and w: the mean of the largest normalised power weighted by ‖ω_i‖^ν, and its median over kept
    neurons; the share of kept neurons whose u, v and w have the same dominant part; how many are kept."""

    kept: Float[AnyArray, ""]

    def columns(self, task: Task) -> tuple[str, ...]:
        measures = [f"{measure}_{layer.lower()}" for measure in ("power", "median") for layer in LAYERS]
        return tuple(f"{self.prefix}_{name}" for name in (*measures, "agreement", "kept"))

    def measure(self, moment: Moment) -> Float[Array, " 8"]:
        model, params = moment.model, moment.params
        assert isinstance(model, PairNetwork)
        powers = self.powers(moment)
        largest = jnp.max(powers, axis=2) / jnp.maximum(jnp.sum(powers, axis=2), LEAST_NORM)
        weight = neuron_norms(model.neurons(params), 2.0, float(model.homogeneity))
        means = jnp.sum(largest * weight[None, :], axis=1) / jnp.maximum(jnp.sum(weight), LEAST_NORM)
        kept = kept_neurons(model, params, self.kept)
        medians = jnp.stack([median_of(row, kept) for row in largest])
        dominant = self.dominant(powers)
        agree = kept & (dominant[0] == dominant[1]) & (dominant[1] == dominant[2])
        agreeing, count = (jnp.sum(chosen).astype(means.dtype) for chosen in (agree, kept))
        return jnp.concatenate([means, medians, jnp.stack([agreeing / count, count])])


@probe("fourier-power")
class FourierPower(_LargestPower):
    """How far neurons of a network on Z_n have one frequency each (M7, Figure 7.4)."""

    kept: Float[AnyArray, ""] = data(default=KEPT)

    prefix = "fourier"

    def __check_init__(self) -> None:
        check_share(self.kept)


@probe("irrep-power")
class IrrepPower(_LargestPower):
    """How far neurons of a network on a group lie in one irreducible representation each (M10, Figure 7.6).

    `kernels` are κ_R [representations, n], or the projectors onto them [representations, n, n].
    """

    kernels: Float[AnyArray, "parts n"] = data()
    kept: Float[AnyArray, ""] = data(default=KEPT)

    prefix = "irrep"

    def __init__(self, kernels: Any, kept: Any = KEPT):
        self.kernels, self.kept = _kernels(kernels), kept
        check_share(self.kept)


class _PerPart(_SpectralProbe):
    """A column for each frequency j ≥ 1, or, with `kernels`, for each representation; a neuron counts where most of the
    power of u, v and w together is."""

    kernels: Float[AnyArray, "parts n"] | None

    def columns(self, task: Task) -> tuple[str, ...]:
        if self.kernels is None:
            assert isinstance(task, GroupComposition)
            return tuple(f"{self.prefix}_{j}" for j in range(1, task.order // 2 + 1))
        return tuple(f"{self.prefix}_{part}" for part in range(self.kernels.shape[0]))

    def added(self, moment: Moment, weight: Float[Array, " width"]) -> Float[Array, " parts"]:
        """The weight of the neurons of each part."""
        powers = jnp.sum(self.powers(moment), axis=0)
        parts = jnp.arange(self.first, powers.shape[1])
        own = self.dominant(powers)[:, None] == parts[None, :]
        return jnp.sum(jnp.where(own, weight[:, None], 0), axis=0)


@probe("neuron-shares")
class NeuronShares(_PerPart):
    """Σ ‖ω_i‖^ν over the neurons of each part, as a share of the whole (M16)."""

    kernels: Float[AnyArray, "parts n"] | None = data(optional=True)

    prefix = "share"

    def __init__(self, kernels: Any = None):
        self.kernels = None if kernels is None else _kernels(kernels)

    def measure(self, moment: Moment) -> Float[Array, " columns"]:
        assert isinstance(moment.model, PairNetwork)
        weight = neuron_norms(moment.model.neurons(moment.params), 2.0, float(moment.model.homogeneity))
        return self.added(moment, weight) / jnp.maximum(jnp.sum(weight), LEAST_NORM)


@probe("neuron-counts")
class NeuronCounts(_PerPart):
    """The number of kept neurons of each part (M8, M11; Figures D.1 and 7.6b)."""

    kernels: Float[AnyArray, "parts n"] | None = data(optional=True)
    kept: Float[AnyArray, ""] = data(default=KEPT)

    prefix = "neurons"

    def __init__(self, kernels: Any = None, kept: Any = KEPT):
        self.kernels, self.kept = None if kernels is None else _kernels(kernels), kept
        check_share(self.kept)

    def measure(self, moment: Moment) -> Float[Array, " columns"]:
        assert isinstance(moment.model, PairNetwork)
        return self.added(moment, kept_neurons(moment.model, moment.params, self.kept).astype(jnp.float32))


def check_cyclic(name: str, task: Task) -> None:
    """Refuse a table that is not addition modulo n."""
    assert isinstance(task, GroupComposition)
    a = np.arange(task.order)
    cyclic = np.array_equal(np.asarray(task.table), (a[:, None] + a[None, :]) % task.order)
    require(cyclic, f"{name} reads frequencies of addition modulo {task.order}; got {task.name!r} (give its kernels)")
