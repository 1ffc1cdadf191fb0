"""Attention as particles for training: the module, the Langevin optimiser around any other, measures of diversity."""
