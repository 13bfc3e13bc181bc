"""Training of a repetition: tasks, protocols, callbacks, checkpoints, statistics."""
