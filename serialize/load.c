/* Programs from files: what the first bytes say it is, then decoder, verifier, constants. */
#include <stdlib.h>
#include <string.h>

#include "serialize/decode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

/* What people hand us instead of a program, by its first bytes. */
static const struct {
  size_t offset;
  const char *bytes, *what;
} strangers[] = {
    {0, "PK\x03\x04",
     "a zip archive (a .pt2 or .pt file?); python -m clave export makes a program of a .pt2"},
    {0, "GGUF", "a GGUF model; python -m clave from-gguf makes a program of one"},
    {0,
     "\x7f"
     "ELF",
     "an executable"},
    {0, "\x80\x02", "a Python pickle"},
    {4, "TFL3", "a TensorFlow Lite model"},
    {4, IR_FILE_IDENTIFIER, "a bare FlatBuffers program without its constants"},
    {8, "{\"", "a safetensors file, which holds tensors but no program"},
    {0, "\xef\xbb\xbf", "text with a byte order mark, which JSON must not have"},
};

static clave_status stranger_error(const uint8_t *bytes, size_t size) {
  if (size == 0) return INVALID("expected a .clv or .json program, got an empty file");
  for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
    size_t at = strangers[i].offset, n = strlen(strangers[i].bytes);
    if (size >= at + n && memcmp(bytes + at, strangers[i].bytes, n) == 0) {
      return INVALID("expected a .clv or .json program, got %s", strangers[i].what);
    }
  }
  return INVALID("is neither a .clv nor a .json program");
}

/* The first byte that is not white space, 0 if there is none. */
static uint8_t first_byte(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\r')
      return bytes[i];
  }
  return 0;
}

char *consts_path_beside(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return strdup("consts.safetensors");
  char *folder = strndup(path, (size_t)(slash - path) + 1);
  char *result = folder ? path_join(folder, "consts.safetensors") : NULL;
  free(folder);
  return result;
}

static clave_status bind_by_name(program *p, uint32_t i) {
  const tensor stored = tensor_stored(&p->types[i]), *want = &stored;
  const tensor_entry *t = tensor_file_find(p->tensors, p->ir.constants.items[i].name);
  if (!t) return INVALID("no such tensor");
  bool same = t->type == want->type && t->rank == want->rank;
  for (int k = 0; same && k < want->rank; k++) same = t->dims[k] == want->dims[k];
  if (!same)
    return INVALID("%s of rank %d, the program declares %s of rank %d with other sizes",
                   dtype_name(t->type), t->rank, dtype_name(want->type), want->rank);
  return bind_constant(p, i, t->data);
}

/* One of the program's two files. */
static clave_status open_file(program *p, int which, const char *path) {
  p->paths[which] = mem_pool_strdup(p->pool, path, strlen(path));
  return p->paths[which] ? file_map_open(path, &p->maps[which]) : status_no_memory();
}

static clave_status bind_tensors(program *p, const char *path) {
  TRY(open_file(p, 1, path));
  clave_status st = tensor_file_parse(p->maps[1].data, p->maps[1].size, &p->tensors);
  for (uint32_t i = 0; !st && i < p->ir.constants.count; i++) {
    st = status_while(bind_by_name(p, i), "constant %u ('%.200s')", i,
                      p->ir.constants.items[i].name);
  }
  if (!st) st = program_check_hashes(p);
  return status_while(st, "%s", path);
}

static clave_status load_constants(program *p, const char *path, const char *consts) {
  TRY(alloc_constants(p));
  if (p->ir.constants.count == 0) return NULL;
  if (consts) return bind_tensors(p, consts);
  char *beside = consts_path_beside(path);
  if (!beside) return status_no_memory();
  clave_status st = bind_tensors(p, beside);
  free(beside);
  return st;
}

static clave_status load_json(program *p, const char *path, const char *consts) {
  TRY(decode_json((const char *)p->maps[0].data, p->maps[0].size, p->pool, &p->ir));
  file_map_close(&p->maps[0]);
  TRY(verify_program(p));
  return load_constants(p, path, consts);
}

static clave_status load_file(program *p, const char *path, const char *consts) {
  const uint8_t *bytes = p->maps[0].data;
  size_t size = p->maps[0].size;
  if (is_clv(bytes, size)) {
    if (consts)
      return INVALID("is a .clv, which has its constants inside, so %s cannot be used with it",
                     consts);
    return clv_read(p, bytes, size);
  }
  return first_byte(bytes, size) == '{' ? load_json(p, path, consts) : stranger_error(bytes, size);
}

static clave_status open_program(const char *path, program *p) {
  clave_status st = open_file(p, 0, path);
  if (!st || !folder_exists(path)) return st;
  status_free(st);
  return INVALID(
      "%s: expected a .clv or .json program, got a folder; python -m clave.llm.export makes one of "
      "a Hugging Face model's folder",
      path);
}

enum { FORM_BYTES_ALIGNMENT = 64 }; /* of what kernels read as vectors */

static clave_status load_bytes(program *p, const void *clv, size_t size) {
  if (!is_clv(clv, size))
    return first_byte(clv, size) == '{' ? INVALID("expected a .clv, got a .json program")
                                        : stranger_error(clv, size);
  TRY(clv_read(p, clv, size));
  if ((uintptr_t)clv % FORM_BYTES_ALIGNMENT) program_drop_forms(p);
  return NULL;
}

clave_status program_load_bytes(const void *clv, size_t size, const char *name, program **out) {
  program *p;
  *out = NULL;
  TRY(program_new(&p));
  clave_status st = load_bytes(p, clv, size);
  if (st) {
    program_destroy(p);
    return status_while(st, "%s", name);
  }
  *out = p;
  return NULL;
}

/* Reports that a file was cut short in place of errors that follow from it. */
static clave_status check_after(const program *p, clave_status st) {
  clave_status cut = NULL;
  if (!st) return program_check_files(p);
  for (size_t i = 0; !cut && i < sizeof p->maps / sizeof *p->maps; i++)
    cut = file_map_check(&p->maps[i], p->paths[i], NULL);
  if (!cut) return st;
  status_free(st);
  return cut;
}

clave_status program_load(const char *path, const char *consts, program **out) {
  program *p;
  *out = NULL;
  TRY(program_new(&p));
  clave_status st = open_program(path, p);
  if (!st) st = status_while(load_file(p, path, consts), "%s", path);
  st = check_after(p, st);
  if (st) {
    program_destroy(p);
    return st;
  }
  *out = p;
  return NULL;
}
