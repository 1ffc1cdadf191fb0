"""The toy gate."""
