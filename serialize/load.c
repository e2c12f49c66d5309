/* Loads programs from files: detects the format by the first bytes, decodes and verifies the
 * program, and binds its constants. */
#include <stdlib.h>
#include <string.h>

#include "serialize/decode.h"
#include "serialize/program_files.h"
#include "serialize/verify.h"

/* Files that users pass by mistake: bytes by which to recognize them, and how the message calls
 * them. */
static const struct {
  size_t offset;
  const char *bytes, *what;
} other_formats[] = {
    {0, "PK\x03\x04",
     "a zip archive (a .pt2 or .pt file?); python -m clave export converts a .pt2"},
    {0, "GGUF", "a GGUF model; python -m clave from-gguf converts it"},
    {0,
     "\x7f"
     "ELF",
     "an executable"},
    {0, "\x80\x02", "a Python pickle"},
    {4, IR_FILE_IDENTIFIER, "a bare FlatBuffers program without its constants"},
    {8, "{\"", "a safetensors file, which has tensors but no program"},
    {0, "\xef\xbb\xbf", "text with a byte order mark, which JSON does not allow"},
};

static clave_status wrong_format_error(const uint8_t *bytes, size_t size) {
  if (size == 0) return INVALID("expected a .clv or .json program, got an empty file");
  for (size_t i = 0; i < sizeof other_formats / sizeof *other_formats; i++) {
    size_t at = other_formats[i].offset, n = strlen(other_formats[i].bytes);
    if (size >= at + n && memcmp(bytes + at, other_formats[i].bytes, n) == 0) {
      return INVALID("expected a .clv or .json program, got %s", other_formats[i].what);
    }
  }
  return INVALID("the file is neither a program (.clv, .json) nor a model (.onnx, .tflite, .gguf)");
}

/* Returns the first byte that is not white space, 0 if none exists. */
static uint8_t first_byte(const uint8_t *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (bytes[i] != ' ' && bytes[i] != '\t' && bytes[i] != '\n' && bytes[i] != '\r')
      return bytes[i];
  }
  return 0;
}

char *consts_path_beside(const char *path) {
  const size_t name = path_last(path);
  if (!name) return strdup("consts.safetensors");
  char *folder = strndup(path, name);
  char *result = folder ? path_join(folder, "consts.safetensors") : NULL;
  free(folder);
  return result;
}

static clave_status bind_by_name(program *program, uint32_t i) {
  const tensor stored = tensor_stored(&program->types[i]), *want = &stored;
  const tensor_entry *entry =
      tensor_file_find(program->tensors, program->ir.constants.items[i].name);
  if (!entry) return INVALID("the constants file has no tensor of this name");
  bool same = entry->type == want->type && entry->rank == want->rank;
  for (int k = 0; same && k < want->rank; k++) same = entry->dims[k] == want->dims[k];
  if (!same)
    return INVALID(
        "the constants file has %s of rank %d, and the program declares %s of rank %d with other "
        "sizes",
        dtype_name(entry->type), entry->rank, dtype_name(want->type), want->rank);
  return bind_constant(program, i, entry->data);
}

static clave_status bind_tensor_file(program *program, const char *path) {
  TRY(program_open_file(program, path));
  const file_map *map = &program->files[program->n_files - 1].map;
  clave_status st = tensor_file_parse(map->data, map->size, &program->tensors);
  for (uint32_t i = 0; !st && i < program->ir.constants.count; i++) {
    st = status_while(bind_by_name(program, i), "constant %u ('%.200s')", i,
                      program->ir.constants.items[i].name);
  }
  if (!st) st = program_check_hashes(program);
  return status_while(st, "%s", path);
}

static clave_status load_constants(program *program, const char *path, const char *consts) {
  TRY(alloc_constants(program));
  if (program->ir.constants.count == 0) return NULL;
  if (consts) return bind_tensor_file(program, consts);
  char *beside = consts_path_beside(path);
  if (!beside) return status_no_memory();
  clave_status st = bind_tensor_file(program, beside);
  free(beside);
  return st;
}

static clave_status load_json(program *program, const char *path, const char *consts) {
  const file_map *map = &program->files[0].map;
  TRY(decode_json((const char *)map->data, map->size, program->pool, &program->ir));
  program_close_file(program);
  TRY(verify_program(program));
  return load_constants(program, path, consts);
}

static clave_status load_mapped(program *program, const char *path, const char *consts) {
  const uint8_t *bytes = program->files[0].map.data;
  size_t size = program->files[0].map.size;
  if (is_clv(bytes, size)) {
    if (consts)
      return INVALID(
          "the program is a .clv, which contains its constants, so %s cannot be used with it",
          consts);
    return clv_read(program, bytes, size);
  }
  return first_byte(bytes, size) == '{' ? load_json(program, path, consts)
                                        : wrong_format_error(bytes, size);
}

static clave_status open_program_file(const char *path, program *program) {
  clave_status st = program_open_file(program, path);
  if (!st || !folder_exists(path)) return st;
  status_free(st);
  return INVALID(
      "%s: expected a .clv or .json program, got a folder; python -m clave.llm.export converts a "
      "Hugging Face model folder",
      path);
}

enum { PACKED_BYTES_ALIGNMENT = 64 }; /* kernels read the bytes as vectors */

static clave_status load_clv_bytes(program *program, const void *clv, size_t size) {
  if (!is_clv(clv, size))
    return first_byte(clv, size) == '{' ? INVALID("expected a .clv, got a .json program")
                                        : wrong_format_error(clv, size);
  TRY(clv_read(program, clv, size));
  if ((uintptr_t)clv % PACKED_BYTES_ALIGNMENT) program_drop_packed_weights(program);
  return NULL;
}

clave_status program_load_bytes(const void *clv, size_t size, const char *name, program **out) {
  program *program;
  *out = NULL;
  TRY(program_new(&program));
  clave_status st = load_clv_bytes(program, clv, size);
  if (st) {
    program_destroy(program);
    return status_while(st, "%s", name);
  }
  *out = program;
  return NULL;
}

/* Replaces an error that results from a truncated or changed file by one that says so. */
static clave_status check_after(const program *program, clave_status st) {
  clave_status cut = NULL;
  if (!st) return program_check_files(program);
  for (size_t i = 0; !cut && i < program->n_files; i++)
    cut = file_map_check(&program->files[i].map, program->files[i].path, NULL);
  if (!cut) return st;
  status_free(st);
  return cut;
}

clave_status program_load(const char *path, const char *consts, program **out) {
  program *program;
  *out = NULL;
  TRY(program_new(&program));
  clave_status st = open_program_file(path, program);
  if (!st) st = status_while(load_mapped(program, path, consts), "%s", path);
  st = check_after(program, st);
  if (st) {
    program_destroy(program);
    return st;
  }
  *out = program;
  return NULL;
}
