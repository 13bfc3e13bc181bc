"""From a request to a record: configuration, tasks, protocols, runs."""
