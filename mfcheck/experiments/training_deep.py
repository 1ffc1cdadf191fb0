"""Family G, deep residual attention without noise: the loss decays at the tangent kernel's rate at the end (G3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from mfcheck.experiments.batches import in_batches
from mfcheck.replicates import Measurements, Replicates

#: A loss below this share of its start is summed from residuals of 1e-10 of theirs, well above their rounding.
FLOOR = 1e-20
#: What a loss in double precision may come to rest at, over its start: it can be exactly 0.
ROUNDING = 1e-32


@dataclass(frozen=True, eq=False)
class Networks:
    """S networks of L residual layers with M heads each, and the n inputs (sequences) that each is trained on.

    theta [S, L, M, p]; tokens [S, n, N, d]; readout [d]: the output is readout . x for the first token after the last
    layer; targets [S, n].
    """

    theta: Float[Tensor, "S L M p"]
    tokens: Float[Tensor, "S n N d"]
    readout: Float[Tensor, " d"]
    targets: Float[Tensor, "S n"]

    def outputs(self, theta: Float[Tensor, "S L M p"]) -> Float[Tensor, "S n"]:
        """f(x_1), ..., f(x_n) of every network."""
        layers = theta.shape[1]
        x = self.tokens
        for layer in range(layers):
            x = x + self.velocity(theta[:, layer], x) / layers
        return x[..., 0, :] @ self.readout

    def velocity(self, theta: Float[Tensor, "S M p"], x: Float[Tensor, "S n N d"]) -> Float[Tensor, "S n N d"]:
        """The mean over the heads of a layer, for softmax heads theta = (A, V) with logits x' A y.

        `token_velocity` of that head in a third of its calls: at these sizes the calls are the cost.
        """
        systems, inputs, tokens, d = x.shape
        heads = theta.shape[1]
        logit, value = theta.reshape(systems, heads, 2, d, d).unbind(2)
        # all heads side by side: [d, M d] makes what each of them looks for, [M d, d] what it returns
        seen = x.reshape(systems, inputs * tokens, d) @ logit.permute(0, 2, 1, 3).reshape(systems, d, heads * d)
        shares = torch.softmax(seen.reshape(systems, inputs, tokens * heads, d) @ x.mT, -1)
        read = (shares @ x).reshape(systems, inputs * tokens, heads * d)
        returned = read @ value.permute(0, 1, 3, 2).reshape(systems, heads * d, d)
        return returned.reshape(x.shape) / heads

    def loss(self, theta: Float[Tensor, "S L M p"]) -> Float[Tensor, " S"]:
        """sum_i (f(x_i) - y_i)^2 / (2 n)."""
        return 0.5 * (self.outputs(theta) - self.targets).square().mean(-1)

    def drift(self, theta: Float[Tensor, "S L M p"]) -> tuple[Float[Tensor, "S L M p"], Float[Tensor, " S"]]:
        """Minus the gradient in the mean-field scaling, and the loss.

        A head's share of the output is 1 / (L M): the gradient is multiplied by it, as M is for one layer (claim K1).
        """
        leaf = theta.detach().requires_grad_(True)
        loss = self.loss(leaf)
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        return gradient * -self.scale, loss.detach()

    def tangent_kernel(self, theta: Float[Tensor, "S L M p"]) -> Float[Tensor, "S n n"]:
        """K_ij = L M <df(x_i)/dtheta, df(x_j)/dtheta>: under the drift f' = -K (f - y) / n."""
        leaf = theta.detach().requires_grad_(True)
        outputs = self.outputs(leaf)
        columns = [
            torch.autograd.grad(outputs[:, i].sum(), leaf, retain_graph=True)[0].flatten(1)
            for i in range(outputs.shape[1])
        ]
        jacobian = torch.stack(columns, 1)
        return self.scale * jacobian @ jacobian.mT

    @property
    def scale(self) -> int:
        """L M."""
        return self.theta.shape[1] * self.theta.shape[2]


@in_batches(32)
def deep_training(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """G3: gradient descent of deep attention networks, a replicate a network with inputs and targets of its own.

    settings: inputs n, tokens N, dimension d, layers L, heads M, step dt, steps, target_scale; equal_inputs: the first
    two inputs are one, with targets +-target_scale; kernel: "end" or "start", whose least eigenvalue predicts.
    Measures loss [n, steps + 1]; rate [n], the loss's decay at the end; predicted [n] = -2 ln(1 - dt
    lambda_min / n) / dt, that of the descent, and predicted_flow [n] = 2 lambda_min / n; moved [n], lambda_min at the
    end over that at the start; final [n], the last loss over the first (at least ROUNDING); stall [n], the last loss
    over (y_0 - y_1)^2 / (4 n), to which equal inputs hold it.
    """
    networks = _networks(settings, replicates)
    step = settings["step"]
    theta = networks.theta.clone()
    records = []
    for _ in range(settings["steps"]):
        drift, loss = networks.drift(theta)
        records.append(loss)
        theta = theta + step * drift
    records.append(networks.loss(theta))
    losses = torch.stack(records, -1).cpu().numpy()
    least = {
        name: torch.linalg.eigvalsh(networks.tangent_kernel(where))[:, 0].cpu().numpy()
        for name, where in (("start", networks.theta), ("end", theta))
    }
    count = settings["inputs"]
    eigenvalue = least[settings["kernel"]]
    targets = networks.targets.cpu().numpy()
    return {
        "loss": losses,
        "rate": _tail_rate(losses, step),
        "predicted": -2 * np.log1p(-step * eigenvalue / count) / step,
        "predicted_flow": 2 * eigenvalue / count,
        "moved": least["end"] / least["start"],
        "final": np.maximum(losses[:, -1] / losses[:, 0], ROUNDING),
        "stall": losses[:, -1] / ((targets[:, 0] - targets[:, 1]) ** 2 / (4 * count)),
    }


def _tail_rate(losses: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """-d log(loss)/ds between the last loss above FLOOR of the start's and the last that is 1000 times that one."""
    rows = np.arange(len(losses))

    def last_above(level: NDArray[np.float64]) -> NDArray[np.intp]:
        return losses.shape[1] - 1 - (losses[:, ::-1] > level[:, None]).argmax(-1)

    end = last_above(FLOOR * losses[:, 0])
    begin = np.minimum(last_above(1e3 * losses[rows, end]), end - 1)
    return np.log(losses[rows, begin] / losses[rows, end]) / (step * (end - begin))


def _networks(settings: Mapping[str, Any], replicates: Replicates) -> Networks:
    n, count, d = settings["inputs"], settings["tokens"], settings["dimension"]
    thetas, tokens, targets = [], [], []
    for replicate in replicates:
        generator = replicates.stream.child("network", replicate).torch()

        def normal(*shape: int, source: torch.Generator = generator) -> Tensor:
            return torch.randn(*shape, generator=source, dtype=torch.float64)

        thetas.append(normal(settings["layers"], settings["heads"], 2 * d * d))
        tokens.append(normal(n, count, d))
        targets.append(settings["target_scale"] * normal(n))
    inputs, wanted = torch.stack(tokens), torch.stack(targets)
    if settings["equal_inputs"]:
        inputs[:, 1] = inputs[:, 0]
        # drawn ones may happen to agree, and nothing would stall
        wanted[:, 0], wanted[:, 1] = settings["target_scale"], -settings["target_scale"]
    readout = torch.full((d,), d**-0.5, dtype=torch.float64)
    values = (torch.stack(thetas), inputs, readout, wanted)
    return Networks(*(value.to(replicates.device) for value in values))
