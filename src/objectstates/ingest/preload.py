"""What workers of an ingest need, imported once, by the process that they are forked from."""

import importlib

from objectstates.base.jit import load_without_blas

for _name in ("objectstates.ingest.worker", "onnxruntime"):
    importlib.import_module(_name)
load_without_blas()
