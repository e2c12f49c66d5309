keys.o: import/gguf/keys.c base/utf8.h import/gguf/file.h \
  import/importer.h base/file.h base/status.h base/memory.h \
  include/clave_builder.h include/clave.h import/import.h

base/utf8.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:
