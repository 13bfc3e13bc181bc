"""Tables, one module for what is shown."""
