"""krogh: a laboratory for model systems of deep learning.

    import krogh

    trial = krogh.Trial(krogh.Parity(n=20, k=3), krogh.Mlp(width=100))
    table = krogh.run(krogh.sweep(trial, seed=range(100)))

The public names below are imported on first use, so that `krogh --help` does not wait for JAX.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "krogh.errors": ("KroghError", "require"),
    "krogh.tasks": (
        "BooleanTask",
        "CentredSquareLink",
        "CircuitFunction",
        "ClassificationTask",
        "DisjointParity",
        "Examples",
        "GroupComposition",
        "LinearLink",
        "MeanLink",
        "Parity",
        "ParityClasses",
        "ParityControl",
        "RidgeLink",
        "SparseBoolean",
        "SymbolTask",
        "Task",
        "TokenRegression",
        "TwoLayerLink",
        "circuit_function",
        "coherence",
        "gate",
        "paper_dimension",
        "sign_codes",
        "sparse_and",
        "sparse_or",
        "sparse_xor",
        "task",
    ),
    "krogh.models": (
        "AttentionBlocks",
        "AttentionMlp",
        "DisjointPolyNet",
        "Feedforward",
        "HomogeneousNetwork",
        "Learner",
        "LinearAttention",
        "LipschitzRnn",
        "MergedAttention",
        "Mlp",
        "Model",
        "Neuron",
        "PairNetwork",
        "ParityTransformer",
        "PolyNet",
        "PowerNetwork",
        "Recurrent",
        "ResidualRnn",
        "SparseTransformer",
        "StateSpace",
        "TokenAttention",
        "configuration",
        "model",
        "power_mlp",
    ),
    "krogh.training": (
        "Adam",
        "Constant",
        "Cosine",
        "EuclideanNorm",
        "FullBatch",
        "MARGIN_PRESETS",
        "MarginPreset",
        "NeuronNorm",
        "Offline",
        "Online",
        "Penalty",
        "Piecewise",
        "Population",
        "Sgd",
        "Stopping",
        "Training",
        "doublings",
    ),
    "krogh.probes": (
        "BatchLoss",
        "Error",
        "FourierPower",
        "IrrepPower",
        "Margin",
        "Moment",
        "Movement",
        "NeuronCounts",
        "NeuronEfficiency",
        "NeuronShares",
        "Probe",
        "SupportWeight",
        "frequency_kernels",
        "probe",
    ),
    "krogh.programs.automata": ("Automaton", "from_regex"),
    "krogh.programs.circuits": ("Circuit", "LayeredCircuit", "load_circuit"),
    "krogh.programs.groups": ("Group", "load_group"),
    "krogh.programs.machines": ("Machine", "load_machine"),
    "krogh.theory": ("predict",),
    "krogh.networks.automata": ("compile_automaton",),
    "krogh.networks.circuits": ("compile_circuit",),
    "krogh.networks.counting": ("compile_counting",),
    "krogh.networks.machines.compiled": ("compile_machine",),
    "krogh.engine": (
        "Drawn",
        "Given",
        "Inherited",
        "Pruning",
        "Trial",
        "Trials",
        "Weights",
        "run",
        "stack",
        "sweep",
    ),
    "krogh.lab": (
        "Chart",
        "Claim",
        "Claims",
        "Curve",
        "Estimate",
        "Experiment",
        "Figure",
        "Results",
        "Tables",
        "curves",
        "experiment",
        "groups",
        "judge_study",
        "need",
        "run_study",
        "setting",
        "times_of",
    ),
    "krogh.report": ("write_report",),
    "krogh.values": ("data", "structure"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'krogh' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
