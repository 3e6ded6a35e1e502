"""JSON as pagesim prints it: stable keys, and the same bytes on every machine.

Floats carry nine significant digits: the last few bits of a sum depend on a processor's vector width.
"""

from __future__ import annotations

import json
from typing import Any

SIGNIFICANT_DIGITS = 9


def dumps(value: Any) -> str:
    """Text of `value`, two-space indent, keys in the order given. Raises ValueError on NaN or infinity."""
    return json.dumps(rounded(value), indent=2, allow_nan=False, ensure_ascii=False)


def canonical(value: Any) -> str:
    """One line, the same for equal values whatever the order of their keys."""
    return json.dumps(rounded(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def rounded(value: Any) -> Any:
    """The same value with every float inside it rounded."""
    if isinstance(value, dict):
        return {str(k): rounded(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    return value
