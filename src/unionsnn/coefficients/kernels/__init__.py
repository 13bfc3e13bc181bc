"""Compiled kernels: the cost of an edge and the computation of its value."""
