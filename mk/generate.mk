# Makes generated sources, again only after a change of their inputs.
$(GEN_HDR) $(GEN_SRC) $(PY_GEN)/schema.py docs/reference/ops.md &: $(wildcard serialize/*.py) serialize/schema.fbs ops/elementwise.tsv
	$(call say,GEN,$@)$(PYTHON) serialize/generate.py --out $(GEN) --python $(PY_GEN) --docs docs/reference --skip-flatc
$(GEN)/kernels_embed.c $(ARGS_HDR) &: backend/opencl/embed.py $(KERNELS)
	@mkdir -p $(GEN)
	$(call say,GEN,$@)$(PYTHON) $< --out $(GEN)/kernels_embed.c --header $(ARGS_HDR) $(KERNELS)
$(GEN)/args_checked: backend/opencl/check_args.py $(ARGS_HDR) $(wildcard $(OPENCL:%=%/*.c))
	$(call say,GEN,$@)$(PYTHON) $< --kernels $(KERNELS) --sources $(filter %.c,$^)
	@touch $@

# Sources from which compiled programs are built.
COMPILED := $(wildcard base/*.[ch] $(CPU_KERNELS:%=%/*.[ch]) compile/runtime/*.[ch]) $(addprefix compile/carried/,carried.h close.h library.h) \
  $(addprefix json/,json.h syntax.c writer.h writer.c) \
  $(filter-out %/backend.c %/buffer.c %/running.c,$(wildcard backend/cpu/*.[ch])) $(filter-out ops/work.%,$(wildcard ops/*.[ch])) backend/backend.h compile/open/planned.h compile/open/planned.c compile/open/by_rule.c \
  $(filter-out interp/plan/schedule_cache.%,$(wildcard interp/plan/*.[ch])) $(addprefix interp/,executable.h interp.h scalar.h scalar.c schedule.h schedule.c graph/graph.h graph/graph.c) \
  serialize/program.h serialize/numbering.c
COMPILED := $(filter-out base/tuning_%.c,$(COMPILED))
COMPILED_GEN = $(addprefix $(GEN)/,steps.def ir.h ir_desc.c op_rules.h cpu_ops.h steps_table.c)
$(GEN)/compile_tables.c: compile/sources.py backend/opencl/embed.py $(COMPILED) $(COMPILED_GEN)
	$(call say,GEN,$@)$(PYTHON) $< --out $@ $(COMPILED_GEN:%=--generated %) $(COMPILED)
