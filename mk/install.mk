# Installs files under $(PREFIX) and $(LIBDIR). `make uninstall` removes all of them.
SHARED = $(if $(PAGES),$(patsubst $(BUILD)/share/%,%,$(filter-out %/made,$(shell find $(BUILD)/share -type f 2>/dev/null))))
FILLED = sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|; s|@MINOR@|$(basename $(VERSION))|; s|@ABI@|$(ABI)|; \
  s|@TO_PREFIX@|$(shell realpath -m --relative-to=$(LIBDIR)/cmake/clave $(PREFIX))|'
# Sources from which the backend is built for the version of ExecuTorch on the user's machine.
EXECUTORCH_SOURCES = $(wildcard delegate/executorch/*) delegate/clave_delegate.h include/clave.h
# Files are installed without debugging information, which is most of their size. The debug files that they refer to are made in
# $(BUILD)/debug. `make install-debug` installs them into .debug/, where debuggers look first. INSTALL_STRIP= installs files as built.
INSTALL_STRIP ?= --strip-debug
SHARED_LIBRARIES = libclave.so libclave_delegate.so libclave_executorch.so
DEBUG_FILES = $(addprefix $(BUILD)/debug/,$(addsuffix .debug,clave libclave.so libclave_delegate.so $(notdir $(wildcard $(BUILD)/libclave_executorch.so))))
$(BUILD)/debug/%.debug: $(BUILD)/%
	@mkdir -p $(@D)
	$(CROSS)objcopy --only-keep-debug --compress-debug-sections $< $@
	@chmod 644 $@
# $(call installed,FILE,TO,MODE) installs an executable or a shared library, $(call installed_archive,FILE,TO) a static library.
installed = rm -f $2 && $(if $(INSTALL_STRIP),$(CROSS)objcopy $(INSTALL_STRIP) --add-gnu-debuglink=$(BUILD)/debug/$(notdir $1).debug $1 $2 && chmod $3 $2,install -m $3 $1 $2)
installed_archive = rm -f $2 && $(if $(INSTALL_STRIP),$(CROSS)objcopy --strip-debug $1 $2 && chmod 644 $2,install -m 644 $1 $2)
INSTALLED = $(addprefix $(PREFIX)/,$(EXECUTORCH_SOURCES:%=share/clave/%) bin/clave bin/.debug/clave.debug $(wildcard include/*.h) include/clave_delegate.h $(addprefix share/,$(SHARED))) $(addprefix $(LIBDIR)/,$(SHARED_LIBRARIES:%=.debug/%.debug) libclave.a libclave_main.a libclave_delegate.so libclave_executorch.so libclave.so \
  libclave.so.$(ABI) libclave.so.$(VERSION) pkgconfig/clave.pc cmake/clave/claveConfig.cmake cmake/clave/claveConfigVersion.cmake)
install: all $(if $(INSTALL_STRIP),$(DEBUG_FILES)) ## installs library, headers, tool, manual pages, pkg-config and CMake files under $(DESTDIR)$(PREFIX)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(LIBDIR)/cmake/clave
	install -m 644 include/*.h $(DESTDIR)$(PREFIX)/include
	$(call installed_archive,$(BUILD)/libclave.a,$(DESTDIR)$(LIBDIR)/libclave.a)
	$(call installed_archive,$(BUILD)/libclave_main.a,$(DESTDIR)$(LIBDIR)/libclave_main.a)
	$(call installed,$(BUILD)/libclave.so,$(DESTDIR)$(LIBDIR)/libclave.so.$(VERSION),644)
	ln -sf libclave.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libclave.so.$(ABI)
	ln -sf libclave.so.$(ABI) $(DESTDIR)$(LIBDIR)/libclave.so
	install -m 644 delegate/clave_delegate.h $(DESTDIR)$(PREFIX)/include
	$(call installed,$(BUILD)/libclave_delegate.so,$(DESTDIR)$(LIBDIR)/libclave_delegate.so,755)
	[ ! -e $(BUILD)/libclave_executorch.so ] || { $(call installed,$(BUILD)/libclave_executorch.so,$(DESTDIR)$(LIBDIR)/libclave_executorch.so,755); }
	for f in $(EXECUTORCH_SOURCES); do install -D -m $$([ -x $$f ] && echo 755 || echo 644) $$f $(DESTDIR)$(PREFIX)/share/clave/$$f || exit 1; done
	$(call installed,$(BUILD)/clave,$(DESTDIR)$(PREFIX)/bin/clave,755)
	for f in $(SHARED); do install -D -m 644 $(BUILD)/share/$$f $(DESTDIR)$(PREFIX)/share/$$f || exit 1; done
	$(FILLED) packaging/clave.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/clave.pc
	for f in Config ConfigVersion; do $(FILLED) packaging/clave$$f.cmake.in > $(DESTDIR)$(LIBDIR)/cmake/clave/clave$$f.cmake; done
install-strip: ## installs like make install, with the names of internal symbols removed, too
	@$(MAKE) --no-print-directory install INSTALL_STRIP=--strip-unneeded
install-debug: $(DEBUG_FILES) ## installs the debug files of the files that make install installs
	install -d $(DESTDIR)$(PREFIX)/bin/.debug $(DESTDIR)$(LIBDIR)/.debug
	install -m 644 $(BUILD)/debug/clave.debug $(DESTDIR)$(PREFIX)/bin/.debug
	install -m 644 $(filter-out %/clave.debug,$(DEBUG_FILES)) $(DESTDIR)$(LIBDIR)/.debug
uninstall: $(PAGES) ## removes the files that make install and make install-debug installed
	rm -f $(addprefix $(DESTDIR),$(INSTALLED))
	@for d in $(PREFIX)/bin/.debug $(LIBDIR)/.debug; do [ ! -d $(DESTDIR)$$d ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$$d; done
	@[ ! -d $(DESTDIR)$(LIBDIR)/cmake/clave ] || rmdir $(DESTDIR)$(LIBDIR)/cmake/clave
	@for d in clave/delegate/executorch clave/delegate clave/include clave; do [ ! -d $(DESTDIR)$(PREFIX)/share/$$d ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$(PREFIX)/share/$$d; done
