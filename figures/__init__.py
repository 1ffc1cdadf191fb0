"""The convergence figures: one module a figure, reading outcomes only. `python -m figures` draws them all."""
