"""What coefficients and trained networks tell apart."""
