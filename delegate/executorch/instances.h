#ifndef DELEGATE_EXECUTORCH_INSTANCES_H
#define DELEGATE_EXECUTORCH_INSTANCES_H
// Objects that a delegate's payload names in a loaded .pte: a program on a device, and an instance
// of it, which the methods of one model share together with its state.
#include <executorch/runtime/core/error.h>
#include <executorch/runtime/core/event_tracer.h>
#include <executorch/runtime/core/named_data_map.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "clave_delegate.h"

namespace clave {

using executorch::runtime::Error;

// Returns the plugin's functions. Its library is linked, so they always exist.
const clave_delegate &plugin();

// Logs the error, keeps it for clave_executorch_error, and frees `status`.
Error failed(clave_status status, const char *what);
Error failed(Error code, const std::string &message);

// A handle of the plugin that is closed with its last owner.
class Owned {
 public:
  using Close = clave_status (*)(clave_delegate_handle);
  Owned(clave_delegate_handle h, Close close) : handle(h), close_(close) {}
  ~Owned();
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  const clave_delegate_handle handle;

 private:
  Close close_;
};

// Settings of an instance. Empty and 0 mean the plugin's defaults.
struct Settings {
  std::string device;
  std::string cache_dir;
  int n_threads = 0;
  uint64_t memory_budget = 0;
  bool fast = false;
  bool node_events = false;
  bool shares_state = false;  // methods share state; set only by the export
  bool operator==(const Settings &other) const;
};

// An instance, for one call at a time: each call holds `mutex`.
struct Instance {
  std::shared_ptr<Owned> device, program, owned;  // destroyed from the last to the first
  Settings settings;
  std::mutex mutex;
  std::set<std::string> methods, left;  // users, former users; guarded by the registry's mutex
  executorch::runtime::EventTracer *tracer = nullptr;  // tracer of the call in progress
  const void *identity = nullptr;                      // identifies the loaded .pte
  std::string key;                                     // key of the program in the .pte
  clave_delegate_handle handle() const { return owned->handle; }
};

// Finds or makes the instance for `method` of the program with this key. Methods of one loaded .pte
// with equal settings share an instance, unless `method` has left its state in it.
Error find_instance(const executorch::runtime::NamedDataMap &map, const std::string &key,
                    const std::string &method, const Settings &settings,
                    std::shared_ptr<Instance> *out);
// Ends the use of the instance by `method`.
void leave_instance(Instance &instance, const std::string &method);

}  // namespace clave

#endif
