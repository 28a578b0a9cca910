"""The named configurations of the source: (i)–(xv) and (*i)–(*iii) (dissertation, §5.3.1, §B.4.1).

configuration("vii", k=3)     one neuron, k-zigzag, trained output weight
"""

from __future__ import annotations

from collections.abc import Callable

from krogh.errors import require_integer, unknown
from krogh.models.base import Model
from krogh.models.polynet import PolyNet
from krogh.models.transformer import ParityTransformer
from krogh.models.two_layer import Mlp, Neuron, power_mlp

_NEURONS = ("zigzag", "polynomial", "infinite-zigzag", "sine")

CONFIGURATIONS: dict[str, tuple[str, Callable[[int, str], Model]]] = {
    "i": ("ReLU MLP, width 10", lambda k, init: Mlp(10, initialiser=init)),
    "ii": ("ReLU MLP, width 100", lambda k, init: Mlp(100, initialiser=init)),
    "iii": ("ReLU MLP, width 1000", lambda k, init: Mlp(1000, initialiser=init)),
    "iv": ("z^k MLP, width 10", lambda k, init: power_mlp(10, k, init)),
    "v": ("z^k MLP, width 100", lambda k, init: power_mlp(100, k, init)),
    "vi": ("z^k MLP, width 1000", lambda k, init: power_mlp(1000, k, init)),
    "xv": ("PolyNet", lambda k, init: PolyNet(k, init)),
    "*i": ("ReLU MLP, width k", lambda k, init: Mlp(k, output_bias=True, initialiser=init)),
    "*ii": ("z^k MLP, width k", lambda k, init: power_mlp(k, k, init)),
    "*iii": ("Parity Transformer", lambda k, init: ParityTransformer(initialiser=init)),
}
for _place, _wave in enumerate(_NEURONS):
    for _trained, _names in ((True, ("vii", "viii", "ix", "x")), (False, ("xi", "xii", "xiii", "xiv"))):
        CONFIGURATIONS[_names[_place]] = (
            f"one neuron, {_wave}, output weight {'trained' if _trained else 'fixed to 1'}",
            lambda k, init, wave=_wave, trained=_trained: Neuron(wave, k, trained, initialiser=init),  # type: ignore[misc]
        )


def configuration(name: str, k: int, initialiser: str = "uniform") -> Model:
    """The source's configuration `name` for a k-parity."""
    require_integer("k", k, 1)
    plain = name.strip("()")
    if plain not in CONFIGURATIONS:
        raise unknown("configuration", name, CONFIGURATIONS)
    return CONFIGURATIONS[plain][1](k, initialiser)


def configuration_title(name: str) -> str:
    """What the configuration is, in words."""
    return CONFIGURATIONS[name.strip("()")][0]
