/* Elements of tensors, and descriptions of tensors, as JSON. */
#include "cli/tensor_json.h"

#include "cli/values.h"

void emit_element(json_writer *writer, const char *key, clave_dtype dtype, const void *element) {
  if (dtype == CLAVE_BOOL) {
    emit_bool(writer, key, load_integer(dtype, element) != 0);
  } else if (dtype == CLAVE_U64) {
    emit_size(writer, key, (uint64_t)load_integer(dtype, element));
  } else if (is_integer(dtype)) {
    emit_integer(writer, key, load_integer(dtype, element));
  } else {
    emit_number(writer, key, load_number(dtype, element));
  }
}

/* Writes one bound per dimension; null if none exists. */
static void write_bounds(json_writer *writer, const char *key, const clave_tensor_info *info,
                         const int64_t *bounds) {
  emit_list(writer, key);
  for (int i = 0; i < info->rank; i++) {
    if (bounds[i] == INT64_MAX) {
      emit_string(writer, NULL, NULL);
    } else {
      emit_integer(writer, NULL, bounds[i]);
    }
  }
  emit_end_array(writer);
}

void emit_info(json_writer *writer, const clave_tensor_info *info) {
  bool dynamic = false;
  emit_string(writer, "name", info->name);
  emit_string(writer, "dtype", clave_dtype_name(info->dtype));
  if (info->is_scalar) emit_bool(writer, "scalar", true);
  if (info->encoding) emit_string(writer, "encoding", info->encoding_text);
  emit_list(writer, "shape");
  for (int i = 0; i < info->rank; i++) {
    bool known = info->dims[i] != CLAVE_DYNAMIC;
    dynamic |= !known;
    if (known) {
      emit_integer(writer, NULL, info->dims[i]);
    } else {
      emit_string(writer, NULL,
                  info->dim_names[i] && *info->dim_names[i] ? info->dim_names[i] : "?");
    }
  }
  emit_end_array(writer);
  if (!dynamic) return;
  write_bounds(writer, "min_shape", info, info->min_dims);
  write_bounds(writer, "max_shape", info, info->max_dims);
}
