"""Addition, composition and parity on whole tables: features that follow from the largest margin (chapter 7)."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
