"""How nonzeros are stored: formats of static extents that encode and decode matrices."""
