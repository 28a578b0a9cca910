"""Networks written by hand, and how robust they are: circuits and Turing machines as weights (the SM paper)."""
