"""Experiment trackers: W&B, TensorBoard, MLflow."""
