"""Weights written down in closed form, each with the statement it satisfies and a checker for it."""
