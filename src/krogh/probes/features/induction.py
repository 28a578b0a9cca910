"""Is this what training found? How near a trained two-layer transformer is to the induction head written by hand.

The head of `krogh.networks.induction` at c = ∞ says, for chains of order n, where attention should go: in layer 1, one
head for each distance 1..n-1; in layer 2 one head, to all positions whose past agrees best with the present. Which of
the network's heads is which is found by the largest shares. Measured on a batch, in float32 as networks are trained:

    previous      S⁽¹⁾[i, i-h], mean over positions i > h, for each distance h
    successors    Σ S⁽²⁾[t, j] over j whose n-1 symbols before are the last n-1 ones (reference, section 5), at the last
                  position; `chance` is what attention to all positions alike would have there
    first, second the total variation between the network's attention and the ideal one: layer 1 at all positions
                  (mean over the heads that look back), layer 2 at the last; 0 for the head itself
    scale         the a at which softmax(a·f) is nearest to what the network says, f the frequencies of the ideal head
    kl, variation KL(softmax(a·f) ‖ network) and ½ Σ|softmax(a·f) - network| at that a, at the last position
    losses        the task's error of the network as it is ("network"), with layer 1 made ideal ("first"), layer 2
                  ("second"), or both ("both"), and of softmax(a·f) itself ("head")

Attention may be near while what is made of it is not, and the other way round: a network that mixes several routes
predicts like the head and attends otherwise. Where ideal attention does no harm, `first`, `second` and `both` show that
the rest of the network reads attention as the head does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import NDArray

from krogh.errors import require
from krogh.models import CausalTransformer
from krogh.networks.induction import head_frequencies, previous_attention, successor_attention
from krogh.tasks.base import Examples
from krogh.tasks.chains import MarkovChains
from krogh.theory.chains.floors import best_scale, divergences
from krogh.theory.numerics import softmax

Array = NDArray[np.float64]

_attention = jax.jit(lambda model, params, x: model.attention(params, x))


@jax.jit
def _predicted(model: CausalTransformer, params: Any, x: Any, ideal: Any, replaced: Any) -> Any:
    """Predictions with the attention of some heads replaced: by layer, their numbers and [batch, chosen, t, t], and
    whether the layer's are."""

    def changed(layer: int) -> Any:
        chosen, weights = ideal[layer]
        return lambda found: found.at[:, chosen].set(jnp.where(replaced[layer], weights, found[:, chosen]))

    return model.predict_attending(params, x, {layer: changed(layer) for layer in range(2)})


@dataclass(frozen=True, eq=False)
class InductionDistance:
    """The numbers of this module; `heads` are those of layer 1 by distance, then that of layer 2."""

    previous: tuple[float, ...]
    successors: float
    chance: float
    first: float
    second: float
    scale: float
    kl: float
    variation: float
    losses: dict[str, float]
    heads: tuple[int, ...]

    @property
    def summary(self) -> str:
        """One line."""
        back = ", ".join(f"{share:.3g}" for share in self.previous)
        made = ", ".join(f"{name} {self.losses[name]:.3g}" for name in ("first", "second", "both"))
        return (
            f"attention to the previous token {back}, to successors {self.successors:.3g} (chance {self.chance:.3g}); "
            f"distance from the ideal head: layer 1 {self.first:.3g}, layer 2 {self.second:.3g}, predictions "
            f"{self.variation:.3g} at scale {self.scale:.3g}; loss {self.losses['network']:.3g}, with ideal attention "
            f"in {made}"
        )


def induction_distance(
    task: MarkovChains, model: CausalTransformer, params: dict[str, Any], examples: Examples
) -> InductionDistance:
    """How near a two-layer network is to the induction head, on `examples` of the task."""
    require(
        isinstance(model, CausalTransformer) and model.layers == 2,
        f"the induction head has two layers of a CausalTransformer; got {type(model).__name__}"
        + (f" of layers={model.layers}" if isinstance(model, CausalTransformer) else ""),
    )
    require(
        model.heads >= task.order - 1,
        f"chains of order {task.order} need {task.order - 1} heads that look back; got heads={model.heads} "
        f"(try heads={task.order - 1})",
    )
    x, n = np.asarray(examples.x), task.order
    attention = np.asarray(_attention(model, params, x), np.float64)
    length, rows = x.shape[1], np.arange(x.shape[1])
    shares = np.array(
        [
            [attention[0, :, head, rows[back:], rows[: length - back]].mean() for head in range(model.heads)]
            for back in range(1, n)
        ]
    )
    distances, looking = scipy.optimize.linear_sum_assignment(-shares)
    agreeing = _agreeing(x, n)
    found = np.einsum("bhj,bj->bh", attention[1, :, :, -1], agreeing)
    finding = int(np.argmax(found.mean(axis=0)))
    back = np.stack([previous_attention(length, int(place) + 1) for place in distances])
    successors = successor_attention(x, task.k, n)
    ideal = (
        (looking, np.tile(back.astype(np.float32), (len(x), 1, 1, 1))),
        (
            np.array([finding]),
            successors.astype(np.float32)[:, None],
        ),
    )
    layers = {"network": (False, False), "first": (True, False), "second": (False, True), "both": (True, True)}
    logits = {name: _predicted(model, params, x, ideal, np.array(replaced)) for name, replaced in layers.items()}
    frequencies = head_frequencies(x, task.k, n)
    says = softmax(np.asarray(logits["network"], np.float64)[:, -1])
    scale = best_scale(frequencies[:, -1], says).scale
    head = softmax(scale * frequencies[:, -1])
    logits["head"] = jnp.asarray((scale * frequencies).astype(np.float32))
    return InductionDistance(
        previous=tuple(shares[distances, looking].tolist()),
        successors=float(found[:, finding].mean()),
        chance=float(agreeing.mean()),
        first=_variation(attention[0][:, looking], back[None]),
        second=_variation(attention[1, :, finding, -1], successors[:, -1]),
        scale=scale,
        kl=float(divergences(head, says).mean()),
        variation=_variation(head, says),
        losses={name: float(np.mean(task.judge(given, examples))) for name, given in logits.items()},
        heads=(*looking.tolist(), finding),
    )


def _agreeing(x: NDArray[np.integer], order: int) -> NDArray[np.bool_]:
    """Which positions [batch, length] come after the n-1 symbols that are the last ones."""
    length, context = x.shape[1], x[:, x.shape[1] - order + 1 :]
    before = [x[:, place - order + 1 : place] for place in range(order - 1, length)]
    same = np.stack([np.all(one == context, axis=1) for one in before], axis=1)
    return np.concatenate([np.zeros((len(x), order - 1), bool), same], axis=1)


def _variation(one: Array, other: Array) -> float:
    """The mean of ½ Σ|p - q| over all rows."""
    return float(np.mean(0.5 * np.abs(one - other).sum(axis=-1)))
