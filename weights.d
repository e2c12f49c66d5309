weights.o: import/gguf/weights.c import/gguf/weights.h import/gguf/file.h \
  import/importer.h base/file.h base/status.h base/memory.h \
  include/clave_builder.h include/clave.h import/import.h import/value.h \
  import/number.h base/encoding.h base/dtype.h import/coded.h

import/gguf/weights.h:

import/gguf/file.h:

import/importer.h:

base/file.h:

base/status.h:

base/memory.h:

include/clave_builder.h:

include/clave.h:

import/import.h:

import/value.h:

import/number.h:

base/encoding.h:

base/dtype.h:

import/coded.h:
