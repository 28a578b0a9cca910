"""What the constructions for token regression share: tasks by text settings, and an oracle that knows the answers.

The oracle draws tokens and indices in NumPy, gathers the tokens that the indices name, applies the link's formula,
and writes the prompt out as the model reads it. Nothing of it comes from the task but the codes and the link's numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from krogh.errors import KroghError, require_integer, unknown
from krogh.networks.handmade import Array, Oracle
from krogh.tasks.codes import ASSUMED_COHERENCE, coherence, require_coherence
from krogh.tasks.links import LinearLink, Link, MeanLink, TwoLayer, TwoLayerLink, unit_vector
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.prediction import check_open

ALL_TUPLES = 512
"""Number of index tuples up to which all of them are tried."""

RANDOM_PROMPTS = 128
"""Number of prompts with random indices that are tried where there are more tuples."""

_ENTRIES = 2**20
"""Coordinates in one batch of prompts: 8 MiB in float64."""

LinkName = Literal["linear", "mean", "two-layer"]


def link_network(task: TokenRegression) -> TwoLayer:
    """The task's link as an exact two-layer ReLU network; links that are none are refused."""
    network = task.link.two_layer(task.sparsity, task.dimension)
    if network is None:
        raise KroghError(
            f"the link {task.link.kind!r} is no two-layer ReLU network, and a construction needs one that is "
            "(try 'linear', 'mean' or 'two-layer')"
        )
    return network


def token_task(
    dimension: int,
    sparsity: int,
    *,
    link: LinkName,
    hidden: int,
    codes: Array,
    seed: int,
    shared: bool = False,
    scaled: bool = False,
) -> TokenRegression:
    """The task that text settings describe, a token per code; `seed` draws the link (a network has `hidden` units)."""
    chosen: Link
    if link == "two-layer":
        chosen = TwoLayerLink.random(sparsity, dimension, hidden, seed, biased=True)
    elif link in ("linear", "mean"):
        chosen = (LinearLink if link == "linear" else MeanLink)(unit_vector(dimension, seed))
    else:
        raise unknown("link", link, get_args(LinkName))
    law = "shared" if shared else "independent"
    return TokenRegression(len(codes), dimension, chosen, codes, sparsity, index_law=law, scaled=scaled)


def theory_dimension(length: int, code_dimension: int | None) -> int:
    """The given dimension of the codes, or ⌈20 ln N⌉ where random signs nearly always have coherence at most 1/2."""
    require_integer("length", length, 1)
    if code_dimension is not None:
        require_integer("code_dimension", code_dimension, 1)
        return code_dimension
    return max(4, math.ceil(20 * math.log(length)))


def sphere_codes(length: int, dimension: int, seed: int = 0) -> Array:
    """Codes uniform on the unit sphere, redrawn until their coherence is at most 1/2; refused after 100 draws."""
    require_integer("seed", seed, 0)
    random = np.random.default_rng([seed, length, dimension])
    codes = np.zeros((length, dimension))
    for _ in range(100):
        codes = random.normal(size=(length, dimension))
        codes /= np.linalg.norm(codes, axis=1, keepdims=True)
        if coherence(codes) <= ASSUMED_COHERENCE:
            break
    require_coherence(codes, ASSUMED_COHERENCE)
    return codes


def default_reach(length: int, dimension: int, reach: float | None) -> float:
    """The given bound on token norms, or Lemma 12's √(3e·d·ln(1 + N)), which Gaussian tokens rarely exceed."""
    if reach is not None:
        check_open("reach", reach, 0)
        return float(reach)
    return math.sqrt(3 * math.e * dimension * math.log1p(length))


def float64_codes(task: TokenRegression) -> Array:
    """The task's codes as the model sees them, before any scaling."""
    return np.asarray(task.codes, np.float64)


@dataclass(frozen=True, eq=False)
class TokenPrompts(Oracle):
    """Prompts with ‖x_j‖ ≤ reach and the labels g(x_{t_i1}, ..., x_{t_iq}), by gathering.

    Every index tuple occurs (at every position, where positions have their own) if there are at most `ALL_TUPLES`.
    Half of the prompts have Gaussian tokens, cut off at `reach`; in the others every token has that norm.
    """

    task: TokenRegression
    reach: float
    shared: bool

    @property
    def exhaustive(self) -> bool:
        return False  # tokens are real vectors: index tuples can be listed, prompts cannot

    def prompts(self, seed: int) -> Iterator[tuple[Array, np.ndarray]]:
        """Batches of tokens [batch, N, d] and 0-based indices [batch, N, q]."""
        random = np.random.default_rng(seed)
        n, d, q = self.task.length, self.task.dimension, self.task.sparsity
        total = n**q if n**q <= ALL_TUPLES else RANDOM_PROMPTS
        batch = max(1, _ENTRIES // (n * self.task.features))
        for start in range(0, total, batch):
            numbers = np.arange(start, min(start + batch, total))
            if n**q > ALL_TUPLES:
                indices = random.integers(0, n, (len(numbers), 1 if self.shared else n, q))
            else:
                # Position i of prompt p has tuple p + i: over all p, every position meets every tuple.
                tuples = numbers[:, None] if self.shared else numbers[:, None] + np.arange(n)[None, :]
                indices = np.stack([(tuples % total) // n**slot % n for slot in range(q)], axis=-1)
            tokens = random.normal(size=(len(numbers), n, d))
            norms = np.linalg.norm(tokens, axis=-1, keepdims=True)
            longest = np.where(numbers[:, None, None] % 2 == 1, norms, np.maximum(norms, self.reach))
            yield tokens * (self.reach / longest), np.broadcast_to(indices, (len(numbers), n, q))

    def encode(self, tokens: Array, indices: np.ndarray) -> Array:
        """Prompts as the model reads them: z_i = (x_i, ω_i, ω_{t_i1}, ..., ω_{t_iq}), codes times √(d/q) if scaled."""
        scale = math.sqrt(self.task.dimension / self.task.sparsity) if self.task.scaled else 1.0
        codes = scale * float64_codes(self.task)
        own = np.broadcast_to(codes, (*tokens.shape[:2], codes.shape[1]))
        asked = [codes[indices[:, :, slot]] for slot in range(self.task.sparsity)]
        return np.concatenate([tokens, own, *asked], axis=-1)

    def labels(self, tokens: Array, indices: np.ndarray) -> Array:
        """g of the tokens that the indices name, [batch, N]."""
        rows = np.arange(len(tokens))[:, None, None]
        return link_formula(self.task.link)(tokens[rows, indices])

    def cases(self, seed: int) -> Iterator[tuple[Array, Array]]:
        for tokens, indices in self.prompts(seed):
            yield self.encode(tokens, indices), self.labels(tokens, indices)


def link_formula(link: Link) -> Callable[[Array], Array]:
    """The link in NumPy: a function of tokens [..., q, d]."""
    if isinstance(link, LinearLink):
        u = np.asarray(link.u, np.float64)
        return lambda tokens: tokens[..., 0, :] @ u
    if isinstance(link, MeanLink):
        u = np.asarray(link.u, np.float64)
        return lambda tokens: tokens.mean(axis=-2) @ u
    if isinstance(link, TwoLayerLink):
        a, weight, b = (np.asarray(part, np.float64) for part in (link.a, link.W, link.b))
        return lambda tokens: np.maximum(tokens.reshape(*tokens.shape[:-2], -1) @ weight.T + b, 0.0) @ a
    raise KroghError(f"no formula is written down for the link {link.kind or type(link).__name__!r}")
