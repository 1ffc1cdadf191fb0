"""A preset is the whole table of an experiment in one TOML file: text, model, training, scoring, arms, seeds."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.arms import Arm, ModelSettings, Scoring, Text, Training

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Part = TypeVar("Part")
PARTS = {"text": Text, "model": ModelSettings, "training": Training, "scoring": Scoring}


@dataclass(frozen=True)
class Preset:
    """The table's settings; its cells are arms x range(seeds). Raises InputError where arms share a name."""

    name: str
    seeds: int
    text: Text
    model: ModelSettings
    training: Training
    scoring: Scoring
    arms: tuple[Arm, ...]

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if not names or len(set(names)) < len(names):
            raise InputError(f"a preset has arms, each of its own name; it came with {names}")
        if self.seeds < 1:
            raise InputError(f"a preset has seeds >= 1; it came with {self.seeds}")

    def arm(self, name: str) -> Arm:
        """The arm of that name. Raises InputError where there is none."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise InputError(f"no arm is called {name!r}; there are {', '.join(arm.name for arm in self.arms)}")

    def cell_settings(self, arm: Arm) -> dict[str, Any]:
        """All that the outcome of a cell depends on, but for its seed and the text itself."""
        return {name: asdict(getattr(self, name)) for name in PARTS} | {"arm": asdict(arm)}


def preset_names() -> list[str]:
    """The presets that come with mfcheck."""
    folder = files("mfcheck.experiments.wikitext") / "presets"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_preset(name_or_path: str) -> Preset:
    """A preset by its name, or from a TOML file of one's own.

    Raises InputError where there is none, it is not TOML, or a key is unknown or missing.
    """
    if name_or_path in preset_names():
        text = (files("mfcheck.experiments.wikitext") / "presets" / f"{name_or_path}.toml").read_text(encoding="utf-8")
    else:
        path = Path(name_or_path)
        if not path.is_file():
            raise InputError(
                f"no preset is called {name_or_path!r} and no file lies there; there are {', '.join(preset_names())}"
            )
        text = path.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name_or_path} is not TOML: {error}") from error
    known = {"name", "seeds", "arms", *PARTS}
    if set(table) - known or known - set(table):
        raise InputError(
            f"preset {name_or_path}: it holds exactly {', '.join(sorted(known))}; unknown "
            f"{sorted(set(table) - known)}, missing {sorted(known - set(table))}"
        )
    where = f"preset {name_or_path}"
    parts: dict[str, Any] = {
        key: _part(f"preset {name_or_path}, [{key}]", kind, table[key]) for key, kind in PARTS.items()
    }
    arms = tuple(_part(f"{where}, [[arms]]", Arm, arm) for arm in table["arms"])
    return Preset(name=table["name"], seeds=table["seeds"], arms=arms, **parts)


def _part(where: str, kind: type[Part], table: Mapping[str, Any]) -> Part:
    """A dataclass from a table of the same names."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    required = {f.name for f in fields(kind) if f.default is MISSING}  # type: ignore[arg-type]
    unknown, missing = set(table) - known, required - set(table)
    if unknown or missing:
        raise InputError(f"{where}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    try:
        return kind(**table)
    except TypeError as error:
        raise InputError(f"{where}: a value has the wrong type ({error})") from error
