"""Groups: characters and irreps, and the maximum margins of networks that compose them."""
