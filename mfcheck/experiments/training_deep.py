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
#: Below this share of its start a network's loss has shown what FLOOR asks for: it is trained no further.
DONE = 1e-22
#: Steps between two looks for networks that are done.
LOOK_EVERY = 100


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
            # of the last layer the first token alone is read
            moved = x if layer < layers - 1 else x[..., :1, :]
            x = moved + self.velocity(theta[:, layer], x, moved) / layers
        return x[..., 0, :] @ self.readout

    def velocity(
        self, theta: Float[Tensor, "S M p"], x: Float[Tensor, "S n N d"], at: Float[Tensor, "S n k d"]
    ) -> Float[Tensor, "S n k d"]:
        """The mean over the heads of a layer at places, for softmax heads theta = (A, V) with logits x' A y.

        `token_velocity` of that head in a third of its calls: at these sizes the calls are the cost.
        """
        systems, inputs, places, d = at.shape
        heads = theta.shape[1]
        logit, value = theta.reshape(systems, heads, 2, d, d).unbind(2)
        # all heads side by side: [d, M d] makes what each of them looks for, [M d, d] what it returns
        seen = at.reshape(systems, inputs * places, d) @ logit.permute(0, 2, 1, 3).reshape(systems, d, heads * d)
        # tokens before places: a softmax over the last axis, of a few tokens, costs as much as all the rest
        shares = torch.softmax(x @ seen.reshape(systems, inputs, places * heads, d).mT, -2)
        read = (shares.mT @ x).reshape(systems, inputs * places, heads * d)
        returned = read @ value.permute(0, 1, 3, 2).reshape(systems, heads * d, d)
        return returned.reshape(at.shape) / heads

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

    def some(self, chosen: Tensor) -> Networks:
        """The networks that a mask [S] or indices choose."""
        return Networks(self.theta[chosen], self.tokens[chosen], self.readout, self.targets[chosen])

    @property
    def scale(self) -> int:
        """L M."""
        return self.theta.shape[1] * self.theta.shape[2]


@in_batches(96)
def deep_training(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """G3: gradient descent of deep attention networks, a replicate a network with inputs and targets of its own.

    At the end every mode of the outputs is multiplied by 1 - dt lambda_k / n a step. The least eigenvalue decides where
    dt (lambda_min + lambda_max) / n < 2; nearer to 2, the edge of stability, the largest one does: descent takes
    kernels there that grow (the rate of such a network is -2 ln |1 - dt lambda_max / n| / dt, to 1e-4).

    settings: inputs n, tokens N, dimension d, layers L, heads M, step dt, steps, target_scale; equal_inputs: the first
    two inputs are one, with targets +-target_scale; kernel: "end" or "start", whose least eigenvalue predicts.
    Measures loss [n, steps + 1] (constant from where a network was done); rate [n], the loss's decay at the end;
    predicted [n] = -2 ln(1 - dt lambda_min / n) / dt, that of the descent, and predicted_flow [n] = 2 lambda_min / n;
    moved [n], lambda_min at the end over that at the start; stiffness [n] = dt lambda_max / n at the end; final [n],
    the last loss over the first; stall [n], the last loss over (y_0 - y_1)^2 / (4 n), to which equal inputs hold it.
    """
    networks = _networks(settings, replicates)
    step = settings["step"]
    theta, losses = _descent(networks, step, settings["steps"])
    spectra = {
        name: torch.linalg.eigvalsh(networks.tangent_kernel(where)).cpu().numpy()
        for name, where in (("start", networks.theta), ("end", theta))
    }
    least = {name: eigenvalues[:, 0] for name, eigenvalues in spectra.items()}
    count = settings["inputs"]
    eigenvalue = least[settings["kernel"]]
    targets = networks.targets.cpu().numpy()
    return {
        "loss": losses,
        "rate": _tail_rate(losses, step),
        "predicted": -2 * np.log1p(-step * eigenvalue / count) / step,
        "predicted_flow": 2 * eigenvalue / count,
        "moved": least["end"] / least["start"],
        "stiffness": step * spectra["end"][:, -1] / count,
        "final": losses[:, -1] / losses[:, 0],
        "stall": losses[:, -1] / ((targets[:, 0] - targets[:, 1]) ** 2 / (4 * count)),
    }


def _descent(networks: Networks, step: float, steps: int) -> tuple[Tensor, NDArray[np.float64]]:
    """theta after the steps [S, L, M, p] and the losses [S, steps + 1]; a network that is done leaves the batch.

    Whether it is done is seen from its own loss, so that a network ends the same alone and in any batch.
    """
    final = networks.theta.clone()
    first = networks.loss(final).detach()
    losses = first.new_empty(len(first), steps + 1)
    rows = torch.arange(len(first), device=final.device)
    active, theta = networks, networks.theta
    for k in range(steps):
        drift, loss = active.drift(theta)
        if k % LOOK_EVERY == 0:
            going = loss > DONE * first[rows]
            if not bool(going.all()):
                final[rows] = theta
                losses[rows[~going], k:] = loss[~going, None]
                rows, theta, drift, loss = rows[going], theta[going], drift[going], loss[going]
                active = active.some(going)
                if not len(rows):
                    break
        losses[rows, k] = loss
        theta = theta + step * drift
    if len(rows):
        final[rows] = theta
        losses[rows, -1] = active.loss(theta)
    return final, losses.cpu().numpy()


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
    # on a sphere, as a normalisation leaves them: a few long tokens would make a kernel as stiff as a step allows
    inputs = inputs * (d**0.5 / inputs.norm(dim=-1, keepdim=True))
    if settings["equal_inputs"]:
        inputs[:, 1] = inputs[:, 0]
        # drawn ones may happen to agree, and nothing would stall
        wanted[:, 0], wanted[:, 1] = settings["target_scale"], -settings["target_scale"]
    readout = torch.full((d,), d**-0.5, dtype=torch.float64)
    values = (torch.stack(thetas), inputs, readout, wanted)
    return Networks(*(value.to(replicates.device) for value in values))
