"""One module per question, one folder per chapter or paper. Importing this registers them all."""

from krogh.experiments import attention, parity, qstr

__all__ = ["attention", "parity", "qstr"]
