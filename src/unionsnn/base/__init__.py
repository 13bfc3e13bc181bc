"""Foundations of all other packages: errors, files, processes, memory. Imports none of them."""
