"""What is known before anything is trained.

What lives here: predictions (theorems as functions, `predictions/`), constructions (weights written down in
closed form, `constructions/`), Fourier analysis on the cube (`boolean`), learners that are not networks
(`baselines`), norms and Lipschitz constants of attention (`norms`, `attention_lipschitz`), the complexity of a class
of functions (`capacity`), risks, floors and what a trained map shows (`risks`, `witnesses`, `attention_map`),
networks compiled from programs (`compilers`) and how far their weights may move (`all_layer`),
representations of groups (`representations`), maximum margins and their certificates (`margins`), the features of a
network and how far it is from a maximum-margin one (`features`). All of it computes in float64.
Importing this package registers every prediction and construction. A new prediction is made with the decorator of
`krogh.theory.prediction`, the module that says what a prediction is.

What does not: tasks, models and training, which theory may use but which know nothing of it, and measurements
of networks while they train (`krogh.probes`).
"""

from krogh.theory import (
    all_layer,
    attention_lipschitz,
    attention_map,
    baselines,
    boolean,
    capacity,
    compilers,
    constructions,
    features,
    margins,
    norms,
    predictions,
    representations,
    risks,
    sign_storage,
    token_norms,
    witnesses,
)
from krogh.theory.prediction import REQUIRED, Prediction, predict

__all__ = [
    "REQUIRED",
    "Prediction",
    "all_layer",
    "attention_lipschitz",
    "attention_map",
    "baselines",
    "boolean",
    "capacity",
    "compilers",
    "constructions",
    "features",
    "margins",
    "norms",
    "predict",
    "predictions",
    "representations",
    "risks",
    "sign_storage",
    "token_norms",
    "witnesses",
]
