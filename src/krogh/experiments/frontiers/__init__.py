"""Pareto frontiers of feature learning: data, width, steps and luck (dissertation, chapter 6)."""
