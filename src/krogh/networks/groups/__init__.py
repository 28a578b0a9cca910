"""Networks that compose groups or multiply bits, as arrays, with their margins and certificates of maximum margin."""
