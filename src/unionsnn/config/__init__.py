"""Requests: composed by Hydra, checked as a whole, before torch is imported."""
