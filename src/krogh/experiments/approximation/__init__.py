"""Networks written by hand, and how robust they are: circuits and Turing machines as weights (the SM paper)."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
