"""Networks, one a file; `mpnn` is the stack that they share."""
