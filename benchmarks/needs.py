"""Say at once which packages a benchmark lacks, on machines where nothing can be installed."""

from __future__ import annotations

from importlib import import_module

CORE = ("numpy", "scipy", "sklearn", "numba", "cv2", "av", "pyarrow", "onnxruntime")
TORCH = ("torch", "torchvision")


def require(*modules: str) -> None:
    """Exit with 3 and one line per package that cannot be imported."""
    problems = []
    for module in modules:
        try:
            import_module(module)
        except (ImportError, RuntimeError, OSError) as problem:
            problems.append(f"{module}: {problem}")
    if problems:
        print("This benchmark cannot run here, for want of:", *problems, sep="\n  ", flush=True)
        raise SystemExit(3)
