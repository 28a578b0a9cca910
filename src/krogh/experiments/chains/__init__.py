"""In-context learning of Markov chains (dissertation, chapter 8): which strategies networks pass through."""
