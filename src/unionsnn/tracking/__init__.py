"""Trackers, one module each: options, requirements, and logging of runs."""
