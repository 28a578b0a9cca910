"""Addition, composition and parity on whole tables: features that follow from the largest margin (chapter 7)."""

from krogh.experiments.algebra import alternatives, certificates, cyclic, group, norms, parity_features, regularisation

__all__ = ["alternatives", "certificates", "cyclic", "group", "norms", "parity_features", "regularisation"]
