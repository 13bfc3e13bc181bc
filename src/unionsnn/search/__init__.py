"""Hyper-parameter studies: Optuna trials over composed configurations."""
