"""Functions of bits and parities of few of them: Fourier analysis, limits on learning, exact laws of training."""
