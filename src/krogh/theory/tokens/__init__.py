"""Token regression: what Transformers, recurrent and feedforward networks need for it."""
