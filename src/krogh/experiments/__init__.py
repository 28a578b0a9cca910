"""One module per question, one folder per chapter or paper. Importing this registers them all."""

from krogh.experiments import algebra, approximation, attention, parity, qstr

__all__ = ["algebra", "approximation", "attention", "parity", "qstr"]
