"""Networks, one per file; `mpnn` is the stack that most of them share."""
