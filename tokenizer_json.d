tokenizer_json.o: import/gguf/tokenizer_json.c import/gguf/vocabulary.h \
  import/gguf/file.h import/importer.h base/file.h base/status.h \
  base/memory.h include/clave_builder.h include/clave.h import/import.h \
  json/writer.h

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
