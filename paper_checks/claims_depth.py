"""Family T: tokens and depth."""

from mfcheck.claim import Claim, Control, Criterion
from mfcheck.experiments import depth, depth_stability
from mfcheck.statistics.estimate import deterministic_order, exact, order
from mfcheck.statistics.verdict import Region

CARD = "research card on Langevin mean-field attention heads"

LAYERS = (16, 32, 64, 128, 256)

T1 = Claim(
    id="T1",
    statement="residual steps x <- x + dt V(x) converge to the depth flow at order 1 in dt",
    prediction="slope 1 +- 0.1, against the flow by an independent solver",
    formula=r"\|x^{dt}-x\|\propto dt",
    source=CARD,
    hypotheses="smooth heads, dt = 1/L",
    experiment=depth.residual_order,
    settings={"layers": LAYERS, "heads": 8, "tokens": 12, "scaled": True},
    criteria=(
        Criterion(
            "order in dt",
            lambda m, level: deterministic_order([1 / layers for layers in LAYERS], m["errors"][0], m["reference"][0]),
            Region.around(1.0, absolute=0.1),
        ),
    ),
    controls=(Control("dt not scaled", {"scaled": False}, refutes=("order in dt",)),),
)

TOKENS = (16, 32, 64, 128)

T2 = Claim(
    id="T2",
    statement="N tokens of a compactly supported law are at W2 ~ N^(-1/2) of the continuity equation",
    prediction="slope -0.5 +- 0.1 in N",
    formula=r"\mathbb{E}\,W_2(\mu^N_t,\mu_t)\propto N^{-1/2}",
    source="Fournier and Guillin 2015; Bobkov and Ledoux 2019; Herty and Liu, arXiv:2608.25055",
    hypotheses="scalar tokens, smooth quantile function, softmax heads; the same residual steps on both sides",
    experiment=depth.number_of_tokens,
    settings={"tokens": TOKENS, "layers": 10, "nodes": 512, "mask": "none"},
    replicates=512,
    criteria=(
        Criterion(
            "W2 slope",
            lambda m, level: order(
                TOKENS,
                m["w2_squared"],
                level,
                power=0.5,
                # |W2(mu, a)^2 - W2(mu, b)^2| <= W2(a, b) (2 W2(mu, b) + W2(a, b))
                reference_errors=m["reference"][0] * (2 * m["w2_squared"].mean(0) ** 0.5 + m["reference"][0]),
            ),
            Region.around(-0.5, absolute=0.1),
        ),
    ),
    controls=(
        # on tokens in their random order the mask leaves a law's sample a law's sample, and nothing is refuted
        Control("causal mask on sorted tokens", {"mask": "causal on sorted tokens"}, refutes=("W2 slope",)),
    ),
    record=lambda m: {
        "edges": m["edges"][0].tolist(),
        "masses": m["masses"][0].tolist(),
        "histogram": m["histogram"].mean(0).tolist(),
        "one_system": m["histogram"][0].tolist(),
    },
)

GAUSSIAN_TOKENS, ODE_LAYERS = (25, 50, 100, 200), (10, 20, 40, 80)

T3 = Claim(
    id="T3",
    statement="Gaussian tokens stay Gaussian under softmax attention, with m' = V(m + S A' m), S' = VSA'S + (VSA'S)'",
    prediction="mean and covariance of N tokens at slope -0.5 +- 0.1 in N; the moments' steps at order 1 from the ODE",
    formula=r"m'=V(m+SA^{\top}m),\quad S'=VSA^{\top}S+(VSA^{\top}S)^{\top}",
    source="Castin, Ablin, Carrillo and Peyre, arXiv:2501.18322",
    hypotheses="spectral radius of (S A' S A)^(1/2) below 1/2; the same residual steps on both sides",
    experiment=depth.gaussian_moments,
    settings={
        "tokens": GAUSSIAN_TOKENS,
        "layers": 10,
        "logit_scale": 1.0,
        "logits_in_ode": 1.0,
        "ode_layers": ODE_LAYERS,
    },
    replicates=512,
    criteria=(
        Criterion(
            "mean slope",
            lambda m, level: order(GAUSSIAN_TOKENS, m["mean_error"], level, power=0.5),
            Region.around(-0.5, absolute=0.1),
        ),
        Criterion(
            "covariance slope",
            lambda m, level: order(GAUSSIAN_TOKENS, m["covariance_error"], level, power=0.5),
            Region.around(-0.5, absolute=0.1),
        ),
        Criterion(
            "order of the moments' steps",
            lambda m, level: deterministic_order([1 / layers for layers in ODE_LAYERS], m["ode_error"][0], 1e-9),
            Region.around(1.0, absolute=0.1),
        ),
        Criterion("tilt", lambda m, level: exact(m["tilt"][0], 1e-9), Region.at_most(0.5)),
    ),
    controls=(
        Control("A left out of the ODE", {"logits_in_ode": 0.0}, refutes=("covariance slope",)),
        # S shrinks along the path, so that a tilt of 0.9 at the start costs nothing that 200 tokens would show
        Control("tilt 3.6, above 1/2", {"logit_scale": 10.0}, refutes=("mean slope", "tilt")),
    ),
    record=lambda m: {
        name: m[name][0].tolist()
        for name in ("believed_mean", "believed_covariance", "empirical_mean", "empirical_covariance")
    },
)

T4 = Claim(
    id="T4",
    statement="two flows of tokens move apart in W2 at most by exp(int_0^t L(R_s) ds)",
    prediction="log growth of W2 over the exponent never above 1, and near 1 for translates at A = 0",
    formula=r"W_2(\mu_t,\nu_t)\le\exp\Big(\int_0^t L(R_s)\,ds\Big)\,W_2(\mu_0,\nu_0)",
    source="stability: Herty and Liu, arXiv:2608.25055; the constant is derived in mfcheck.dynamics.tokens",
    hypotheses="softmax heads, tokens in a ball of radius R with |A| R^2 <= 0.05",
    experiment=depth_stability.stability,
    settings={"pairs": 12, "tokens": 24, "layers": 64, "head": "softmax", "bound_factor": 1.0, "offset": 1e-6},
    criteria=(
        Criterion(
            "on the line: largest growth over the bound",
            lambda m, level: exact(m["line"].max(), 1e-9),
            Region.at_most(1.0),
        ),
        Criterion(
            "in the plane: largest growth over the bound",
            lambda m, level: exact(m["plane"].max(), 1e-9),
            Region.at_most(1.0),
        ),
        Criterion(
            # (1 + dt)^L against e: 1 - dt/2 = 0.992 at L = 64
            "translates at A = 0: growth over the bound",
            lambda m, level: exact(m["translated"][0], 1e-9),
            Region(0.95, 1.0, 0.992),
        ),
        Criterion("at a tie: growth over the bound", lambda m, level: exact(m["tied"][0], 1e-6), Region.at_most(1.0)),
    ),
    controls=(
        Control("L halved at A = 0", {"bound_factor": 0.5}, refutes=("translates at A = 0: growth over the bound",)),
        Control("hardmax at a tie", {"head": "hardmax"}, refutes=("at a tie: growth over the bound",)),
    ),
    record=lambda m: {
        # by how much the exponent exceeds the growth, at best
        "pessimism": {name: float(1 / m[name].max()) for name in ("line", "plane")},
        **{name: m[name][0].tolist() for name in ("line", "plane")},
    },
)

CLAIMS = (T1, T2, T3, T4)
