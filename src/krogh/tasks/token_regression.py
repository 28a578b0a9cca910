"""q-sparse token regression (qSTR): labels are functions of q tokens that the prompt itself names (Definition 2).

A prompt is N tokens x_i ∈ R^d, each with q indices t_i ∈ [N]^q; the label at position i is
y_i = g(x_{t_i1}, …, x_{t_iq}). A model reads z_i = (x_i, ω_i, ω_{t_i1}, …, ω_{t_iq}) with frozen positional codes ω.

    index_law    independent   t_ij uniform on [N], all independent (qSTR)
                 shared        one t per prompt (simple-qSTR): the label is the same at every position
                 null-half     t_i = (1..q) for i ≥ N/2, uniform otherwise (Propositions 3 and 21)
    token_law    gaussian      x_i ~ N(0, I_d)
                 half-null     x_i = 0 for i ≥ N/2, N(0, I_d) otherwise
    evaluation   matched       judged on prompts of the same law
                 shared        judged on simple-qSTR prompts, as the published figures are

Positions are counted from 1 in these laws and in the source, from 0 in arrays.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from krogh.errors import require, require_integer, unknown
from krogh.tasks.base import Examples, Task, task
from krogh.tasks.codes import checked_codes, paper_dimension, require_distinct, sign_codes
from krogh.tasks.links import LinearLink, Link, unit_vector
from krogh.tasks.system import System
from krogh.values import AnyArray, data, structure, traced

INDEX_LAWS = ("independent", "shared", "null-half")
TOKEN_LAWS = ("gaussian", "half-null")
EVALUATIONS = ("matched", "shared")


class Prompts(NamedTuple):
    """Raw examples: tokens, and the indices that each position names (one row for all where they share it)."""

    tokens: Float[AnyArray, "size length dimension"]
    indices: Int[AnyArray, "size rows sparsity"]


@task("qstr")
class TokenRegression(Task):
    """q-sparse token regression with any link, index law, token law and positional codes.

    `codes` [N, d_e] default to ⌊5 ln N⌋ random signs; `scaled` multiplies them by √(d/q), as the theory of the
    Transformer does (Section 3); the experiments and the theory of recurrent networks leave them as they are.
    """

    link: Link
    length: int = structure()
    dimension: int = structure()
    codes: Float[AnyArray, "length code_dimension"] = data()
    sparsity: int = structure()
    index_law: str = structure()
    token_law: str = structure()
    scaled: bool = structure()
    evaluation: str = structure()

    system = System(
        knobs={
            "length": "tokens of a prompt: what tells the architectures apart",
            "sparsity": "tokens that a label depends on: heads that a Transformer needs",
            "dimension": "numbers of a token: unknowns of a link",
            "link": "the function of these tokens",
            "index_law": "whether every position asks for tokens of its own",
            "codes": "how positions are written down",
            "evaluation": "on which prompts a network is judged",
        },
        baselines=("null_risk", "labels", "samples"),
        theory=(
            "qstr/approximation-width",
            "qstr/feedforward-floor",
            "qstr/few-heads",
            "qstr/head-floor",
            "qstr/norm-exponent",
            "qstr/recurrent-risk",
            "qstr/recurrent-width",
            "qstr/regime",
            "qstr/retrieval-scale",
            "qstr/transformer-risk",
            "qstr/transformer-samples",
        ),
        phenomena={
            "a hierarchy of architectures": (
                "qstr/sample-complexity",
                "qstr/length",
                "qstr/recurrent-width",
                "qstr/span",
                "qstr/evaluation-law",
            ),
            "attention looks where the prompt says": ("qstr/attention-map", "qstr/heads"),
            "which norm decides what is learned": ("qstr/norm-competition",),
        },
    )

    def __init__(
        self,
        length: int,
        dimension: int,
        link: Link,
        codes: Any = None,
        sparsity: int = 1,
        index_law: str = "independent",
        token_law: str = "gaussian",
        scaled: bool = False,
        evaluation: str = "matched",
    ):
        for name, number in (("length", length), ("dimension", dimension), ("sparsity", sparsity)):
            require_integer(name, number, 1)
        for name, given, allowed in (
            ("index_law", index_law, INDEX_LAWS),
            ("token_law", token_law, TOKEN_LAWS),
            ("evaluation", evaluation, EVALUATIONS),
        ):
            if given not in allowed:
                raise unknown(name, given, allowed)
        halved = index_law == "null-half" or token_law == "half-null"
        require(
            not halved or 2 * sparsity < length,
            f"tokens 1..q must lie before N/2 when the other half is null; got q={sparsity}, N={length} "
            f"(try length={2 * sparsity + 1})",
        )
        require(isinstance(link, Link), f"link must be a Link such as LinearLink(u); got {link!r}")
        require(isinstance(scaled, bool), f"scaled must be True or False; got scaled={scaled!r}")
        link.check(sparsity, dimension)
        if codes is None:
            codes = sign_codes(length, paper_dimension(length))
        if not traced(codes):
            codes = checked_codes(codes, length)
            require_distinct(codes)
        self.length, self.dimension, self.sparsity = length, dimension, sparsity
        self.link, self.codes = link, codes
        self.index_law, self.token_law = index_law, token_law
        self.scaled, self.evaluation = scaled, evaluation

    @property
    def code_dimension(self) -> int:
        """d_e."""
        return int(self.codes.shape[-1])

    @property
    def features(self) -> int:
        """D_e = d + (q+1) d_e: the size of z_i."""
        return self.dimension + (self.sparsity + 1) * self.code_dimension

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.length, self.features)

    @property
    def regression(self) -> bool:
        return True

    @property
    def code_scale(self) -> float:
        """What multiplies the codes: √(d/q) where `scaled`."""
        return (self.dimension / self.sparsity) ** 0.5 if self.scaled else 1.0

    def in_null_half(self) -> np.ndarray:
        """Which positions i (from 1) have i ≥ N/2."""
        return 2 * np.arange(1, self.length + 1) >= self.length

    def draw(self, key: PRNGKeyArray, size: int) -> Prompts:
        return self._prompts(key, size, self.index_law)

    def test(self, key: PRNGKeyArray, size: int) -> Prompts:
        return self._prompts(key, size, self.judged_law)

    @property
    def judged_law(self) -> str:
        """The index law of the prompts that a trial is judged on."""
        return "shared" if self.evaluation == "shared" else self.index_law

    def _prompts(self, key: PRNGKeyArray, size: int, index_law: str) -> Prompts:
        for_tokens, for_indices = jax.random.split(key)
        tokens = jax.random.normal(for_tokens, (size, self.length, self.dimension), jnp.float32)
        if self.token_law == "half-null":
            tokens = jnp.where(self.in_null_half()[None, :, None], jnp.float32(0), tokens)
        rows = 1 if index_law == "shared" else self.length
        indices = jax.random.randint(for_indices, (size, rows, self.sparsity), 0, self.length, jnp.int32)
        if index_law == "null-half":
            first = jnp.arange(self.sparsity, dtype=jnp.int32)[None, None, :]
            indices = jnp.where(self.in_null_half()[None, :, None], first, indices)
        return Prompts(tokens, indices)

    def decode(self, raw: Prompts) -> Examples:
        size, (length, q) = raw.tokens.shape[0], (self.length, self.sparsity)
        tokens, indices = jnp.asarray(raw.tokens), jnp.asarray(raw.indices)
        rows = indices.shape[1]
        named = jnp.take_along_axis(tokens, indices.reshape(size, rows * q)[:, :, None], axis=1, mode="clip")
        y = self.link(named.reshape(size, rows, q, self.dimension))
        codes = jnp.asarray(self.codes) * self.code_scale
        own = jnp.broadcast_to(codes[None], (size, *codes.shape))
        asked = jnp.take(codes, indices, axis=0, mode="clip").reshape(size, rows, q * self.code_dimension)
        asked = jnp.broadcast_to(asked, (size, length, q * self.code_dimension))
        x = jnp.concatenate([tokens, own, asked], axis=-1)
        y = jnp.broadcast_to(y, (size, length))
        return Examples(x, y, y)

    def prompts(self, tokens: Any, indices: Any) -> Prompts:
        """Prompts of your own: tokens [size, N, d] and indices [size, N, q] (or [size, 1, q]) counted from 0."""
        x, t = np.asarray(tokens, np.float32), np.asarray(indices)
        shaped = x.ndim == 3 and x.shape[1:] == (self.length, self.dimension)
        require(shaped, f"tokens must have shape [size, {self.length}, {self.dimension}]; got {list(x.shape)}")
        fits = t.shape in ((len(x), self.length, self.sparsity), (len(x), 1, self.sparsity)) and t.dtype.kind in "iu"
        require(
            fits,
            f"indices must be integers of shape [{len(x)}, {self.length} or 1, {self.sparsity}]; "
            f"got {t.dtype.name} of shape {list(t.shape)}",
        )
        outside = t[(t < 0) | (t >= self.length)]
        require(not outside.size, f"indices must lie in 0..{self.length - 1}; got {outside[:1].tolist()}")
        return Prompts(x, t.astype(np.int32))

    def error(
        self, prediction: Float[Array, "batch length"], truth: Float[Array, "batch length"]
    ) -> Float[Array, " batch"]:
        """The mean over positions of (ŷ_i - y_i)²."""
        return jnp.mean((prediction - truth) ** 2, axis=-1)

    def limits(self) -> dict[str, float]:
        """A linear function of q tokens has q·d unknowns: as many labels, of which a prompt holds one or N."""
        unknowns = float(self.sparsity * self.dimension)
        return {"labels": unknowns, "samples": unknowns / (1 if self.index_law == "shared" else self.length)}

    def baselines(self) -> dict[str, float]:
        """The risk E y² of predicting 0, where it has a closed form."""
        risk = self.null_risk()
        return {} if risk is None else {"null_risk": risk}

    def null_risk(self) -> float | None:
        """(1/N) Σ_i E y_i² on judged prompts, where indices may meet and tokens be null; None without a closed form."""
        q, d, length = self.sparsity, self.dimension, self.length
        null = float(self.in_null_half().mean()) if self.token_law == "half-null" else 0.0
        slots = self.link.slot_moments(q, d)
        if slots is None:
            plain = q == 1 and not null
            return self.link.second_moment(q, d) if plain else None
        scale, variance, c0 = slots
        # Two uniform indices meet with probability 1/N and are both null with probability null².
        own = (1 - null) * variance + null * c0**2
        pair = (1 - null) / length * variance + null**2 * c0**2
        uniform = scale**2 * (q * own + q * (q - 1) * pair)
        if self.judged_law != "null-half":
            return uniform
        fixed = float(self.in_null_half().mean())
        return fixed * scale**2 * q * variance + (1 - fixed) * uniform

    @classmethod
    def example(cls) -> "TokenRegression":
        return cls(length=6, dimension=3, link=LinearLink(unit_vector(3, seed=1)))
