"""The minimal model of an induction head: two layers of which one vector and one matrix are left (equations 8.8, E.2).

With E [t, k] the one-hot tokens, W [k, k], v [t] and M_{t's} = v_{t'-s+1} for s ≤ t', else 0,

    f(E) = mask(E W (M E)ᵀ) E,      f_{p,i} = Σ_{t' ≤ p} 1[x_t' = i] Σ_{s ≤ t'} v_{t'-s+1} W[x_p, x_s]

where the mask keeps t' ≤ p. There is no softmax and no normalisation: f are logits that grow with p. The first layer,
v, says how far back to look from t' (v_1 at the token itself, v_2 at the one before); the second, W, which symbols
found there go with the current one: row for the current symbol x_p, column for the symbol x_s. v = δ_2 and W = I count
what followed the current symbol so far (Fact 8.3).

f is bilinear in W and v, so that W = 0 and v = 0 together are a saddle at which no gradient starts to move.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num, PRNGKeyArray

from krogh.errors import require
from krogh.models.base import Model, Parameters, model
from krogh.models.parts import as_vectors, lagged, require_tokens
from krogh.tasks.base import Task
from krogh.tasks.chains import MarkovChains
from krogh.values import AnyArray, data, plain, traced


@model("minimal-induction")
class MinimalInduction(Model):
    """The minimal model; all entries of W start at `w` and all of v at `v`, which are data: nothing is drawn.

    Parameters: W [k, k], v [t]. The experiments start from w = 0 and v = 0.02, the default; Lemma E.1 from w = v = c.
    """

    w: Float[AnyArray, ""] = data(default=0.0)
    v: Float[AnyArray, ""] = data(default=0.02)

    def __check_init__(self) -> None:
        if traced(self.w) or traced(self.v):
            return
        finite = np.all(np.isfinite(self.w)) and np.all(np.isfinite(self.v))
        require(bool(finite), f"w and v are finite numbers; got w={plain(self.w)}, v={plain(self.v)}")
        moving = np.any((np.asarray(self.w) != 0) | (np.asarray(self.v) != 0))
        require(
            bool(moving),
            "w = v = 0 is a saddle of the minimal model, at which every gradient is 0; got w=0.0, v=0.0 (try v=0.02)",
        )

    @property
    def causal(self) -> bool:
        return True

    def init(self, key: PRNGKeyArray, task: Task) -> Parameters:
        k = require_tokens(self.kind, task)
        return {
            "W": jnp.broadcast_to(jnp.asarray(self.w, jnp.float32), (k, k)),
            "v": jnp.broadcast_to(jnp.asarray(self.v, jnp.float32), task.input_shape),
        }

    def predict(self, params: Parameters, x: Num[AnyArray, "batch length"]) -> Float[Array, "batch length k"]:
        """The logits, in O(batch·length²·k): what is found behind t', then what of it each p counts."""
        W, v, length = params["W"], params["v"], x.shape[1]
        tokens = as_vectors(x, W.shape[0], W.dtype)
        found = jnp.einsum("ij,bjk->bik", lagged(v[:length]), tokens)
        scores = jnp.einsum("bpm,btm->bpt", tokens, found @ W.T)
        return jnp.where(np.tri(length, dtype=bool)[None], scores, 0) @ tokens

    def check(self, task: Task) -> None:
        require_tokens(self.kind, task)

    @classmethod
    def example(cls) -> tuple[Model, Task]:
        return cls(w=1.0, v=1.0), MarkovChains.example()
