"""One module per question, one folder per chapter or paper. Importing this registers them all."""

from krogh.experiments import parity

__all__ = ["parity"]
