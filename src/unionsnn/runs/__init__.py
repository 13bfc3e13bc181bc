"""Experiments: repetitions trained, recorded, resumed, compared."""
