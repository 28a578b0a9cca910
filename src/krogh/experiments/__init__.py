"""One module per question, one folder per chapter or paper. Importing this registers them all."""

from krogh.experiments import algebra, attention, parity, qstr

__all__ = ["algebra", "attention", "parity", "qstr"]
