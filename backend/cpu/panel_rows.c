/* IndexSelect of a table that a product reads, too (tied embeddings): of the panels that the
 * product packs, so that the pages of the table itself need not stay in memory. */
#include "backend/cpu/panel_rows.h"

#include "backend/cpu/kernels/gemm/panel_rows.h"

clave_status cpu_panel_rows(cpu_recorder *r, const dequantize_form *f, const bound_tensor *as_b) {
  const cpu_packed_request panels = {
      .kind = CPU_PACKED_MATMUL, .x = as_b, .size = {f->rows, f->row, f->row}};
  const cpu_packed_or_plain table = cpu_packed_by_others(r, &panels, f->x);
  return cpu_launch(r, panel_rows,
                    &(panel_rows_args){.x = table.plain,
                                       .panels = table.packed,
                                       .index = cpu_view(r, f->index, &f->places),
                                       .out = cpu_operand(r, f->out).data,
                                       .x_type = f->x->t.type,
                                       .type = f->out->t.type,
                                       .encoding = f->x->t.encoding,
                                       .rows = f->rows,
                                       .row = f->row,
                                       .n_picks = f->n_picks});
}
