"""Variable creation in self-attention: how many samples a sparse function costs (dissertation, chapter 4)."""
