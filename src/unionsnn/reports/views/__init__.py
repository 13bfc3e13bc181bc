"""Output of the commands, one module each."""
