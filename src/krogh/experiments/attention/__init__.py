"""Variable creation in self-attention: how many samples a sparse function costs (dissertation, chapter 4)."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
