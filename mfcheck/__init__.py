"""mfcheck: verify mean-field theories of attention, claim by claim."""
