"""Retrieval by attention: q heads fetch the q tokens that a prompt names (qSTR paper, Lemma 11 and equation A.2).

Head h compares the code of the h-th index at position i with the code of every position j,

    QK_h = α·(rows: code of index h, columns: code of the position),  so  ⟨z_i, QK_h z_j⟩ = α (d/q) ⟨ω_{t_ih}, ω_j⟩,

which is α d/q for j = t_ih and at most half of it for the others, where the codes' coherence is at most 1/2. With

    α = (2q/d) ln(2 r_a r_w r_x N √q / √ε)

attention is so close to a hard choice that the link network, reading the fetched tokens, is off by at most √ε.
The lemma prints ln(.../ε) in the norm; its proof has √ε, which is what is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np

from krogh.errors import require, require_integer
from krogh.models.token_attention import MergedAttention
from krogh.networks.handmade import Construction, construction
from krogh.networks.tokens.prompts import (
    LinkName,
    TokenPrompts,
    default_reach,
    link_network,
    theory_dimension,
    token_task,
)
from krogh.tasks.codes import ASSUMED_COHERENCE, require_coherence, sign_codes
from krogh.tasks.token_regression import TokenRegression
from krogh.theory.numerics import double_precision
from krogh.theory.prediction import check_open


@dataclass(frozen=True)
class RetrievalCertificate:
    """What Lemma 11 promises of the weights, for every prompt whose tokens have norm at most `reach`.

    `strength` is α; attention to the token asked for is at least `retrieval_weight`; a head's token is off by at most
    `token_error`, the output by at most `output_error` = √ε; `query_key_norm` is ‖QK_hᵀ‖_{2,1} = d_e α of each head.
    """

    reach: float
    strength: float
    retrieval_weight: float
    token_error: float
    output_error: float
    query_key_norm: float

    @property
    def value(self) -> float:
        """The error of outputs, at most."""
        return self.output_error

    @property
    def holds_for(self) -> str:
        """For which prompts."""
        return f"prompts whose tokens have norm at most {self.reach:g}"


@dataclass(frozen=True)
class RetrievalMeasured:
    """What was found on some prompts: the least weight on a token asked for, and the largest errors."""

    retrieval_weight: float
    token_error: float
    output_error: float


@dataclass(frozen=True, eq=False)
class Retrieval(Construction):
    """The retrieval transformer with its certificate."""

    promise: RetrievalCertificate = field(kw_only=True)

    def certificate(self) -> RetrievalCertificate:
        """What Lemma 11 promises."""
        return self.promise

    def measure(self, seed: int = 0) -> RetrievalMeasured:
        """The certified quantities on the oracle's prompts, from the model's own attention in float64."""
        assert isinstance(self.oracle, TokenPrompts) and isinstance(self.model, MergedAttention)
        q, d = self.oracle.task.sparsity, self.oracle.task.dimension
        weight, token_error, output_error = 1.0, 0.0, 0.0
        for tokens, indices in self.oracle.prompts(seed):
            x = self.oracle.encode(tokens, indices)
            with double_precision():
                params: dict[str, Any] = {name: jnp.asarray(value) for name, value in self.parameters.items()}
                attention = np.asarray(self.model.attention(params, jnp.asarray(x)))
                brought = np.asarray(self.model.attended(params, jnp.asarray(x)))
            asked = np.swapaxes(indices, 1, 2)[..., None]
            weight = min(weight, float(np.take_along_axis(attention[:, :q], asked, axis=3).min()))
            named = tokens[np.arange(len(tokens))[:, None, None], indices]
            token_error = max(token_error, float(np.linalg.norm(brought[:, :, :q, :d] - named, axis=-1).max()))
            gap = np.abs(self.run(x) - self.oracle.labels(tokens, indices))
            output_error = max(output_error, float(gap.max()))
        return RetrievalMeasured(weight, token_error, output_error)


@construction("qstr/retrieval", source="qSTR paper, Lemma 11 and equation (A.2)")
def token_retrieval(
    length: int,
    dimension: int,
    sparsity: int = 1,
    code_dimension: int | None = None,
    link: LinkName = "two-layer",
    hidden: int = 7,
    heads: int | None = None,
    epsilon: float = 1e-4,
    reach: float | None = None,
    seed: int = 0,
) -> Construction:
    """A transformer that retrieves the q named tokens and applies the link to them.

    ŷ_i = a·relu(W f_i + b) with f_i ≈ (x_{t_i1}, ..., x_{t_iq}), within √epsilon for every prompt with ‖x_j‖ ≤ reach

    Codes are random signs of dimension ⌈20 ln N⌉ unless given, drawn until their coherence is at most 1/2. `link` is
    "linear" (q = 1), "mean", or "two-layer", a random network of width `hidden`. `heads` is q unless given.
    """
    size = theory_dimension(length, code_dimension)
    codes = sign_codes(length, size, seed, ASSUMED_COHERENCE)
    task = token_task(dimension, sparsity, link=link, hidden=hidden, codes=codes, seed=seed, scaled=True)
    return retrieval(task, heads=heads, epsilon=epsilon, reach=reach)


def retrieval(
    task: TokenRegression, heads: int | None = None, epsilon: float = 1e-4, reach: float | None = None
) -> Retrieval:
    """The retrieval transformer of any qSTR task with scaled codes whose link is a two-layer network."""
    n, d, q, size, features = task.length, task.dimension, task.sparsity, task.code_dimension, task.features
    heads = q if heads is None else heads
    require_integer("heads", heads, 1)
    require(heads >= q, f"one head retrieves one token: {q} tokens need {q} heads; got heads={heads} (try heads={q})")
    require(task.scaled, "retrieval is written for codes scaled by √(d/q); got scaled=False (try scaled=True)")
    check_open("epsilon", epsilon, 0)
    require_coherence(task.codes, ASSUMED_COHERENCE)
    reach = default_reach(n, d, reach)
    network = link_network(task)
    lipschitz = network.output_radius * network.input_radius
    strength = retrieval_strength(n, d, q, lipschitz, reach, epsilon)
    query_key = np.zeros((heads, features, features))
    weight = np.zeros((len(network.a), heads * features))
    for h in range(q):
        asked = d + (h + 1) * size
        query_key[h, asked : asked + size, d : d + size] = strength * np.eye(size)
        weight[:, h * features : h * features + d] = network.W[:, h * d : (h + 1) * d]
    miss = math.exp(-strength * d / (2 * q))
    certificate = RetrievalCertificate(
        reach=reach,
        strength=strength,
        retrieval_weight=1 - (n - 1) * miss,
        token_error=2 * n * reach * miss,
        output_error=math.sqrt(epsilon),
        query_key_norm=size * strength,
    )
    return Retrieval(
        name="qstr/retrieval",
        task=task,
        model=MergedAttention(heads, len(network.a)),
        parameters={"QK": query_key, "W": weight, "b": network.b, "a": network.a},
        statement=f"|ŷ_i - g(x_t)| ≤ {math.sqrt(epsilon):g} at every position i of every prompt of {n} tokens "
        f"of norm at most {reach:g}, for every t = t_i in [{n}]^{q}",
        width=len(network.a),
        oracle=TokenPrompts(task, reach, shared=task.index_law == "shared"),
        tolerance=math.sqrt(epsilon),
        promise=certificate,
    )


def retrieval_strength(
    length: int, dimension: int, sparsity: int, lipschitz: float, reach: float, epsilon: float
) -> float:
    """α = (2q/d) ln(2 r_a r_w r_x N √q / √ε), where r_a r_w = `lipschitz` and r_x = `reach`; at least 0."""
    ratio = 2 * lipschitz * reach * length * math.sqrt(sparsity) / math.sqrt(epsilon)
    return 2 * sparsity / dimension * math.log(max(ratio, 1.0))
