"""What recurrent networks learn: token sums, functions of the whole sequence, inversion; trained and executed."""
