"""mfcheck: verify mean-field theories of attention, claim by claim.

The public names load on first use, so that the pytest plugin costs nothing where no claim is checked.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfcheck.attention.optim import Langevin as Langevin
    from mfcheck.attention.particles import ParticleAttention as ParticleAttention
    from mfcheck.claim import Claim as Claim
    from mfcheck.claim import Control as Control
    from mfcheck.claim import Criterion as Criterion
    from mfcheck.claim import registry as registry
    from mfcheck.dynamics.fokker_planck import Grid as Grid
    from mfcheck.dynamics.fokker_planck import Solution as Solution
    from mfcheck.dynamics.fokker_planck import solve_fokker_planck as solve_fokker_planck
    from mfcheck.dynamics.langevin import Drift as Drift
    from mfcheck.dynamics.langevin import simulate as simulate
    from mfcheck.errors import InputError as InputError
    from mfcheck.feature_risk import FeatureRisk as FeatureRisk
    from mfcheck.functional import first_variation as first_variation
    from mfcheck.functional import velocity as velocity
    from mfcheck.measure import Measure as Measure
    from mfcheck.outcome import Outcome as Outcome
    from mfcheck.outcome import read_outcomes as read_outcomes
    from mfcheck.replicates import Replicates as Replicates
    from mfcheck.run import Plan as Plan
    from mfcheck.run import run as run
    from mfcheck.statistics.estimate import Estimate as Estimate
    from mfcheck.statistics.seeds import Stream as Stream
    from mfcheck.statistics.seeds import stream as stream
    from mfcheck.statistics.verdict import Region as Region
    from mfcheck.statistics.verdict import Verdict as Verdict
    from mfcheck.statistics.verdict import judge as judge

_HOME = {
    "mfcheck.attention.optim": ("Langevin",),
    "mfcheck.attention.particles": ("ParticleAttention",),
    "mfcheck.claim": ("Claim", "Control", "Criterion", "registry"),
    "mfcheck.dynamics.fokker_planck": ("Grid", "Solution", "solve_fokker_planck"),
    "mfcheck.dynamics.langevin": ("Drift", "simulate"),
    "mfcheck.errors": ("InputError",),
    "mfcheck.feature_risk": ("FeatureRisk",),
    "mfcheck.functional": ("first_variation", "velocity"),
    "mfcheck.measure": ("Measure",),
    "mfcheck.outcome": ("Outcome", "read_outcomes"),
    "mfcheck.replicates": ("Replicates",),
    "mfcheck.run": ("Plan", "run"),
    "mfcheck.statistics.estimate": ("Estimate",),
    "mfcheck.statistics.seeds": ("Stream", "stream"),
    "mfcheck.statistics.verdict": ("Region", "Verdict", "judge"),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}
__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'mfcheck' has no attribute {name!r}")
    return getattr(import_module(_MODULE[name]), name)


def __dir__() -> list[str]:
    return __all__
