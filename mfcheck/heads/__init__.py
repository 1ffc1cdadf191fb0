"""Attention heads v_theta(x; mu): the protocol, the shipped heads, controls, and an adapter for torch modules."""

from mfcheck.heads.causal import causal
from mfcheck.heads.gaussian import gaussian_attention
from mfcheck.heads.hardmax import hardmax_attention
from mfcheck.heads.l2 import l2_attention
from mfcheck.heads.linear import linear_attention
from mfcheck.heads.module import flat_parameters, module_head, multihead_attention
from mfcheck.heads.protocol import Head, HeadFunction, Hypotheses
from mfcheck.heads.sigmoid import sigmoid_attention
from mfcheck.heads.softmax import matrix_softmax, scalar_softmax, softmax_attention

__all__ = [
    "Head",
    "HeadFunction",
    "Hypotheses",
    "causal",
    "flat_parameters",
    "gaussian_attention",
    "hardmax_attention",
    "l2_attention",
    "linear_attention",
    "matrix_softmax",
    "module_head",
    "multihead_attention",
    "scalar_softmax",
    "sigmoid_attention",
    "softmax_attention",
]
