"""Graph files of users: one format a file, and what they have in common."""
