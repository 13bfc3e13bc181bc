"""Message-passing operators, one a file."""
