"""Data sets: sources, reading, splits and batches."""
