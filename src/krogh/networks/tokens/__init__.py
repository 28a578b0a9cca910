"""Networks for token regression, written by hand (qSTR paper)."""
