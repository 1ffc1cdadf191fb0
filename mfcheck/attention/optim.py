"""Langevin: any torch optimiser's step for the drift, then Gaussian noise on the particles' parameters alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import LBFGS, Optimizer

from mfcheck.attention.effective_step import EffectiveStep, known_effective_step
from mfcheck.attention.noise import add_noise
from mfcheck.attention.particles import ParticleAttention
from mfcheck.attention.records import Made, StepRecord, full, numbers, written
from mfcheck.dynamics.schedules import Schedule, as_schedule
from mfcheck.errors import InputError
from mfcheck.statistics.seeds import Stream

SCALINGS = ("raw", "mean_field")
NOISES = ("isotropic", "preconditioned")


class Langevin(Optimizer):
    """theta <- base optimiser's step of theta, then + sqrt(2 beta_k eta) xi for the particles; the rest as the base.

    base: an optimiser over all parameters, with a learning rate eta in every group; its groups, state and options stay
    its own, and schedulers, gradient clipping and GradScaler see them through this one. particles: ParticleAttention
    layers, or parameters whose leading axis counts the particles. beta: >= 0, or a schedule k -> beta_k, k counting the
    steps made. A parameter without a gradient is left alone, by the base and by the noise.

    scaling, with g_i = dR/dtheta_i as autograd returns it, M times smaller than the drift of the PDE:
    - "mean_field": the base is given M g_i, M the layer's particle count (or `count`). Under SGD it samples at
      temperature beta. The base's own weight decay is not multiplied: it is the PDE's lambda.
    - "raw": the base is given g_i. Under SGD it samples at M beta: raw(eta, beta) is mean_field(eta / M, M beta).
    The trap: Adam divides by the gradient's own scale, so that M g_i and g_i make the same step up to eps, and with
    isotropic noise the two scalings are one and the same update. Neither of them is then the PDE's.

    noise, xi standard normal, and what is sampled as eta -> 0:
    - "isotropic", sqrt(2 beta eta) xi. SGD: exp(-U/beta); with momentum mu the drift and not the noise is multiplied by
      1 / (1 - mu), which is temperature (1 - mu) beta. Adam: not a Gibbs law. Where its v is frozen, a coordinate has
      temperature beta (sqrt(v) + eps); on a quadratic with beta1 = 0, beta2 near 1 the stationary standard deviation is
      beta + eta/2 whatever the curvature.
    - "preconditioned", sqrt(2 beta eta_eff) xi with the effective step eta_eff of that very coordinate and step (Adam:
      eta / (sqrt(v_hat) + eps)). exp(-U/beta) as beta2 -> 1; the drift that a varying eta_eff would need (the
      divergence term of pSGLD) is left out, as it is there. Here U is M times larger under mean_field scaling than
      under raw, in the noise if not in the drift. For SGD it is the isotropic noise.

    seed (or a generator of your own): the noise's alone, so that it depends on neither data nor initialisation; one
    generator a device, saved in state_dict: a resumed run goes on bitwise. Equal seeds draw equal noise on every rank.
    At beta_k = 0 nothing is drawn, and the step is the base's to the bit. Noise smaller than a parameter's rounding is
    lost: keep the particles in float32 (autocast does). effective_step: that of a base optimiser not known here.
    record_every: which steps leave a StepRecord in `records`; 0 for none.

    Raises InputError: no learning rate, particles not among the base's parameters, negative beta, closures (a base
    that evaluates one several times would see the noise of none).
    Source: Welling and Teh 2011 (SGLD); Li et al. 2016, arXiv:1512.07666 (pSGLD); Kingma and Ba 2015 (Adam).
    """

    def __init__(
        self,
        base: Optimizer,
        particles: ParticleAttention | Parameter | Iterable[ParticleAttention | Parameter],
        beta: float | Schedule | Callable[[int], float],
        *,
        scaling: str = "raw",
        noise: str = "isotropic",
        seed: int | Stream = 0,
        generator: torch.Generator | None = None,
        count: int | None = None,
        effective_step: EffectiveStep | None = None,
        record_every: int = 1,
    ) -> None:
        _check_base(base)
        for name, value, known in (("scaling", scaling, SCALINGS), ("noise", noise, NOISES)):
            if value not in known:
                raise InputError(f"{name} is one of {', '.join(known)}; it came as {value!r}")
        if isinstance(seed, bool) or not isinstance(seed, (int, Stream)):
            raise InputError(f"the seed is a whole number or a Stream; it came as {seed!r}")
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise InputError(f"count is how many particles a parameter holds, >= 1; it came as {count!r}")
        if isinstance(record_every, bool) or not isinstance(record_every, int) or record_every < 0:
            raise InputError(f"record_every is a whole number >= 0; it came as {record_every!r}")
        effective = effective_step or known_effective_step(base)
        if noise == "preconditioned" and effective is None:
            raise InputError(f"the effective step of {type(base).__name__} is not known here; give effective_step")
        self.base = base
        self.scaling, self.noise, self.record_every = scaling, noise, record_every
        self.schedule = as_schedule(beta)
        self._beta(0)
        self._counts = _particle_counts(particles, base, count)
        self._effective = effective
        self._seed = seed if isinstance(seed, Stream) else Stream(seed, ("langevin",))
        self._generators = {} if generator is None else {_key(generator.device): generator}
        self._given = generator is not None
        self._loaded: dict[str, Tensor] = {}
        self._scratch: dict[torch.dtype, Tensor] = {}
        self._kept: list[tuple[Made, Tensor]] = []
        self.steps_made = 0
        #: sum_k beta_k eta_k so far, by parameter group.
        self.exposure = [0.0] * len(base.param_groups)
        self.defaults = base.defaults
        # not Optimizer.__init__, which would make groups of its own: this adds the hooks that every optimiser has
        self.__setstate__({})

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The base optimiser's parameter groups, themselves: what a scheduler changes here, it changes there."""
        return self.base.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.base.param_groups = groups

    @property
    def state(self) -> Any:
        """The base optimiser's state, by parameter."""
        return self.base.state

    @state.setter
    def state(self, state: Any) -> None:
        self.base.state = state

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """The base optimiser's step, then the noise. Raises InputError on a closure or a schedule's negative beta."""
        if closure is not None:
            raise InputError("Langevin makes one step from the gradients that are there; it takes no closure")
        beta = self._beta(self.steps_made)
        moved = [
            [parameter for parameter in group["params"] if parameter in self._counts and parameter.grad is not None]
            for group in self.param_groups
        ]
        self._drift([parameter for group in moved for parameter in group])
        for index, parameters in enumerate(moved):
            if parameters:
                self._diffuse(index, parameters, beta)
        self.steps_made += 1

    @property
    def records(self) -> list[StepRecord]:
        """One StepRecord for every recorded step and every group that holds particles, oldest first."""
        return [written(*kept) for kept in self._kept]

    def clear_records(self) -> None:
        """Forgets the records, so that a long run can write them out and go on."""
        self._kept.clear()

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.base.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group to the base optimiser; its parameters are no particles."""
        self.base.add_param_group(param_group)
        self.exposure.append(0.0)

    def state_dict(self) -> dict[str, Any]:
        """The base optimiser's state_dict and, under "langevin", steps made, exposure and generators (no records)."""
        generators = self._loaded | {key: generator.get_state() for key, generator in self._generators.items()}
        own = {"steps_made": self.steps_made, "exposure": list(self.exposure), "generators": generators}
        return self.base.state_dict() | {"langevin": own}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes up where `state_dict` was called. Raises InputError on the state of a bare optimiser."""
        if "langevin" not in state_dict:
            raise InputError(f"a state of Langevin has an entry 'langevin'; this one has {sorted(state_dict)}")
        self.base.load_state_dict({key: value for key, value in state_dict.items() if key != "langevin"})
        own = state_dict["langevin"]
        self.steps_made, self.exposure = int(own["steps_made"]), list(own["exposure"])
        # a generator's state is a CPU tensor even where the run's tensors were mapped elsewhere
        self._loaded = {key: state.cpu() for key, state in own["generators"].items()}
        for key, generator in self._generators.items():
            if key in self._loaded:
                generator.set_state(self._loaded.pop(key))

    def __getstate__(self) -> dict[str, Any]:
        # without the hooks and the step that a scheduler wraps: __setstate__ makes them anew
        return {key: value for key, value in self.__dict__.items() if key != "step" and "_hooks" not in key}

    def _drift(self, parameters: list[Parameter]) -> None:
        if self.scaling == "raw" or not parameters:
            self.base.step()
            return
        given = [parameter.grad for parameter in parameters]
        try:
            for parameter in parameters:
                assert parameter.grad is not None
                parameter.grad = parameter.grad * self._counts[parameter]
            self.base.step()
        finally:
            for parameter, gradient in zip(parameters, given, strict=True):
                parameter.grad = gradient

    def _diffuse(self, index: int, parameters: list[Parameter], beta: float) -> None:
        group = self.param_groups[index]
        eta = float(group["lr"])
        self.exposure[index] += beta * eta
        record = self.record_every > 0 and self.steps_made % self.record_every == 0
        preconditioned = self.noise == "preconditioned"
        steps: list[Tensor | float] = []
        if self._effective is not None and (record or (preconditioned and beta > 0)):
            steps = [self._effective(self.base, group, parameter) for parameter in parameters]
        squares: list[Tensor] = []
        if beta > 0:
            for alike in _alike(parameters):
                variance: float | list[Tensor] = 2 * beta * eta
                if preconditioned:
                    variance = [full(steps[j], parameters[j]) * (2 * beta) for j in alike]
                chosen = [parameters[j] for j in alike]
                generator = self._generator(chosen[0].device)
                squares += add_noise(chosen, variance, generator, scratch=self._scratch, measure=record)
        if record:
            made = Made(self.steps_made, index, beta, eta, sum(parameter.numel() for parameter in parameters))
            self._kept.append((made, numbers(made, steps, parameters, squares, preconditioned)))

    def _beta(self, k: int) -> float:
        beta = self.schedule(k)
        if not (math.isfinite(beta) and beta >= 0):
            raise InputError(f"beta is finite and >= 0; schedule {self.schedule.name!r} gives {beta} at step {k}")
        return beta

    def _generator(self, device: torch.device) -> torch.Generator:
        key = _key(device)
        if key not in self._generators:
            if self._given:
                raise InputError(f"a particle is on {device}, the generator given on {', '.join(self._generators)}")
            generator = self._seed.torch(device)
            if key in self._loaded:
                generator.set_state(self._loaded.pop(key))
            self._generators[key] = generator
        return self._generators[key]


def _check_base(base: object) -> None:
    if not isinstance(base, Optimizer):
        raise InputError(f"the base of Langevin is a torch optimiser; it came as {type(base).__name__}")
    if isinstance(base, LBFGS):
        raise InputError("LBFGS evaluates a closure several times a step; Langevin makes one step from one gradient")
    for index, group in enumerate(base.param_groups):
        if "lr" not in group:
            raise InputError(
                f"the noise's variance is 2 beta eta, eta the base optimiser's lr; group {index} of "
                f"{type(base).__name__} has only {sorted(set(group) - {'params'})}"
            )


def _particle_counts(particles: object, base: Optimizer, count: int | None) -> dict[Parameter, int]:
    """M of every particle parameter, in the order given."""
    listed = [particles] if isinstance(particles, (ParticleAttention, Tensor)) else list(particles)  # type: ignore[call-overload]
    counts: dict[Parameter, int] = {}
    for item in listed:
        if isinstance(item, ParticleAttention):
            counts |= dict.fromkeys(item.particle_parameters(), count or item.num_heads)
        elif isinstance(item, Tensor):
            # a parameter without axes is a single particle
            counts[item] = count or (item.shape[0] if item.ndim else 1)  # type: ignore[index]
        else:
            raise InputError(f"particles are ParticleAttention layers or parameters; one came as {type(item).__name__}")
    held = {parameter for group in base.param_groups for parameter in group["params"]}
    missing = [tuple(parameter.shape) for parameter in counts if parameter not in held]
    if missing or not counts:
        what = f"those of shapes {missing} are not" if missing else "none was given"
        raise InputError(f"the particles are among the base optimiser's parameters; {what}")
    return counts


def _alike(parameters: list[Parameter]) -> list[list[int]]:
    """Indices of parameters of one device and dtype, together."""
    kinds: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for j, parameter in enumerate(parameters):
        kinds.setdefault((parameter.device, parameter.dtype), []).append(j)
    return list(kinds.values())


def _key(device: torch.device) -> str:
    return str(device) if device.type == "cpu" or device.index is not None else f"{device.type}:0"
