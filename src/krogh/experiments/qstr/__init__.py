"""Sparse token regression: when Transformers need fewer samples than feedforward and recurrent networks (qSTR)."""
