metadata.o: import/gguf/metadata.c import/gguf/metadata.h \
  import/gguf/file.h import/importer.h base/file.h base/status.h \
  base/memory.h include/clave_builder.h include/clave.h import/import.h \
  import/gguf/vocabulary.h json/writer.h

import/gguf/metadata.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:

import/gguf/vocabulary.h:

json/writer.h:
