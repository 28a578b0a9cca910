"""What is known before anything is trained: theorems as functions that return numbers, and what they compute with.

    boolean/    parities and other functions of bits: Fourier analysis, limits on learning, exact laws of training
    groups/     characters and irreps; maximum margins of networks that compose a group
    attention/  Lipschitz constants, covering numbers and generalisation of attention; limits on sparse functions
    tokens/     token regression: what Transformers, recurrent and feedforward networks need
    recurrence/ random recurrent networks, and what SGD learns from them: complexity of functions, bounds, floors
    chains/     in-context Markov chains: Bayes predictors, the first steps of training, loss floors
    programs/   all-layer margins, and the samples that they ask for

    numerics    logarithms of counts, softmax, norms, float64 in JAX
    prediction  what a prediction is, and what it checks of its settings

A function becomes a prediction by the decorator `prediction`, which registers it. All computes in float64.
"""

from krogh.signature import REQUIRED
from krogh.theory.prediction import Prediction, predict, prediction

__all__ = ["REQUIRED", "Prediction", "predict", "prediction"]
