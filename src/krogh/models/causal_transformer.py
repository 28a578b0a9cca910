"""Transformers that predict the next token at every position (dissertation, equations 8.4 and 8.5, Figure E.8).

With rows for positions, z⁽⁰⁾ = E[x], and in every layer, for each head of width a = d/heads,

    A_ij = (z_i W_Q)·(z_j W_K + v_{i-j+1})/√a       for j ≤ i, else -∞: nobody sees what comes after it
    z    ← z + softmax_j(A) z W_V                     heads side by side
    logits = z P

`v` holds a vector per distance: v_1 is met at the token itself, v_2 at the one before. It is added to the key and meets
the query. There are no biases. The print has no embedding after the last layer; here it is. Variants:

    positions   "relative" as above; "absolute": a trained vector of each place is added to E[x]; "none"
    norm        layer norm with scale and shift before every layer and before P, which then read LN(z) for z
    output      heads are mixed by W_O before they are added to z
    mlp         after every layer z ← z + W₂ᵀ GELU(W₁ᵀ z + b₁) + b₂ with 4d units
    dropout     in training, on embeddings, attention weights, relative vectors and all that is added to z

The source does not say how weights are drawn. `plain` is the formula alone with every weight from N(0, 1/d); `paper`
has norms, W_O ~ N(0, 0.01²) and all else from N(0, 0.02²), as the code published with the chapter has. Scales start at
1, shifts and biases at 0.

The relative scores of a batch are one product per position with v laid out by (i, j); no array has the axes batch, i, j
and d together. The first layer sees symbols and distances alone, so what it mixes can be had by counting: in training,
where there are fewer pairs of symbols than positions, no array of it has the axes batch, i and j either. Layers are few
and written out one after the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray, UInt32

from krogh.errors import KroghError, require, require_integer, unknown
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import as_vectors, check_rate, embedded, kept, lagged, nearest_divisor, normed, require_symbols
from krogh.tasks.base import Task
from krogh.tasks.chains import MarkovChains
from krogh.values import AnyArray, data, plain, structure, traced

POSITIONS = ("relative", "absolute", "none")
PAPER_SPREAD, PAPER_OUTPUT_SPREAD = 0.02, 0.01
GAP = 80.0  # e^-80 is above the smallest normal number of float32
EMBEDDING, ATTENTION, RELATIVE, MIXED, HIDDEN = range(5)

Stream = Float[Array, "batch length d"]
Scores = Float[Array, "layers batch heads length length"]
Change = Callable[[Array], Array]


@model("causal-transformer")
class CausalTransformer(Model):
    """A causal transformer on tokens 0..k-1; the source has two layers, one head and dimension 16.

    Parameters, with L layers, d the dimension, t the length: E [k, d], P [d, k], Q, K, V [L, d, d]; v [L, t, d] for
    relative positions or p [t, d] for absolute ones; O [L, d, d] with `output`; g1, h1 [L, d] (scale and shift before
    attention) and g3, h3 [d] (before P) with `norm`; W1 [L, d, 4d], b1 [L, 4d], W2 [L, 4d, d], b2 [L, d] with `mlp`,
    and g2, h2 [L, d] with both. Head h has the columns h·a .. (h+1)·a - 1 of Q, K, V and v.

    `spread` is the standard deviation of the initial weights, 1/√d unless given, and `output_spread` that of O, the
    same unless given; both are data.
    """

    dimension: int = structure(default=16)
    layers: int = structure(default=2)
    heads: int = structure(default=1)
    positions: str = structure(default="relative")
    mlp: bool = structure(default=False)
    norm: bool = structure(default=False)
    output: bool = structure(default=False)
    dropout: float = structure(default=0.0)
    spread: Float[AnyArray, ""] | None = data(optional=True, default=None)
    output_spread: Float[AnyArray, ""] | None = data(optional=True, default=None)

    def __check_init__(self) -> None:
        for name in ("dimension", "layers", "heads"):
            require_integer(name, getattr(self, name), 1)
        fitting = nearest_divisor(self.dimension, self.heads)
        require(
            fitting == self.heads,
            f"heads must divide the dimension {self.dimension}; got heads={self.heads} (try heads={fitting}, or "
            f"dimension={self.heads * max(1, round(self.dimension / self.heads))})",
        )
        if self.positions not in POSITIONS:
            raise unknown("positions", self.positions, POSITIONS)
        check_rate("dropout", self.dropout)
        for name in ("spread", "output_spread"):
            given = getattr(self, name)
            known = given is not None and not traced(given)
            require(
                not known or bool(np.all(np.asarray(given) > 0)),
                f"{name} is a standard deviation above 0; got {name}={plain(given)}",
            )
        require(
            self.output or self.output_spread is None,
            f"output_spread={plain(self.output_spread)} is for W_O, which only output=True has (try output=True)",
        )

    @classmethod
    def paper(cls, **fields: Any) -> CausalTransformer:
        """As the code published with the chapter: pre-norm, W_O, weights of spread 0.02 and W_O of 0.01."""
        chosen = {"norm": True, "output": True, "spread": PAPER_SPREAD, "output_spread": PAPER_OUTPUT_SPREAD}
        return cls(**{**chosen, **fields})

    @classmethod
    def plain(cls, **fields: Any) -> CausalTransformer:
        """The chapter's formula alone, all weights from N(0, 1/d)."""
        return cls(**fields)

    @property
    def causal(self) -> bool:
        return True

    @property
    def noisy(self) -> bool:
        return self.dropout > 0

    @property
    def matrices(self) -> tuple[str, ...]:
        """The parameters that weight decay is for, `Adam(decayed=model.matrices)`: no embeddings, relative vectors,
        norms or biases."""
        return ("Q", "K", "V", *("O" * self.output), *(("W1", "W2") if self.mlp else ()), "P")

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        (k, answers), t = require_symbols(self.kind, task), task.input_shape[0]
        d, layers = self.dimension, self.layers
        drawn: dict[str, tuple[int, ...]] = {"E": (k, d), "P": (d, answers), **dict.fromkeys("QKV", (layers, d, d))}
        drawn |= {"v": (layers, t, d)} if self.positions == "relative" else {}
        drawn |= {"p": (t, d)} if self.positions == "absolute" else {}
        drawn |= {"O": (layers, d, d)} if self.output else {}
        drawn |= {"W1": (layers, d, 4 * d), "W2": (layers, 4 * d, d)} if self.mlp else {}
        # One draw for all: a draw per array would take longer to compile than the rest of the program.
        ends = list(itertools.accumulate(math.prod(shape) for shape in drawn.values()))
        parts = jnp.split(jax.random.normal(key, (ends[-1],), jnp.float32), ends[:-1])
        spread = jnp.float32(1 / math.sqrt(d)) if self.spread is None else jnp.asarray(self.spread, jnp.float32)
        spreads = {} if self.output_spread is None else {"O": jnp.asarray(self.output_spread, jnp.float32)}
        params = {
            name: spreads.get(name, spread) * part.reshape(shape)
            for part, (name, shape) in zip(parts, drawn.items(), strict=True)
        }
        constants: dict[str, tuple[int, ...]] = {"b1": (layers, 4 * d), "b2": (layers, d)} if self.mlp else {}
        if self.norm:
            constants |= {"g1": (layers, d), "h1": (layers, d), "g3": (d,), "h3": (d,)}
            constants |= {"g2": (layers, d), "h2": (layers, d)} if self.mlp else {}
        return params | {
            name: (jnp.ones if name.startswith("g") else jnp.zeros)(shape, jnp.float32)
            for name, shape in constants.items()
        }

    def predict(self, params: Parameters, x: Num[AnyArray, "batch length"]) -> Float[Array, "batch length k"]:
        return self._run(params, x)[0]

    def predict_last(self, params: Parameters, x: Num[AnyArray, "batch length"]) -> Float[Array, "batch 1 k"]:
        return self._run(params, x, asked=slice(-1, None))[0]

    def forward(
        self, params: Parameters, x: Num[AnyArray, "batch length"], noise: UInt32[Array, ""]
    ) -> Float[Array, "batch length k"]:
        if self.noisy:
            return self._run(params, x, noise)[0]
        return self._run(params, x, counting=self._counts(params, x))[0]

    def scores(self, params: Parameters, x: Num[AnyArray, "batch length"]) -> Scores:
        """The scores A of every layer and head, queries in rows; -∞ where a position would look ahead."""
        return jnp.stack([found for found, _ in self._run(params, x)[1]])

    def attention(self, params: Parameters, x: Num[AnyArray, "batch length"]) -> Scores:
        """softmax_j(A) of every layer and head: rows are queries and add up to 1."""
        return jnp.stack([weights for _, weights in self._run(params, x)[1]])

    def predict_attending(
        self,
        params: Parameters,
        x: Num[AnyArray, "batch length"],
        changes: Mapping[int, Change],
    ) -> Float[Array, "batch length k"]:
        """Predictions with other attention weights: in some layers (0, 1, ...), a function of those found there.

        Everything after a change sees it; weights are [batch, heads, length, length].
        """
        beyond = sorted(set(changes) - set(range(self.layers)))
        require(not beyond, f"the layers are 0..{self.layers - 1}; got attention for {beyond}")
        return self._run(params, x, changes=changes)[0]

    def positional(self, params: Parameters) -> Float[Array, "layers heads k length"]:
        """The effective positional encoding of a symbol s: softmax_r((e_s W_Q)·v_r/√a) over distances (section 8.3.2).

        With `norm`, e_s is normed as it is before the layer. The print has W_K and no scale; v meets the query.
        """
        if self.positions != "relative":
            raise KroghError(
                f"only relative positions have vectors by distance; got positions={self.positions!r} "
                f"(try positions='relative')"
            )
        found = []
        for layer in range(self.layers):
            query = self._by_head(self._normed(params, "1", layer, params["E"]) @ params["Q"][layer])
            vectors = self._by_head(params["v"][layer])
            found.append(jnp.einsum("sha,rha->hsr", query, vectors) / math.sqrt(query.shape[-1]))
        return jax.nn.softmax(jnp.stack(found), axis=-1)

    def _run(
        self,
        params: Parameters,
        x: Num[AnyArray, "batch length"],
        noise: UInt32[Array, ""] | None = None,
        changes: Mapping[int, Change] | None = None,
        counting: bool = False,
        asked: slice = slice(None),
    ) -> tuple[Float[Array, "batch asked k"], list[tuple[Array, Array]]]:
        """Logits at the positions that are asked for, all or the last ones, and the scores and attention weights of
        every layer that does not count."""
        z = embedded(x, params["E"])
        if self.positions == "absolute":
            z = z + params["p"][None, : x.shape[1], :]
        z = self._dropped(z, noise, EMBEDDING, 0)
        seen = []
        for layer in range(self.layers):
            here = asked if layer == self.layers - 1 else slice(None)
            if layer == 0 and counting:
                mixed = self._mixed_by_counting(params, x)
            else:
                read = self._normed(params, "1", layer, z)
                scores = self._scores(params, read, layer, noise, here)
                # A softmax whose sum divides what is mixed, not the weights: there are length/a times as many of these.
                raised = jnp.exp(scores - jax.lax.stop_gradient(jnp.max(scores, axis=-1, keepdims=True)))
                total = jnp.sum(raised, axis=-1, keepdims=True)
                seen.append((scores, raised / total))
                if changes is not None and layer in changes:
                    raised, total = changes[layer](raised / total), jnp.ones_like(total)
                raised = self._dropped(raised, noise, ATTENTION, layer)
                mixed = jnp.einsum("bhij,bhja->bhia", raised, self._heads(read @ params["V"][layer])) / total
                z = z[:, here]
                mixed = mixed.swapaxes(1, 2).reshape(z.shape)
            if self.output:
                mixed = mixed @ params["O"][layer]
            z = z + self._dropped(mixed, noise, MIXED, layer)
            if self.mlp:
                inner = self._normed(params, "2", layer, z) @ params["W1"][layer] + params["b1"][layer][None, None, :]
                added = jax.nn.gelu(inner, approximate=False) @ params["W2"][layer] + params["b2"][layer][None, None, :]
                z = z + self._dropped(added, noise, HIDDEN, layer)
        return self._normed(params, "3", None, z) @ params["P"], seen

    def _counts(self, params: Parameters, x: Num[AnyArray, "batch length"]) -> bool:
        """Whether the first layer is had by counting pairs of symbols, which are fewer than positions."""
        return self.positions != "absolute" and params["E"].shape[0] ** 2 <= x.shape[1]

    def _mixed_by_counting(self, params: Parameters, x: Num[AnyArray, "batch length"]) -> Stream:
        """What the first layer mixes. It reads E[x], so A_ij = p(x_i, x_j) + r(x_i, i-j), and by symbols s and c

            C_i(s, c)          = Σ_{j ≤ i: x_j = c} exp r(s, i-j)
            Σ_j exp(A_ij) u_j  = Σ_c exp p(x_i, c) C_i(x_i, c) e_c W_V

        r counts from its largest over j. A symbol that comes e^GAP times too late for float32 is left out; if p could
        make up for that (no network is trained with such scores) the answer is NaN rather than wrong.
        """
        length, scale = x.shape[1], 1 / math.sqrt(self.dimension // self.heads)
        read = self._normed(params, "1", 0, params["E"])
        query, key, value = (
            self._by_head(read @ matrix) for matrix in (scale * params["Q"][0], params["K"][0], params["V"][0])
        )
        r = jnp.zeros((length, *query.shape[:2]), query.dtype)
        if self.positions == "relative":
            r = jnp.einsum("lha,sha->lsh", self._by_head(params["v"][0][:length]), query)
        far = self._masked(lagged(r).transpose(2, 3, 0, 1))
        raised = jnp.exp(far - jax.lax.stop_gradient(jnp.max(far, axis=-1, keepdims=True)))
        symbols = as_vectors(x, query.shape[0], query.dtype)
        counts = jnp.einsum("bis,bishc->bihc", symbols, jnp.einsum("shij,bjc->bishc", raised, symbols))
        pairs = jnp.einsum("sha,cha->hsc", query, key)
        lost = (jnp.ptp(r, axis=0).T > GAP) & (jnp.ptp(pairs, axis=-1) > GAP / 4)  # by head and symbol
        seen = counts > math.exp(-GAP)
        p = jnp.einsum("bis,hsc->bihc", symbols, jnp.where(lost[..., None], jnp.nan, pairs))
        most = jnp.max(jnp.where(seen, p + jnp.log(jnp.where(seen, counts, 1.0)), -jnp.inf), axis=-1, keepdims=True)
        share = jnp.where(seen, counts, 0.0) * jnp.exp(jnp.where(seen, p - jax.lax.stop_gradient(most), 0.0))
        mixed = jnp.einsum("bihc,cha->biha", share, value) / jnp.sum(share, axis=-1, keepdims=True)
        return mixed.reshape(*x.shape, self.dimension)

    def _scores(
        self, params: Parameters, read: Stream, layer: int, noise: UInt32[Array, ""] | None, asked: slice
    ) -> Float[Array, "batch heads asked length"]:
        length, scale = read.shape[1], 1 / math.sqrt(self.dimension // self.heads)
        query = self._heads(read[:, asked] @ (scale * params["Q"][layer]))
        scores = jnp.einsum("bhia,bhja->bhij", query, self._heads(read @ params["K"][layer]))
        if self.positions == "relative":
            vectors = self._dropped(params["v"][layer], noise, RELATIVE, layer)
            by_place = self._by_head(lagged(vectors[:length])[asked])
            scores = scores + jnp.einsum("bhia,ijha->bhij", query, by_place)
        return self._masked(scores)

    def _masked(self, scores: Float[Array, "batch heads asked length"]) -> Float[Array, "batch heads asked length"]:
        """-∞ wherever a position would look ahead; the last positions ask."""
        seen = np.tri(scores.shape[-1], dtype=bool)[-scores.shape[-2] :]
        return jnp.where(seen[None, None], scores, -jnp.inf)

    def _heads(self, rows: Stream) -> Float[Array, "batch heads length a"]:
        return self._by_head(rows).swapaxes(1, 2)

    def _by_head(self, rows: Float[Array, "*rows d"]) -> Float[Array, "*rows heads a"]:
        return rows.reshape(*rows.shape[:-1], self.heads, -1)

    def _normed(self, params: Parameters, which: str, layer: int | None, z: Float[Array, "*rows d"]) -> Array:
        if not self.norm:
            return z
        scale, shift = params[f"g{which}"], params[f"h{which}"]
        return normed(z, *((scale, shift) if layer is None else (scale[layer], shift[layer])))

    def _dropped(self, given: Array, noise: UInt32[Array, ""] | None, kind: int, layer: int) -> Array:
        """Some entries dropped in training; where there is a batch it is the first axis."""
        if noise is None:
            return given
        return given * kept(noise, kind + 5 * layer, given.shape, self.dropout)

    def check(self, task: Task) -> None:
        require_symbols(self.kind, task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(dimension=8), MarkovChains.example()
