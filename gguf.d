gguf.o: import/gguf/gguf.c import/gguf/gguf.h import/importer.h \
  base/file.h base/status.h base/memory.h include/clave_builder.h \
  include/clave.h import/import.h import/gguf/decoder.h \
  import/gguf/architecture.h import/gguf/file.h import/gguf/metadata.h \
  import/gguf/weights.h import/value.h import/number.h

import/gguf/gguf.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:

import/gguf/decoder.h:

import/gguf/architecture.h:

import/gguf/file.h:

import/gguf/metadata.h:

import/gguf/weights.h:

import/value.h:

import/number.h:
