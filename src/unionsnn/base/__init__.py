"""What every other package stands on: errors, files, processes, memory. Imports none of them."""
