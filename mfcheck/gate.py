"""The toy gate as a run: groups of paired seeds over the cores, each kept whole as it completes, and taken up again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from mfcheck.errors import InputError
from mfcheck.experiments import toy_gate
from mfcheck.experiments.toy_gate.arms import ARMS, MAIN, RECIPE
from mfcheck.experiments.toy_gate.metrics import METRICS
from mfcheck.experiments.toy_gate.seeds import TASK, run_seeds
from mfcheck.experiments.toy_gate.verdict import ALPHA, Arms, GateVerdict
from mfcheck.outcome import Outcome, digest, equivalence, outcome_of_hypothesis
from mfcheck.runner import versions
from mfcheck.statistics.seeds import stream

#: Seeds in a group: the unit that is trained together, kept, and taken up again.
GROUP = 4
#: Attention maps and Adam's effective steps are kept for this seed alone: figures show them.
SHOWN = 0
PICTURES = ("maps", "effective")
#: What is kept of every arm of every seed, in this order.
KEPT = (*METRICS, "exposure", "kept_accuracy")


@dataclass(frozen=True)
class GatePlan:
    """What a gate runs: n paired seeds 0, 1, ..., the arms by name, the root seed, the device, a pilot or the real one.

    Pilot seeds are others than the gate's own. Raises InputError on fewer than two seeds, or on a name that no arm has.
    """

    seeds: int = 8
    arms: tuple[str, ...] = MAIN
    root: int = 0
    device: str = "cpu"
    pilot: bool = False

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise InputError(f"paired differences take at least two seeds; got {self.seeds}")
        unknown = [name for name in self.arms if name not in ARMS]
        if unknown:
            raise InputError(f"no arm is called {', '.join(unknown)}; there are {', '.join(ARMS)}")

    @property
    def groups(self) -> list[tuple[int, int]]:
        """[start, stop) of each group of seeds."""
        return [(start, min(start + GROUP, self.seeds)) for start in range(0, self.seeds, GROUP)]

    def header(self) -> dict[str, Any]:
        """All that the numbers depend on."""
        return {
            "root": self.root,
            "pilot": self.pilot,
            "device": self.device,
            "arms": {name: asdict(ARMS[name]) for name in self.arms},
            "recipe": asdict(RECIPE),
            "task": asdict(TASK),
            "versions": versions(),
            "code": _code(),
        }


@lru_cache
def _code() -> str:
    """A digest of the source that makes the numbers: what was run by other code is run again."""
    folder = Path(toy_gate.__file__).parent
    # the words and rules that read the numbers are not among them
    makes = ("arms", "layer", "metrics", "seeds", "task", "training")
    return digest([(folder / f"{name}.py").read_bytes() for name in makes])


def run_gate(
    plan: GatePlan,
    out: Path,
    *,
    resume: bool = False,
    jobs: int = -1,
    on_group: Callable[[int], None] = lambda seeds: None,
) -> list[dict[str, Any]]:
    """{arm: {metric: number}} of every seed of the plan; gate.jsonl and each group's file are left in out.

    resume: groups that out already holds for this plan's settings, code and versions are taken over. A run that was
    killed and taken up again leaves the same gate.jsonl, byte for byte, as one that was not. jobs: processes, -1 for
    all cores. on_group is told how many seeds were finished. Raises InputError where out cannot be written to.
    """
    identity = digest(sorted(plan.header().items(), key=str))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"outcomes cannot be kept in {out}: {error}") from error
    done: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for group in plan.groups:
        kept = _kept(_file(out, plan, group), identity) if resume else None
        if kept is not None:
            done[group] = kept
            on_group(len(kept))
    left = [group for group in plan.groups if group not in done]
    tasks = (delayed(_group)(plan, group) for group in left)
    for group, numbers in Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks):
        _write(_file(out, plan, group), json.dumps({"identity": identity, "seeds": numbers}))
        done[group] = numbers
        on_group(len(numbers))
    seeds = [one for group in plan.groups for one in done[group]]
    write_gate(out / ("pilot.jsonl" if plan.pilot else "gate.jsonl"), plan.header(), seeds)
    return seeds


def write_gate(path: Path, header: Mapping[str, Any], seeds: Sequence[Arms]) -> None:
    """A file of JSON lines, written whole: header, pictures of one seed, then a line a seed, in KEPT's order."""
    pictures = {arm: {name: numbers[name] for name in PICTURES if name in numbers} for arm, numbers in seeds[0].items()}
    lines: list[Any] = [{"gate": header, "kept": KEPT}, {"pictures": pictures}]
    lines += [{arm: [numbers.get(name) for name in KEPT] for arm, numbers in one.items()} for one in seeds]
    _write(path, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def read_gate(path: Path) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """(header, the numbers of every seed) of a gate.jsonl. Raises InputError where the file is missing or another."""
    try:
        first, second, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        header, names = first["gate"], first["kept"]
        seeds: list[dict[str, Any]] = []
        for line in lines:
            if set(line) != set(header["arms"]):
                raise ValueError(f"seed {len(seeds)} has other arms than the header")
            whole = {arm: dict(zip(names, values, strict=True)) for arm, values in line.items()}
            seeds.append({arm: {k: v for k, v in one.items() if v is not None} for arm, one in whole.items()})
        for arm, pictures in second["pictures"].items():
            seeds[0][arm] |= pictures
        return header, seeds
    except OSError as error:
        raise InputError(f"no gate at {path}: make one with `mfcheck gate --out {path.parent}`") from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"{path} was not written by `mfcheck gate`: {error}") from error


def _group(plan: GatePlan, group: tuple[int, int]) -> tuple[tuple[int, int], list[dict[str, Any]]]:
    import torch

    torch.set_num_threads(1)
    source = stream(plan.root, "toy gate", "pilot" if plan.pilot else "seed")
    arms = {name: ARMS[name] for name in plan.arms}
    sources = [source.child(index) for index in range(*group)]
    numbers = run_seeds(arms, sources, device=plan.device, maps=group[0] == SHOWN)
    for index, one in zip(range(*group), numbers, strict=True):
        for arm in one.values() if index != SHOWN else ():
            for name in PICTURES:
                arm.pop(name, None)
    return group, numbers


def _file(out: Path, plan: GatePlan, group: tuple[int, int]) -> Path:
    kind = "pilot" if plan.pilot else "seeds"
    return out / "groups" / f"{kind}_{group[0]:05d}_{group[1]:05d}.json"


def _kept(path: Path, identity: str) -> list[dict[str, Any]] | None:
    """What an earlier run kept, where it was this very run."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept["seeds"] if isinstance(kept, dict) and kept.get("identity") == identity else None


def _write(path: Path, text: str) -> None:
    """Writes a file whole: beside its place, and moved there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def outcomes_of(verdict: GateVerdict, header: Mapping[str, Any], seeds: Sequence[Arms]) -> list[Outcome]:
    """The gate as outcomes S1, S2, ... that figures read: a criterion a row, its region the equivalence margin.

    data: "arms", {arm: {metric: [mean, standard error]}}, lists for the accuracy with 1, 2, ..., M particles kept;
    "maps" and "effective" of the seed whose pictures were kept.
    """
    pictures = {name: {a: one[name] for a, one in seeds[SHOWN].items() if name in one} for name in PICTURES}
    data = {"arms": {arm: _summary([one[arm] for one in seeds]) for arm in seeds[0]}, **pictures}
    made = []
    for one in verdict.judged:
        criteria = []
        for row, result in zip(one.hypothesis.rows, one.results, strict=True):
            name = f"{METRICS[row.metric].label}, {row.treated} - {row.baseline}"
            told = {"card": row.card, "word": result.effect.value}
            criteria.append(equivalence(name, result.estimate, result.margin, **told))
        h = one.hypothesis
        about = {
            "n": verdict.n,
            "alpha": ALPHA,
            "seed": header["root"],
            "profile": "gate",
            "device": header["device"],
            "versions": header["versions"],
            "identity": digest(header["code"], header["root"], verdict.n),
            "data": data,
        }
        made.append(outcome_of_hypothesis(h.id, h.statement, h.rule_in_words, one.verdict, criteria, **about))
    return made


def _summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """{metric: [mean, standard error]} over seeds, of numbers and of lists of them."""
    found = {}
    for metric in KEPT:
        if metric in runs[0]:
            values = np.array([run[metric] for run in runs], dtype=np.float64)
            found[metric] = [values.mean(0).tolist(), (values.std(0, ddof=1) / len(values) ** 0.5).tolist()]
    return found
