"""Statistically meaningful approximation: all-layer margins, and the samples that they ask for."""
