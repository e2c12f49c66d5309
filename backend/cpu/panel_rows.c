/* IndexSelect of a table that a product also reads (tied embeddings). It reads rows from the panels
 * that the product packs, so that the pages of the table itself need not stay in memory. */
#include "backend/cpu/panel_rows.h"

#include "backend/cpu/kernels/gemm/panel_rows.h"

clave_status cpu_panel_rows(cpu_recorder *recorder, const dequantize_desc *desc,
                            const bound_tensor *as_b) {
  const cpu_packed_request panels = {
      .kind = CPU_PACKED_MATMUL, .x = as_b, .size = {desc->rows, desc->row, desc->row}};
  const cpu_packed_or_plain table = cpu_packed_by_others(recorder, &panels, desc->x);
  return cpu_launch(recorder, panel_rows,
                    &(panel_rows_args){.x = table.plain,
                                       .panels = table.packed,
                                       .index = cpu_view(recorder, desc->index, &desc->places),
                                       .out = cpu_operand(recorder, desc->out).data,
                                       .x_type = desc->x->tensor.type,
                                       .type = desc->out->tensor.type,
                                       .encoding = desc->x->tensor.encoding,
                                       .rows = desc->rows,
                                       .row = desc->row,
                                       .n_picks = desc->n_picks});
}
