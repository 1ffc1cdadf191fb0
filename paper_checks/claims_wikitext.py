"""Family W: language modelling. Hypotheses under test, judged on the recorded run of `mfcheck wikitext --preset small`.

Nothing is trained here: the outcomes of that run lie with the package, docs/wikitext.md says how they were made, and
its seeds are the sample, so that no look can buy more. The preset small trains on the validation split of WikiText-2
and scores on its test split.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments.wikitext.experiment import recorded_arms, recorded_pairs
from mfcheck.experiments.wikitext.hypotheses import COMPARABLE, MARGINS, NOISED_AFTER, NORM_MATCHED
from mfcheck.replicates import Measurements
from mfcheck.statistics.estimate import Estimate, exact, mean
from mfcheck.statistics.verdict import Region, Verdict

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


LOWER, FLOPS = "log perplexity, particles with noise - ordinary", "FLOPs over ordinary attention's"
PARAMETERS = "parameters over ordinary attention's"
W1 = Claim(
    id="W1",
    statement="eight particles at beta = 1e-3 have a lower perplexity than ordinary attention at equal compute",
    prediction="lower by 1 % and more, with FLOPs and parameters equal within 2 %; untested by the card",
    source=SOURCE,
    hypotheses=HYPOTHESES,
    experiment=recorded_arms,
    settings=settings(PERPLEXITY, NOISY, ORDINARY),
    criteria=(
        Criterion(LOWER, difference, Region.at_most(-LOG, prediction=-2 * LOG)),
        Criterion(FLOPS, ratio("flop_ratio"), Region.around(1.0, relative=0.02)),
        Criterion(PARAMETERS, ratio("parameter_ratio"), Region.around(1.0, relative=0.02)),
    ),
    controls=(
        # what the claim would mean if it were the noise's doing
        Control("against the particles' own beta = 0", {"baseline": QUIET}, refutes=(LOWER,)),
        Control("wide heads, matched by FLOPs alone", {"treated": WIDE}, refutes=(PARAMETERS,)),
    ),
    record=lambda m: {"arms": arms(m)},
)

DROPPED = "rise with half the particles kept, beta 1e-3 - beta 0"
W2 = Claim(
    id="W2",
    statement="diffusion makes the perplexity more robust to dropping half the particles",
    prediction="the rise of the log perplexity is lower by the logarithm of 1.01 and more; untested by the card",
    source=SOURCE,
    hypotheses=HYPOTHESES,
    experiment=recorded_pairs,
    settings=settings(HALF, NOISY, QUIET),
    criteria=(Criterion(DROPPED, difference, Region.at_most(-MARGINS[HALF], prediction=-2 * MARGINS[HALF])),),
    controls=(
        Control("against ordinary attention: particles, noise or not", {"baseline": ORDINARY}, supports=(DROPPED,)),
        Control(
            "the arms exchanged: ordinary attention treated",
            {"treated": ORDINARY, "baseline": QUIET},
            refutes=(DROPPED,),
        ),
    ),
    on_record=Verdict.REFUTED,
)

ALIKE = "attention-map cosine, beta 1e-2 - beta 0"
W3 = Claim(
    id="W3",
    statement="diffusion lowers the redundancy of heads",
    prediction=f"attention-map cosine lower by {MARGINS[COSINE]} and more; untested by the card",
    source=SOURCE,
    hypotheses=HYPOTHESES + "; beta = 1e-2",
    experiment=recorded_pairs,
    settings=settings(COSINE, EXCESS, QUIET),
    criteria=(Criterion(ALIKE, difference, Region.at_most(-MARGINS[COSINE], prediction=-2 * MARGINS[COSINE])),),
    controls=(
        Control("against noise added after training", {"baseline": NOISED_AFTER}, refutes=(ALIKE,)),
        Control("against Q and K at beta = 0 scaled to the same norm", {"baseline": NORM_MATCHED}, refutes=(ALIKE,)),
    ),
)

COST = "rise of the log perplexity with half the particles kept"
W4 = Claim(
    id="W4",
    statement="with half the particles the perplexity is comparable: it rises by less than 5 %",
    prediction="the rise below the logarithm of 1.05 at beta = 1e-3; untested by the card",
    source=SOURCE,
    hypotheses=HYPOTHESES,
    experiment=recorded_pairs,
    settings=settings(HALF, NOISY, 0.0),
    criteria=(Criterion(COST, difference, Region.at_most(COMPARABLE, prediction=COMPARABLE / 2)),),
    controls=(Control("ordinary attention, half of its heads", {"treated": ORDINARY}, refutes=(COST,)),),
)

RAISED = "log perplexity, beta 1e-2 - beta 0"
W5 = Claim(
    id="W5",
    statement="excess diffusion raises the loss",
    prediction="test perplexity higher by 1 % and more at beta = 1e-2, ten times the catalogue's largest",
    source=SOURCE + "; its falsifier",
    hypotheses=HYPOTHESES,
    experiment=recorded_pairs,
    settings=settings(PERPLEXITY, EXCESS, QUIET),
    criteria=(Criterion(RAISED, difference, Region.at_least(LOG, prediction=2 * LOG)),),
    controls=(Control("beta = 1e-5, a thousandth", {"treated": FAINT}, refutes=(RAISED,)),),
)

LATER = "log perplexity, annealed - constant"
W6 = Claim(
    id="W6",
    statement="annealing to 0 does better than constant diffusion of the same beta",
    prediction="test perplexity lower by 1 % and more at beta = 1e-3; untested by the card",
    source=SOURCE,
    hypotheses=HYPOTHESES,
    experiment=recorded_pairs,
    settings=settings(PERPLEXITY, ANNEALED, NOISY),
    criteria=(Criterion(LATER, difference, Region.at_most(-LOG, prediction=-2 * LOG)),),
    controls=(Control("excess diffusion in place of annealed", {"treated": EXCESS}, refutes=(LATER,)),),
)

SAME = "log perplexity, raw - mean-field"
W7 = Claim(
    id="W7",
    statement="raw and mean-field scaling come to the same under Adam",
    prediction="test perplexity within 1 % at beta = 1e-3",
    source="Adam divides by the gradient's own scale: the scaling trap of K2",
    hypotheses=HYPOTHESES,
    experiment=recorded_pairs,
    settings=settings(PERPLEXITY, RAW, NOISY),
    criteria=(Criterion(SAME, difference, Region.around(0.0, absolute=LOG)),),
    controls=(Control("excess diffusion in place of raw", {"treated": EXCESS}, refutes=(SAME,)),),
)

CLAIMS: tuple[Claim, ...] = (W1, W2, W3, W4, W5, W6, W7)
