"""Hidden progress: SGD learns sparse parities near the computational limit (dissertation, chapter 5)."""

from krogh.experiments.parity import histogram, scaling, training_curves

__all__ = ["histogram", "scaling", "training_curves"]
