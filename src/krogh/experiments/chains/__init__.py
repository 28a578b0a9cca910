"""In-context learning of Markov chains (dissertation, chapter 8): which strategies a network passes through, and why."""
