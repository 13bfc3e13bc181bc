"""Compiled kernels: what one edge costs and how its number is computed."""
