fuzz_gguf.o: test/fuzz/fuzz_gguf.c include/clave_files.h include/clave.h \
  include/clave_tokenizer.h test/fuzz/target.h

include/clave_files.h:

include/clave.h:

include/clave_tokenizer.h:

test/fuzz/target.h:
