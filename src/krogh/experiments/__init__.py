"""One module per question, one folder per chapter or paper; each experiment registers itself."""
