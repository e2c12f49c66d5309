# Builds the Python wheel, the source archive and Debian packages.
# The Python wheel has a library and a tool that need only libc and libm. Other libraries are linked statically.
STATIC = -Wl,-Bstatic -lpcre2-8 -lutf8proc -Wl,-Bdynamic -pthread -ldl -lm
EDIT_LIBS = edit bsd md tinfo
STATIC_EDIT := $(if $(EDIT),$(if $(strip $(foreach l,$(EDIT_LIBS),$(if $(wildcard /usr/lib/*/lib$l.a),,$l))),$(EDIT),-Wl$(comma)-Bstatic $(EDIT_LIBS:%=-l%) -Wl$(comma)-Bdynamic))
$(BUILD)/wheel/libclave.so: $(LIB_OBJ)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) -shared -s -Wl,-z,defs -Wl,-soname,$(@F) -Wl,--exclude-libs,ALL -o $@ $^ $(LDFLAGS) $(STATIC)
$(BUILD)/wheel/clave: $(CLI_OBJ) $(BUILD)/wheel/libclave.so
	$(call say,LD,$@)$(CC) -s -Wl,-rpath,'$$ORIGIN' -o $@ $^ $(LDFLAGS) $(STATIC_EDIT) -pthread -ldl -lm
$(BUILD)/wheel/libclave_delegate.so: $(DELEGATE_OBJ) $(BUILD)/wheel/libclave.so
	$(call say,LD,$@)$(CC) -shared -s -Wl,-z,defs -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -o $@ $^ $(LDFLAGS) -pthread -lm
# The wheel has the archives that `clave compile` links, without debugging information, and the libraries that language models need.
$(BUILD)/wheel/%.a: $(BUILD)/%.a
	@mkdir -p $(@D)
	$(quiet)$(CROSS)objcopy --strip-debug $< $@
$(addprefix $(BUILD)/wheel/,libpcre2-8.a libutf8proc.a):
	@mkdir -p $(@D)
	$(quiet)$(CROSS)objcopy --strip-debug $$($(CC) -print-file-name=$(@F)) $@
wheel-files: $(addprefix $(BUILD)/wheel/,libclave.so libclave_delegate.so clave libclave.a libclave_main.a libpcre2-8.a libutf8proc.a)

dist: ## packs the sources of the last commit into build/clave-VERSION.tar.gz
	@mkdir -p $(BUILD)
	git archive --format=tar --prefix=clave-$(VERSION)/ HEAD | gzip -n9 > $(BUILD)/clave-$(VERSION).tar.gz
deb: dist ## builds Debian packages of the last commit in build/deb
	@packaging/deb $(BUILD) $(VERSION)
wheel: ## builds a Python wheel with library and tool in build/dist
	@PYTHON=$(PYTHON) packaging/wheel $(BUILD)
clean: ## removes build/
	rm -rf build
