"""Evaluation of results against truth: metrics, baselines and tables; nothing is fitted to it."""

from objectstates.evaluation.bootstrap import Comparison, Interval
from objectstates.evaluation.precision import (
    ClipScore,
    Evaluation,
    MethodRow,
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
    "compare",
    "evaluate",
    "method_row",
]
