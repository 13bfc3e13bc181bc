"""Neural building blocks: gates, the plug-in, convolutions, encoders, readouts."""
