"""Attention: Lipschitz constants, covering numbers, generalisation, and limits on sparse functions of a context."""
