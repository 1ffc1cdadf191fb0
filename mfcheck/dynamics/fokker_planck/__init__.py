"""Fokker-Planck equations on a grid: a certified solver, its parts, and its equilibria."""

from mfcheck.dynamics.fokker_planck.energy import Dissipation, dissipation, free_energy
from mfcheck.dynamics.fokker_planck.equilibrium import gibbs, gibbs_fixed_point
from mfcheck.dynamics.fokker_planck.exponential import propagate
from mfcheck.dynamics.fokker_planck.gap import spectral_gap
from mfcheck.dynamics.fokker_planck.generator import bernoulli, generator
from mfcheck.dynamics.fokker_planck.grid import Grid
from mfcheck.dynamics.fokker_planck.single import solve_on_grid
from mfcheck.dynamics.fokker_planck.solution import Solution
from mfcheck.dynamics.fokker_planck.solve import solve_fokker_planck
from mfcheck.dynamics.fokker_planck.stochastic import stochastic_exponential

__all__ = [
    "Dissipation",
    "Grid",
    "Solution",
    "bernoulli",
    "dissipation",
    "free_energy",
    "generator",
    "gibbs",
    "gibbs_fixed_point",
    "propagate",
    "solve_fokker_planck",
    "solve_on_grid",
    "spectral_gap",
    "stochastic_exponential",
]
