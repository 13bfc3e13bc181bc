"""Trackers, one module each: what they can be told, what they need, and how a run is kept."""
