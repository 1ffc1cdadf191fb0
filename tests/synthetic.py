"""Synthetic claims whose truth is known: the mean of a named law, one column a criterion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.replicates import Measurements, Replicates
from mfcheck.statistics.estimate import Estimate, mean
from mfcheck.statistics.verdict import Region


def columns_of_noise(settings: Mapping[str, Any], replicates: Replicates) -> Measurements:
    """x [n, columns]: settings["law"] noise of mean 0 and variance 1, times sd, plus settings["mean"]."""
    # a look's replicates come from one generator, named by where they start: equal looks, equal numbers
    generator = replicates.stream.child("from", replicates.start).numpy()
    noise = generator.standard_normal((len(replicates), settings["columns"]))
    if settings["law"] == "squared":
        noise = (noise**2 - 1) / np.sqrt(2)
    return {"x": settings["mean"] + settings["sd"] * noise}


def mean_of_column(column: int):
    def estimate(measured: Measurements, level: float) -> Estimate:
        return mean(measured["x"][:, column], level)

    return estimate


def claim(
    *,
    id: str = "D1",
    region: Region | None = None,
    columns: int = 1,
    replicates: int = 16,
    shifted: float = 10.0,
    experiment=columns_of_noise,
    **settings: Any,
) -> Claim:
    """The claim that every column's mean lies in region (default 0 +- 1), with one control: the mean `shifted`."""
    region = Region.around(0.0, absolute=1.0) if region is None else region
    names = [f"mean {column}" for column in range(columns)]
    return Claim(
        id=id,
        statement="the mean is 0",
        prediction="0",
        source="none",
        hypotheses="independent samples",
        experiment=experiment,
        criteria=tuple(Criterion(name, mean_of_column(column), region) for column, name in enumerate(names)),
        controls=(Control("shifted", {"mean": shifted}, refutes=tuple(names)),),
        settings={"mean": 0.0, "sd": 1.0, "law": "normal", "columns": columns} | settings,
        replicates=replicates,
    )
