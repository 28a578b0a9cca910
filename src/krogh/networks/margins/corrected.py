"""The generic network with corrections, and parameters shared between its layers (Section D).

    g_0 = f_0(x, θ_0),   h_i = ζ_i(g_i, ξ_i),   g_i = f_i((h_0, ..., h_{i-1}), θ_i),   F = g_d            (D.1)

for i = 1..d, where (D.1) as printed has g_{i-1} within ζ_i; the lemmas need g_i. Modules and corrections are pure JAX
functions of what they read and of a dict of arrays. Layer-based weight sharing (Definition D.5) copies entries of one
shared vector into the layers, each entry at most once into any one layer: then a change of the shared vector of norm a
changes each layer by at most a, and a bound that allows each layer a change of a holds for the shared vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from krogh.errors import require

Weights = Mapping[str, Any]
First = Callable[[Any, Weights], Any]
"""f_0(x, θ_0)."""
Later = Callable[[tuple[Any, ...], Weights], Any]
"""f_i((h_0, ..., h_{i-1}), θ_i)."""
Correction = Callable[[Any, Weights], Any]
"""ζ_i(g_i, ξ_i)."""


@dataclass(frozen=True, eq=False)
class Pass:
    """What a forward pass computes: `before` the corrections g_0..g_d, `after` them h_0..h_{d-1}, and F = g_d."""

    before: tuple[Any, ...]
    after: tuple[Any, ...]

    @property
    def output(self) -> Any:
        """F(x, θ, ξ)."""
        return self.before[-1]


@dataclass(frozen=True, eq=False)
class CorrectedNetwork:
    """Modules f_0, f_1..f_d and corrections ζ_0..ζ_{d-1}; a correction that is None is the identity.

    Parameters are given per module: `modules[i]` reads θ[i], `corrections[i]` reads ξ[i].
    """

    first: First
    later: tuple[Later, ...]
    corrections: tuple[Correction | None, ...]

    def __post_init__(self) -> None:
        require(
            len(self.corrections) == len(self.later),
            f"every module but the last has a correction: {1 + len(self.later)} modules need {len(self.later)} "
            f"corrections; got {len(self.corrections)} (None stands for no correction)",
        )

    @property
    def depth(self) -> int:
        """d."""
        return len(self.later)

    def run(self, x: Any, theta: Sequence[Weights], xi: Sequence[Weights]) -> Pass:
        """All values of (D.1); θ has d+1 dicts and ξ has d."""
        for name, given, needed in (("theta", theta, self.depth + 1), ("xi", xi, self.depth)):
            require(len(given) == needed, f"{name} must have {needed} dicts of parameters; got {len(given)}")
        before, after = [self.first(x, theta[0])], []
        for module, correction, module_weights, weights in zip(
            self.later, self.corrections, theta[1:], xi, strict=True
        ):
            after.append(before[-1] if correction is None else correction(before[-1], weights))
            before.append(module(tuple(after), module_weights))
        return Pass(tuple(before), tuple(after))

    def output(self, x: Any, theta: Sequence[Weights], xi: Sequence[Weights]) -> Any:
        """F(x, θ, ξ)."""
        return self.run(x, theta, xi).output


@dataclass(frozen=True, eq=False)
class WeightSharing:
    """Definition D.5: τ_i(θ') = (θ'_{π_1}, ..., θ'_{π_b}) with distinct indices π within each layer i.

    `layers[i]` has an array of indices into the shared vector of `size` entries for each parameter of layer i, of the
    shape of that parameter. An index that occurs twice in one layer is refused: moving it would move the layer by more.
    """

    size: int
    layers: tuple[Mapping[str, NDArray[np.int64]], ...]

    def __post_init__(self) -> None:
        for number, layer in enumerate(self.layers):
            whole = np.concatenate([np.zeros(0, np.int64), *(np.asarray(index).ravel() for index in layer.values())])
            require(
                np.issubdtype(whole.dtype, np.integer) and np.all((whole >= 0) & (whole < self.size)),
                f"layer {number} refers outside the {self.size} shared parameters (indices are 0..{self.size - 1})",
            )
            values, counts = np.unique(whole, return_counts=True)
            twice = values[counts > 1]
            where = [name for name, index in layer.items() if twice.size and np.isin(np.asarray(index), twice[0]).any()]
            require(
                not twice.size,
                f"layer {number} uses the shared parameter {twice[0] if twice.size else ''} more than once (in "
                f"{', '.join(where)}); sharing between layers is allowed, within a layer it is not (Definition D.5)",
            )

    def per_layer(self, shared: Any) -> tuple[dict[str, Any], ...]:
        """τ(θ'): the parameters of every layer, gathered from the shared vector [size]."""
        return tuple({name: shared[np.asarray(index)] for name, index in layer.items()} for layer in self.layers)


@dataclass(frozen=True, eq=False)
class SharedNetwork:
    """F'(x, θ') = F(x, τ¹(θ'), τ²(θ')): the network whose only parameter is the shared vector, named "shared"."""

    network: CorrectedNetwork
    modules: WeightSharing
    corrections: WeightSharing

    def __post_init__(self) -> None:
        sizes = (self.modules.size, self.corrections.size)
        require(sizes[0] == sizes[1], f"modules and corrections share one vector; got the sizes {sizes}")

    def output(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """F'(x, θ'), as `attack` takes it."""
        shared = parameters["shared"]
        return self.network.output(x, self.modules.per_layer(shared), self.corrections.per_layer(shared))
