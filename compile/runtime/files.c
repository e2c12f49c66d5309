/* Reads and writes tensor files by their extensions. */
#include "compile/runtime/files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/npy.h"
#include "base/small_alloc.h"
#include "compile/runtime/arguments.h"
#include "compile/runtime/safetensors.h"

/* ---------------------------------------------------------------- inputs */

static void append_shape(text *text, dtype type, int rank, const int64_t *dims) {
  text_printf(text, "%s (", dtype_name(type));
  for (int i = 0; i < rank; i++) text_printf(text, "%s%lld", i ? ", " : "", (long long)dims[i]);
  text_puts(text, ")");
}

/* Checks that dtype and shape in the file match the input. */
static clave_status runtime_files_check_shape(const char *path, const model_method *method,
                                              const model_argument *argument,
                                              const stored_tensor *tensor) {
  bool fits = tensor->type == argument->type && tensor->rank == argument->rank;
  for (int i = 0; fits && i < argument->rank; i++)
    fits = argument->dims[i] < 0 || argument->dims[i] == tensor->dims[i];
  if (fits) return NULL;
  text text = {0};
  append_shape(&text, tensor->type, tensor->rank, tensor->dims);
  text_printf(&text, " does not fit input '%s', which is ", argument->name);
  append_type(&text, method, argument);
  clave_status st = text_status(&text);
  if (!st) st = INVALID("%s: %s", path, text.data);
  text_free(&text);
  return st;
}

/* Copies elements if they have another order or are not aligned to their dtype. */
static clave_status set_elements(const npy_array *array, input_file *file) {
  const bool is_aligned = (uintptr_t)array->data % dtype_size(array->type) == 0;
  file->data = array->data;
  file->bytes = array->bytes;
  file->has_shape = true;
  memcpy(file->dims, array->dims, sizeof file->dims);
  if (!array->bytes || (is_aligned && (!array->is_fortran || array->rank < 2))) return NULL;
  file->copy = small_alloc(array->bytes);
  if (!file->copy) return status_no_memory();
  if (array->is_fortran) {
    npy_copy(array, file->copy);
  } else {
    memcpy(file->copy, array->data, array->bytes);
  }
  file->data = file->copy;
  return NULL;
}

static clave_status runtime_files_read_npy(const char *path, const model_method *method,
                                           const model_argument *argument, input_file *file) {
  npy_array array;
  TRY(npy_read(path, file->map.data, file->map.size, &array));
  stored_tensor tensor = {.type = array.type, .rank = array.rank};
  memcpy(tensor.dims, array.dims, sizeof tensor.dims);
  TRY(runtime_files_check_shape(path, method, argument, &tensor));
  return set_elements(&array, file);
}

static clave_status read_safetensors(const char *path, const model_method *method, int number,
                                     input_file *file) {
  char other[24];
  stored_tensor tensor;
  const model_argument *argument = &method->inputs[number];
  (void)snprintf(other, sizeof other, "input_%d", number);
  clave_status st =
      stored_tensor_find(file->map.data, file->map.size, argument->name, other, &tensor);
  if (st) return status_while(st, "%s", path);
  TRY(runtime_files_check_shape(path, method, argument, &tensor));
  npy_array array = {
      .type = tensor.type, .rank = tensor.rank, .data = tensor.data, .bytes = tensor.bytes};
  memcpy(array.dims, tensor.dims, sizeof array.dims);
  return set_elements(&array, file);
}

static clave_status runtime_files_read_file(const char *path, const model_method *method,
                                            int number, input_file *file) {
  if (path_has_ending(path, ".npy"))
    return runtime_files_read_npy(path, method, &method->inputs[number], file);
  if (path_has_ending(path, ".safetensors")) return read_safetensors(path, method, number, file);
  file->data = file->map.data;
  file->bytes = file->map.size;
  return NULL;
}

clave_status input_file_open(const char *path, const model_method *method, int number,
                             input_file *out) {
  *out = (input_file){0};
  TRY(file_map_open(path, &out->map));
  return runtime_files_read_file(path, method, number, out);
}

void input_file_close(input_file *file) {
  file_map_close(&file->map);
  small_free(file->copy);
  *file = (input_file){0};
}

/* ---------------------------------------------------------------- outputs */

static clave_status runtime_files_describe(const model_argument *argument, const model_value *value,
                                           const char *path, stored_tensor *out) {
  *out = (stored_tensor){.type = argument->type, .rank = argument->rank, .data = value->data};
  memcpy(out->dims, value->dims, sizeof out->dims);
  return argument_bytes(argument, value->dims, &out->bytes)
             ? NULL
             : INVALID("%s: the size of the output overflows", path);
}

static bool is_of_earlier(char *const *paths, int i) {
  for (int j = 0; j < i; j++)
    if (strcmp(paths[j], paths[i]) == 0) return true;
  return false;
}

/* Gathers output `first` and later outputs of the same path. */
static clave_status runtime_files_gather(const model_method *method, const model_value *outputs,
                                         char *const *paths, int first, stored_tensor *tensors,
                                         const char **names, int *count) {
  for (int i = first; i < method->n_outputs; i++) {
    if (strcmp(paths[i], paths[first]) != 0) continue;
    names[*count] = method->outputs[i].name;
    TRY(runtime_files_describe(&method->outputs[i], &outputs[i], paths[i], &tensors[(*count)++]));
  }
  return NULL;
}

static clave_status write_safetensors(const model_method *method, const model_value *outputs,
                                      char *const *paths, int first, file_writer *writer) {
  const size_t most = (size_t)method->n_outputs;
  stored_tensor *tensors = small_alloc(most * sizeof *tensors);
  const char **names = small_alloc(most * sizeof *names);
  int n = 0;
  clave_status st = tensors && names ? NULL : status_no_memory();
  if (!st) st = runtime_files_gather(method, outputs, paths, first, tensors, names, &n);
  if (!st) st = stored_tensors_write(writer, tensors, names, n);
  small_free(names);
  small_free(tensors);
  return st;
}

static clave_status write_array(const stored_tensor *tensor, bool is_npy, file_writer *writer) {
  char header[NPY_HEADER_BYTES];
  if (is_npy)
    TRY(file_writer_append(writer, header,
                           npy_write_header(tensor->type, tensor->rank, tensor->dims, header)));
  return file_writer_append(writer, tensor->data, tensor->bytes);
}

clave_status output_files_write(const model_method *method, const model_value *outputs,
                                char *const *paths, file_writer **writers) {
  for (int i = 0; i < method->n_outputs; i++) {
    stored_tensor tensor;
    const bool is_shared = path_has_ending(paths[i], ".safetensors");
    if (is_shared && is_of_earlier(paths, i)) continue;
    TRY(runtime_files_describe(&method->outputs[i], &outputs[i], paths[i], &tensor));
    TRY(file_writer_create(paths[i], &writers[i]));
    if (is_of_earlier(paths, i) && file_writer_replaces(writers[i]))
      return INVALID(
          "%s: the file is given for two outputs, and only a .safetensors can store both",
          paths[i]);
    TRY(is_shared ? write_safetensors(method, outputs, paths, i, writers[i])
                  : write_array(&tensor, path_has_ending(paths[i], ".npy"), writers[i]));
    TRY(file_writer_flush(writers[i]));
  }
  return NULL;
}
