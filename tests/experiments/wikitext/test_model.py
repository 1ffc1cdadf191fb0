"""The model and its arms: shared starts, causality, matched parameters and FLOPs, windows, presets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.arms import Arm, ModelSettings, Text, Training
from mfcheck.experiments.wikitext.matching import flops_per_token, match, parameters, reference_shape
from mfcheck.experiments.wikitext.model import Shape, initial_model
from mfcheck.experiments.wikitext.prepared import Windows, prepare, read_prepared
from mfcheck.experiments.wikitext.preset import preset_names, read_preset
from mfcheck.experiments.wikitext.scores import all_windows, nats, some_windows
from mfcheck.statistics.seeds import stream

ORDINARY = Shape(50, 12, 16, 2, 32, "multihead", 8, 2)
PARTICLES = replace(ORDINARY, attention="particles")
SETTINGS = ModelSettings(context=12, width=16, layers=2, hidden=32)


def test_arms_of_a_seed_start_as_the_same_function_whatever_their_attention() -> None:
    tokens = torch.randint(50, (3, 13), generator=torch.Generator().manual_seed(0))
    one, other = (initial_model(shape, stream(5))(tokens[:, :12]) for shape in (ORDINARY, PARTICLES))
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert not torch.equal(one, initial_model(ORDINARY, stream(6))(tokens[:, :12]))


@pytest.mark.parametrize("shape", [ORDINARY, PARTICLES, replace(PARTICLES, heads=4, head_width=8)])
def test_a_prediction_does_not_look_ahead(shape: Shape) -> None:
    model = initial_model(shape, stream(0)).eval()
    tokens = torch.arange(12)[None]
    changed = tokens.clone()
    changed[0, 7:] += 20
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.allclose(before[:, 7:], after[:, 7:])


def test_the_embedding_is_tied() -> None:
    names = [name for name, _ in initial_model(ORDINARY, stream(0)).named_parameters()]
    assert sum(parameter.startswith("token_embedding") for parameter in names) == 1
    assert not any("output" in name or "head" in name for name in names)


@pytest.mark.parametrize("heads", [8, 16])
def test_particles_of_total_width_d_match_in_both_counts(heads: int) -> None:
    matched = match(Arm("p", "particles", heads), 50, SETTINGS)
    assert matched.parameter_ratio == matched.flop_ratio == 1.0
    assert matched.shape.hidden == SETTINGS.hidden


@pytest.mark.parametrize("by", ["parameters", "flops"])
def test_wider_heads_are_paid_for_by_the_mlp(by: str) -> None:
    settings = ModelSettings(context=32, width=32, layers=2, hidden=128)
    matched = match(Arm("p", "particles", 16, head_width=4, match=by), 50, settings)
    assert matched.shape.hidden < settings.hidden
    assert (matched.parameters_match, matched.flops_match) == (by == "parameters", by == "flops")


def test_flops_count_what_is_multiplied() -> None:
    d, n, f, v, layers = 16, 12, 32, 50, 2
    # a product [a, b] [b, c] is 2abc FLOPs, once forward and twice backward; a token: four d x d maps, two d x f, the
    # output; a pair of tokens: a logit and a weight, d products each
    by_hand = 3 * 2 * (layers * (4 * d * d + 2 * d * f + 2 * n * d) + d * v)
    assert flops_per_token(reference_shape(v, SETTINGS)) == by_hand
    assert parameters(ORDINARY) == sum(p.numel() for p in initial_model(ORDINARY, stream(0)).parameters())


def test_what_cannot_be_matched_is_refused() -> None:
    with pytest.raises(InputError, match="alone have more parameters than the whole reference"):
        match(Arm("p", "particles", 32, head_width=16), 50, SETTINGS)
    with pytest.raises(InputError, match="7 heads divide the width 16"):
        match(Arm("p", "particles", 7), 50, SETTINGS)
    with pytest.raises(InputError, match="only particles diffuse"):
        Arm("m", "multihead", 8, beta=0.1)
    with pytest.raises(InputError, match="a folder is called so"):
        Arm("../x", "particles", 8)
    with pytest.raises(InputError, match="do not make 16"):
        replace(ORDINARY, head_width=4)


def test_exposure_is_the_sum_of_beta_eta() -> None:
    training = Training(batch=1, steps=3, rate=0.1, warmup=1, floor=0.0)
    assert [training.rate_at(k) for k in range(3)] == pytest.approx([0.1, 0.1, 0.05])
    assert training.exposure(Arm("a", "particles", 8, beta=2.0)) == pytest.approx(2 * 0.25)
    annealed = Arm("a", "particles", 8, beta=2.0, schedule="annealed")
    assert training.exposure(annealed) == pytest.approx(2 * (0.1 + 0.1 * 2 / 3 + 0.05 / 3))


def test_an_epoch_goes_once_through_its_windows_and_the_step_says_where() -> None:
    tokens = np.arange(1000, dtype=np.int32)
    windows = Windows(tokens, context=10, batch=4, source=stream(1))
    steps = windows.per_epoch // 4
    epoch = torch.cat([windows.at(step) for step in range(steps)])
    assert epoch.shape == (96, 11) and bool((epoch.diff(dim=1) == 1).all())
    assert len(set(epoch[:, 0].tolist())) == 96
    # asked for out of order, as a resumed run does
    again = Windows(tokens, context=10, batch=4, source=stream(1))
    torch.testing.assert_close(again.at(steps + 3), windows.at(steps + 3))
    assert not torch.equal(windows.at(0), windows.at(steps))
    with pytest.raises(InputError, match="make 1 windows of 10; a batch takes 4"):
        Windows(tokens[:30], context=10, batch=4, source=stream(1))


def test_scoring_predicts_every_token_once() -> None:
    tokens = np.arange(37, dtype=np.int32)
    windows = list(all_windows(tokens, 10, 2))
    predicted = torch.cat([batch[:, 1:].flatten() for batch in windows])
    assert predicted.tolist() == list(range(1, 37))
    assert sum(len(batch) for batch in some_windows(tokens, 10, 2, 2)) == 2
    model = initial_model(ORDINARY, stream(0)).eval()
    by_hand = sum(float(model.loss(batch).detach()) * batch[:, 1:].numel() for batch in windows)
    assert nats(model, windows) == pytest.approx(by_hand, rel=1e-5)


def test_prepared_text_is_read_back_and_other_text_refused(tmp_path: Path) -> None:
    text = Text("generated", "word", 100, size=600)
    made = prepare(text, tmp_path / "text")
    again = prepare(text, tmp_path / "text")
    assert made.fingerprint == again.fingerprint and made.said == again.said
    np.testing.assert_array_equal(made.splits["test"].tokens, again.splits["test"].tokens)
    with pytest.raises(InputError, match="take another folder"):
        prepare(replace(text, size=700), tmp_path / "text")
    prepare(replace(text, vocabulary=90), tmp_path / "other")
    (tmp_path / "other" / "tokenizer.json").replace(tmp_path / "text" / "tokenizer.json")
    with pytest.raises(InputError, match=r"vocabulary in .* is of another run"):
        read_prepared(tmp_path / "text")
    (tmp_path / "text" / "test.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(InputError, match="holds no text that this version"):
        read_prepared(tmp_path / "text")


@pytest.mark.parametrize("name", preset_names())
def test_every_arm_of_every_preset_is_matched(name: str) -> None:
    preset = read_preset(name)
    # arms of the same heads share their model
    for arm in {(arm.attention, arm.heads, arm.head_width, arm.match): arm for arm in preset.arms}.values():
        matched = match(arm, preset.text.vocabulary or 33_278, preset.model)
        assert matched.parameters_match or matched.flops_match


def test_a_preset_of_ones_own_is_checked_key_by_key(tmp_path: Path) -> None:
    source = Path(__file__).parents[3] / "mfcheck" / "experiments" / "wikitext" / "presets" / "tiny.toml"
    text = source.read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"

    def refused(changed: str, match: str) -> None:
        path.write_text(changed, encoding="utf-8")
        with pytest.raises(InputError, match=match):
            read_preset(str(path))

    refused(text.replace("warmup = 4", "warm_up = 4"), r"unknown keys \['warm_up'\], missing keys \['warmup'\]")
    refused(text.replace("seeds = 2", ""), r"missing \['seeds'\]")
    refused(text.replace("seeds = 2", "seeds = "), "is not TOML")
    refused(text.replace('name = "particles-8-beta-1e-3"', 'name = "particles-8"'), "each of its own name")
    refused(text.replace("steps = 40", 'steps = "40"'), "wrong type")
    with pytest.raises(InputError, match=r"no preset is called 'huge' .* there are paper, small, tiny"):
        read_preset("huge")


def test_ordinary_heads_with_the_step_of_a_mean_learn_as_particles_do() -> None:
    """Adam does not see a parameter's scale: W_O held M times as large moves M times less."""
    losses = {}
    for attention in ("particles", "multihead_mean", "multihead"):
        model = initial_model(replace(ORDINARY, attention=attention), stream(5))
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-2, eps=1e-16)
        tokens = torch.randint(50, (8, 13), generator=torch.Generator().manual_seed(0))
        for _ in range(8):
            loss = model.loss(tokens)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        losses[attention] = float(loss.detach())
    # eight steps apart by rounding in single precision (2e-7); the usual step of W_O is 4e-2 away
    assert losses["multihead_mean"] == pytest.approx(losses["particles"], abs=2e-5)
    assert abs(losses["multihead"] - losses["particles"]) > 2e-2
