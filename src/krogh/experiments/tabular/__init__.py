"""Tables of real data: what width, depth and a sparse start do, and whether networks beat forests (6.4.2, C.3.3)."""
