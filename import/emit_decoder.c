/* Rotary embeddings, and attention over caches. */
#include "import/emit_decoder.h"

#include <string.h>

value *emit_rope(importer *im, value *input, value *cos, value *sin, bool interleaved) {
  if (!input || !cos || !sin || !import_ok(im)) return NULL;
  const int last = input->rank - 1;
  const number size = input->dims[last],
               rotated = number_mul(im, cos->dims[cos->rank - 1], number_int(2));
  value *part = emit_slice(im, input, last, number_int(0), rotated);
  if (!emit_prepare(im, part) || !emit_prepare(im, cos) || !emit_prepare(im, sin)) return NULL;
  value *out = emit_begin_move(im, "Rope", part, part->rank, part->dims);
  if (!out) return NULL;
  emit_set_tensor(im, "cos", cos);
  emit_set_tensor(im, "sin", sin);
  clave_builder_set_bool(im->builder, "interleaved", interleaved);
  if (number_is_same(rotated, size)) return out;
  value *rest = emit_slice(im, input, last, rotated, size);
  return emit_cat(im, (value *[]){out, rest}, 2, last);
}

value *emit_cached_attention(importer *im, cached_attention *call) {
  number dims[4];
  if (!emit_prepare(im, call->q) || !emit_prepare(im, call->k) || !emit_prepare(im, call->v) ||
      !call->keys || !call->values || (call->sinks && !emit_prepare(im, call->sinks)))
    return NULL;
  memcpy(dims, call->q->dims, sizeof dims);
  dims[3] = call->v->dims[3];
  value *out = emit_begin(im, "AttentionCached", call->q->type, 4, dims);
  emit_set_tensor(im, "q", call->q);
  emit_set_tensor(im, "k", call->k);
  emit_set_tensor(im, "v", call->v);
  emit_set_tensor(im, "position", call->position);
  emit_set_tensor(im, "key_cache", call->keys);
  emit_set_tensor(im, "value_cache", call->values);
  emit_set_tensor(im, "sinks", call->sinks);
  emit_set_tensor(im, "key_scale", call->key_scales);
  emit_set_tensor(im, "value_scale", call->value_scales);
  if (!out) return NULL;
  if (call->window > 0) clave_builder_set_int(im->builder, "window", call->window);
  if (call->scale != 0) clave_builder_set_float(im->builder, "scale", call->scale);
  if (call->softcap > 0) clave_builder_set_float(im->builder, "softcap", call->softcap);
  call->keys = emit_result(im, "key_cache_out", call->keys->type, 4, call->keys->dims);
  call->values = emit_result(im, "value_cache_out", call->values->type, 4, call->values->dims);
  if (call->key_scales) {
    call->key_scales = emit_result(im, "key_scale_out", CLAVE_F32, 3, call->key_scales->dims);
    call->value_scales = emit_result(im, "value_scale_out", CLAVE_F32, 3, call->value_scales->dims);
  }
  return call->keys && call->values ? out : NULL;
}
