"""Hidden progress: SGD learns sparse parities near the computational limit (dissertation, chapter 5)."""
