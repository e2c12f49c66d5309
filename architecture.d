architecture.o: import/gguf/architecture.c import/gguf/architecture.h \
  import/gguf/file.h import/importer.h base/file.h base/status.h \
  base/memory.h include/clave_builder.h include/clave.h import/import.h

import/gguf/architecture.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:
