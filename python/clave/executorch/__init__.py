"""clave as a backend of ExecuTorch: clave runs parts of the models in .pte files.

edge = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[ClavePartitioner()])
Path("model.pte").write_bytes(edge.to_executorch().buffer)
outputs = Runtime.get().load_program("model.pte").load_method("forward").execute((x,))

Needs the packages torch and executorch 1.5. Importing this module registers the backend with ExecuTorch's Python
runtime. At the first import a C++ compiler builds the library that runs .pte files. If that fails, a note and the error
of `register()` say why; .pte files can then be written but not run.
"""

from __future__ import annotations

import sys

from clave.errors import Error
from clave.executorch.backend import ClaveBackend
from clave.executorch.partitioner import ClavePartitioner
from clave.executorch.runtime import last_error, register

__all__ = ["ClaveBackend", "ClavePartitioner", "last_error", "register"]

try:
    register()
except Error as e:  # exporting needs no runtime
    print(f"clave: note: .pte files can be written here, but not run: {e}", file=sys.stderr)
