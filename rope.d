rope.o: import/gguf/rope.c import/gguf/rope.h import/gguf/architecture.h \
  import/gguf/file.h import/importer.h base/file.h base/status.h \
  base/memory.h include/clave_builder.h include/clave.h import/import.h

import/gguf/rope.h:

import/gguf/architecture.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:
