header.o: import/gguf/header.c base/checked.h base/utf8.h \
  import/gguf/file.h import/importer.h base/file.h base/status.h \
  base/memory.h include/clave_builder.h include/clave.h import/import.h \
  import/gguf/types.def

base/checked.h:

base/utf8.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:

import/gguf/types.def:
