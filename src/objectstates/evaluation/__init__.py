"""Evaluation of results against truth: metrics, baselines and tables; nothing is fitted to it."""

from objectstates.evaluation.bootstrap import Comparison, Interval
from objectstates.evaluation.precision import (
    ClipScore,
    Evaluation,
    MethodRow,
    SeedSpread,
    compare,
    evaluate,
    method_row,
)

__all__ = [
    "ClipScore",
    "Comparison",
    "Evaluation",
    "Interval",
    "MethodRow",
    "SeedSpread",
    "compare",
    "evaluate",
    "method_row",
]
