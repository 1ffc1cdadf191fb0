"""Runs on record: the outcomes of a table as JSON lines, rounded, after a line that says how they were made."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from mfcheck.errors import InputError
from mfcheck.experiments.wikitext.checkpoint import write_whole

#: Significant digits kept: a tenth of float32's last.
DIGITS = 7


@dataclass(frozen=True)
class Record:
    """about: preset, command, date, machine, processor seconds; outcomes: of every cell, in the table's order."""

    about: Mapping[str, Any]
    outcomes: tuple[Mapping[str, Any], ...]


def recorded_names() -> list[str]:
    """The presets whose run is on record in the package."""
    folder = files("mfcheck.experiments.wikitext") / "recorded"
    if not folder.is_dir():
        return []
    return sorted(entry.name.removesuffix(".jsonl") for entry in folder.iterdir() if entry.name.endswith(".jsonl"))


def read_record(name_or_path: str) -> Record:
    """The run on record under a preset's name, or in a file. Raises InputError where there is none."""
    if name_or_path in recorded_names():
        entry = files("mfcheck.experiments.wikitext") / "recorded" / f"{name_or_path}.jsonl"
        text = entry.read_text(encoding="utf-8")
    elif Path(name_or_path).is_file():
        text = Path(name_or_path).read_text(encoding="utf-8")
    else:
        raise InputError(
            f"no run is on record as {name_or_path!r} and no file lies there; on record: {', '.join(recorded_names())}"
        )
    try:
        first, *rest = (json.loads(line) for line in text.splitlines())
        return Record(first["about"], tuple(rest))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{name_or_path} is no record of `mfcheck wikitext` ({error})") from error


def write_record(path: Path, about: Mapping[str, Any], outcomes: Sequence[Mapping[str, Any]]) -> None:
    """Writes a record whole, numbers rounded to DIGITS significant digits."""
    lines = [json.dumps({"about": dict(about)}), *(json.dumps(rounded(outcome)) for outcome in outcomes)]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, lambda partial: partial.write_text("\n".join(lines) + "\n", encoding="utf-8"))


def rounded(value: Any) -> Any:
    """Every float in a structure of JSON at DIGITS significant digits."""
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value
