decoder.o: import/gguf/decoder.c import/gguf/decoder.h \
  import/gguf/architecture.h import/gguf/file.h import/importer.h \
  base/file.h base/status.h base/memory.h include/clave_builder.h \
  include/clave.h import/import.h import/emit.h import/value.h \
  import/number.h import/gguf/rope.h import/gguf/weights.h

import/gguf/decoder.h:

import/gguf/architecture.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:

import/emit.h:

import/value.h:

import/number.h:

import/gguf/rope.h:

import/gguf/weights.h:
