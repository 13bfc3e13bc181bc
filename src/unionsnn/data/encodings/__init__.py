"""Encodings of nodes, pairs of nodes and subgraphs."""
