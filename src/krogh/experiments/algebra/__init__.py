"""Addition, composition and parity on whole tables: features that follow from the largest margin (chapter 7)."""
