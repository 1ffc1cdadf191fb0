"""Many models at once are the models one at a time, and a seed's numbers are its own."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch import nn

from mfcheck.errors import InputError
from mfcheck.experiments.toy_gate.arms import ARMS, RECIPE, Arm, Recipe
from mfcheck.experiments.toy_gate.layer import Memory, Models, loss_and_gradient
from mfcheck.experiments.toy_gate.metrics import classify, look
from mfcheck.experiments.toy_gate.seeds import run_seeds
from mfcheck.experiments.toy_gate.task import Task, draw, frame
from mfcheck.experiments.toy_gate.training import QUANTILES, batches, initial, seed, shape_of, train
from mfcheck.statistics.seeds import stream
from tests.experiments.toy_gate.sequential import Classifier, train_one

TASK = Task(training=96, validation=32)
SHORT = Recipe(batch=32, steps=40)
SOURCE = stream(0, "toy gate tests")
ARM_KINDS = [
    [Arm(), Arm(0.005), Arm(0.005, annealed=True)],
    [Arm(optimizer="adam"), Arm(0.3, optimizer="adam")],
    [Arm(heads="ordinary"), Arm(0.005, heads="ordinary")],
    [Arm(0.005, scaling="mean_field"), Arm(0.04, scaling="mean_field", mirrored=True)],
]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("arms", ARM_KINDS, ids=["sgd", "adam", "ordinary", "mean field"])
def test_a_batch_agrees_with_the_sequential_run(arms: list[Arm], dtype: torch.dtype, tolerance: float) -> None:
    """Rounding is all that may differ: by 1e-12 and 1e-5 of the losses and of the largest parameter."""
    seeds = [seed(TASK, SOURCE.child(k), dtype) for k in range(2)]
    pairs = [(k, arm) for k in range(2) for arm in arms]
    made = train(TASK, SHORT, seeds, pairs)
    for place, (k, arm) in enumerate(pairs):
        if arm.mirrored:
            continue  # the sequential run knows no mirror; test_mirrored_noise
        model, losses = train_one(TASK, SHORT, seeds[k], arm)
        assert torch.allclose(made.losses[:, place], torch.tensor(losses, dtype=dtype), rtol=0, atol=tolerance)
        size = float(model.theta.detach().abs().max())
        assert float((made.models.theta[:, place] - model.theta.detach()).abs().max()) <= tolerance * size
        weight = made.models.split(made.shape)[2][place]
        assert float((weight - model.linear.weight.T.detach()).abs().max()) <= tolerance


def test_the_gradient_is_autograds() -> None:
    shape = shape_of(TASK, SHORT, "particles")
    start = initial(TASK, SHORT, "particles", SOURCE)
    sample = draw(TASK, 10, SOURCE.child("gradient"))
    memory = Memory(shape, 1, 10, TASK.tokens, sample.tokens)
    loss = loss_and_gradient(start, shape, sample.tokens[None], sample.labels[None, :, None], memory)
    model = Classifier(start, shape)
    expected = nn.functional.cross_entropy(model(sample.tokens), sample.labels)
    expected.backward()
    assert float(loss) == pytest.approx(float(expected), abs=1e-14)
    assert model.theta.grad is not None
    # every entry of every parameter; sums of a few hundred terms of size 0.1
    assert torch.allclose(memory.grad.theta[:, 0], model.theta.grad, rtol=0, atol=1e-15)
    norm_weight, norm_bias, weight, bias = memory.grad.split(shape)
    for mine, theirs in (
        (norm_weight, model.norm.weight.grad),
        (norm_bias, model.norm.bias.grad),
        (weight.mT, model.linear.weight.grad),
        (bias, model.linear.bias.grad),
    ):
        assert theirs is not None and torch.allclose(mine[0], theirs, rtol=0, atol=1e-15)


def test_ordinary_heads_are_multihead_attention() -> None:
    shape, d = shape_of(TASK, RECIPE, "ordinary"), TASK.width
    start = initial(TASK, RECIPE, "ordinary", SOURCE)
    attention = nn.MultiheadAttention(d, RECIPE.particles, bias=False, batch_first=True, dtype=torch.float64)
    query, key, value, output = start.theta[:, 0]
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([w.transpose(1, 2).flatten(0, 1) for w in (query, key, value)]))
        attention.out_proj.weight.copy_(output.transpose(0, 1).flatten(1))
    x = draw(TASK, 5, SOURCE.child("ordinary")).tokens
    view = look(start, shape, x[None])
    assert torch.allclose(view.shares[0].sum(0), attention(x, x, x)[0], rtol=0, atol=1e-14)
    # and they start as torch starts them: uniform with these bounds
    theirs = nn.MultiheadAttention(d, RECIPE.particles, bias=False)
    for mine, bound in ((start.theta[:3], math.sqrt(6 / (4 * d))), (output, 1 / math.sqrt(d))):
        assert 0.97 * bound < float(mine.abs().max()) <= bound
    assert float(theirs.in_proj_weight.abs().max()) <= math.sqrt(6 / (4 * d))
    assert float(theirs.out_proj.weight.abs().max()) <= 1 / math.sqrt(d)


def test_a_seed_does_not_depend_on_who_is_trained_beside_it() -> None:
    arms = {name: ARMS[name] for name in ("beta 0", "beta 0.005", "noise after, 0.005", "norms of 0.005")}
    options = {"task": TASK, "recipe": SHORT, "dtype": torch.float64}
    together = run_seeds(arms, [SOURCE.child(k) for k in range(3)], **options)
    (alone,) = run_seeds(arms, [SOURCE.child(2)], **options)
    fewer = {name: arms[name] for name in ("beta 0.005",)}
    (single,) = run_seeds(fewer, [SOURCE.child(2)], **options)
    for arm, numbers in alone.items():
        for metric, value in numbers.items():
            # numbers are kept to seven digits
            assert together[2][arm][metric] == pytest.approx(value, rel=3e-7, abs=1e-12), (arm, metric)
    assert single["beta 0.005"]["loss"] == pytest.approx(alone["beta 0.005"]["loss"], rel=3e-7)


def test_arms_of_a_seed_share_samples_initial_values_batches_and_noise() -> None:
    one = seed(TASK, SOURCE.child(5), torch.float64)
    tiny = dataclasses.replace(SHORT, steps=1)
    arms = [Arm(), Arm(0.001), Arm(0.004), Arm(0.001, mirrored=True)]
    made = train(TASK, tiny, [one], [(0, arm) for arm in arms])
    assert torch.equal(made.losses[0], made.losses[0, :1].expand(4))
    plain, weak, strong, mirrored = made.models.theta.unbind(1)
    # one step apart by their noise alone, which is one noise at amplitudes 1 : 2 : -1
    assert torch.allclose(strong - plain, 2 * (weak - plain), rtol=0, atol=1e-14)
    assert torch.allclose(mirrored - plain, plain - weak, rtol=0, atol=1e-14)
    assert float((weak - plain).std()) == pytest.approx(math.sqrt(2 * 0.001 * SHORT.sgd_step), rel=0.1)
    other = seed(TASK, SOURCE.child(6), torch.float64)
    assert not torch.equal(one.training.tokens, other.training.tokens)
    assert not torch.equal(one.training.tokens[:32], one.validation.tokens)


def test_raw_at_beta_is_mean_field_at_m_beta_bit_by_bit() -> None:
    one = seed(TASK, SOURCE.child(7), torch.float32)
    arms = [Arm(0.005), Arm(RECIPE.particles * 0.005, scaling="mean_field"), Arm(0.005, scaling="mean_field")]
    made = train(TASK, SHORT, [one], [(0, arm) for arm in arms])
    raw, matched, equal = made.models.theta.unbind(1)
    assert torch.equal(raw, matched) and not torch.equal(raw, equal)
    assert arms[0].exposure(SHORT) == pytest.approx(arms[1].exposure(SHORT), rel=1e-15)
    assert arms[0].exposure(SHORT) == pytest.approx(RECIPE.particles * arms[2].exposure(SHORT), rel=1e-15)


def test_exposure_is_the_sum_of_beta_eta() -> None:
    assert Arm(0.005).exposure(RECIPE) == pytest.approx(0.005 * 0.03 * 340)
    halved, annealed = Arm(0.0025).exposure(RECIPE), Arm(0.005, annealed=True).exposure(RECIPE)
    assert annealed == pytest.approx(halved * (340 + 1) / 340)
    assert ARMS["Adam, exposure of 0.005"].exposure(RECIPE) == pytest.approx(ARMS["beta 0.005"].exposure(RECIPE))


def test_adams_effective_step_is_what_the_first_moment_is_multiplied_with() -> None:
    one = seed(TASK, SOURCE.child(8), torch.float64)
    made = train(TASK, dataclasses.replace(SHORT, steps=1), [one], [(0, Arm(optimizer="adam"))])
    assert made.effective is not None and made.effective.shape == (1, 1, 1 + len(QUANTILES))
    start = Classifier(initial(TASK, SHORT, "particles", one.source), made.shape)
    chosen = batches(TASK, SHORT, 1, one.source)[0]
    nn.functional.cross_entropy(start(one.training.tokens[chosen]), one.training.labels[chosen]).backward()
    assert start.theta.grad is not None
    # after one step v hat = g^2, and the first moment is (1 - beta1) g
    step = SHORT.adam_step / 0.1 / (start.theta.grad.abs() + 1e-8)
    moved = made.models.theta[:, 0] - start.theta.detach()
    assert torch.allclose(moved, -step * 0.1 * start.theta.grad, rtol=1e-9, atol=1e-18)
    assert torch.allclose(made.effective[0, 0, 0], step.mean(), rtol=1e-9)
    expected = torch.quantile(step.flatten(), torch.tensor(QUANTILES, dtype=torch.float64))
    assert torch.allclose(made.effective[0, 0, 1:], expected, rtol=1e-9)


def test_the_task_needs_attention_and_is_what_it_says() -> None:
    sample, vectors = draw(Task(noise=0.0), 4000, SOURCE.child("task")), frame(Task())
    assert torch.allclose(vectors @ vectors.T, torch.eye(5, dtype=torch.float64), atol=1e-14)
    marked = sample.tokens @ vectors[0] > 0.5
    assert torch.equal(marked.sum(1), torch.full((4000,), Task().marked))
    classes = (sample.tokens @ vectors[1:].T).argmax(-1)
    assert bool((classes == sample.labels[:, None])[marked].all())
    # classes of the other tokens are uniform: chi-square with 3 degrees, 1e-4 tail 21.1
    counts = torch.bincount(classes[~marked], minlength=4).double()
    assert float(((counts - counts.mean()) ** 2 / counts.mean()).sum()) < 21.1
    with pytest.raises(InputError, match="width of at least 5"):
        Task(width=4)
    with pytest.raises(InputError, match="tokens are marked"):
        Task(marked=13)


def test_thinned_models_are_means_over_what_is_kept() -> None:
    shape = shape_of(TASK, RECIPE, "particles")
    start = initial(TASK, RECIPE, "particles", SOURCE)
    sample = draw(TASK, 6, SOURCE.child("thin"))
    kept = torch.tensor([[2.0, 0, 2, 0, 2, 0, 2, 0]], dtype=torch.float64)
    view = look(start, shape, sample.tokens[None])
    loss, accuracy = classify(start, shape, view, kept[None], sample.labels[None])
    few = Models(start.theta[:, :, ::2].contiguous(), start.rest)
    model = Classifier(few, dataclasses.replace(shape, particles=4, scale=1 / 4))
    scores = model(sample.tokens)
    assert float(loss) == pytest.approx(float(nn.functional.cross_entropy(scores, sample.labels)), abs=1e-14)
    assert float(accuracy) == float((scores.argmax(-1) == sample.labels).double().mean())
    maps = view.maps[0].permute(3, 0, 2, 1)
    assert torch.allclose(maps.sum(-1), torch.ones(()).double())


def test_bad_arms_are_sentences() -> None:
    with pytest.raises(InputError, match="beta is finite"):
        Arm(-1.0)
    with pytest.raises(InputError, match="among"):
        Arm(scaling="meanfield")
    with pytest.raises(InputError, match="needs the arms"):
        run_seeds({"x": Arm(0.1, after="noise")}, [SOURCE], task=TASK, recipe=SHORT)
