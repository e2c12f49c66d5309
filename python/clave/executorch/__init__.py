"""clave as a backend of ExecuTorch: models become .pte files whose parts clave runs.

edge = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[ClavePartitioner()])
Path("model.pte").write_bytes(edge.to_executorch().buffer)
outputs = Runtime.get().load_program("model.pte").load_method("forward").execute((x,))

Needs the packages torch and executorch 1.5. Importing this registers the backend with ExecuTorch's Python runtime. The
library that runs .pte files is built at the first import, by a C++ compiler; where that cannot be a note, and
`register()`, say why, and files can be made but not run.
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
    print(f"clave: note: .pte files can be made here, but not run: {e}", file=sys.stderr)
