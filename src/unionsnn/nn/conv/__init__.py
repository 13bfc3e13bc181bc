"""Message-passing operators, one per file."""
