vocabulary.o: import/gguf/vocabulary.c import/gguf/vocabulary.h \
  import/gguf/file.h import/importer.h base/file.h base/status.h \
  base/memory.h include/clave_builder.h include/clave.h import/import.h \
  json/writer.h base/hash.h

import/gguf/vocabulary.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:

json/writer.h:

base/hash.h:
