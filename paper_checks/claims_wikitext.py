"""Family W: language modelling. Hypotheses under test, judged on the recorded run of `mfcheck wikitext --preset small`.

Nothing is trained here: the outcomes of that run lie with the package, docs/wikitext.md says how they were made, and
its seeds are the sample, so that no look can buy more. The preset small trains on the validation split of WikiText-2
and scores on its test split.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mfcheck.experiments.wikitext.hypotheses import MARGINS
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, exact, mean

ORDINARY, QUIET, FAINT = "multihead-8", "particles-8", "particles-8-beta-1e-5"
NOISY, EXCESS = "particles-8-beta-1e-3", "particles-8-beta-1e-2"
ANNEALED, RAW, WIDE = f"{NOISY}-annealed", f"{NOISY}-raw", "particles-16-wide"
PERPLEXITY, HALF, COSINE = "log_perplexity", "half_rise", "similarity"
SOURCE = "research card on Langevin mean-field attention heads: stage 2, proposed and not run"
HYPOTHESES = "the preset small: 2 layers of width 64, AdamW, 8 particles; trained on WikiText-2's validation split"
LOG = MARGINS[PERPLEXITY]


def difference(m: Measurements, level: float) -> Estimate:
    """The mean paired difference over the seeds on record."""
    return mean(m["difference"][0], level)


def ratio(name: str) -> Any:
    """A count of the treated arm over the reference's."""
    return lambda m, level: exact(float(m[name][0]))


def arms(m: Measurements) -> Mapping[str, Any]:
    """For figures: every arm of the record."""
    return {name.removeprefix("arms "): np.asarray(value)[0].tolist() for name, value in m.items() if "arms " in name}


def settings(metric: str, treated: str, baseline: str | float) -> dict[str, Any]:
    """The settings of a paired difference on the record of the preset small."""
    return {"record": "small", "metric": metric, "treated": treated, "baseline": baseline}
