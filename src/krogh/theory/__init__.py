"""What is known before anything is trained.

What lives here: predictions (theorems as functions, `predictions/`), constructions (weights written down in
closed form, `constructions/`), Fourier analysis on the cube (`boolean`), and learners that are not networks
(`baselines`). All of it computes in float64. Importing this package registers every prediction and
construction. A new prediction is made with the decorator of `krogh.theory.prediction`, the module that says
what a prediction is.

What does not: tasks, models and training, which theory may use but which know nothing of it, and measurements
of networks while they train (`krogh.probes`).
"""

from krogh.theory import baselines, boolean, constructions, predictions
from krogh.theory.prediction import REQUIRED, Prediction, predict

__all__ = [
    "REQUIRED",
    "Prediction",
    "baselines",
    "boolean",
    "constructions",
    "predict",
    "predictions",
]
