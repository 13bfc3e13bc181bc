"""Data sets: where they come from, how they are read, split and batched."""
