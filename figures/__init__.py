"""The convergence figures: one module a figure, reading outcomes only. `mfcheck figures` draws them."""
