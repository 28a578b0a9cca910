"""Sparse token regression: when Transformers need fewer samples than feedforward and recurrent networks (qSTR)."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
