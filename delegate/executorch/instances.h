#ifndef DELEGATE_EXECUTORCH_INSTANCES_H
#define DELEGATE_EXECUTORCH_INSTANCES_H
// What a delegate's payload names in a loaded .pte: a program of clave's on a device, and an
// instance of it, which the methods of one model share with their state.
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

// The plugin's functions. Its library is linked, so that they are always there.
const clave_delegate &plugin();

// Logs what went wrong, keeps it for clave_executorch_error, and frees `status`.
Error failed(clave_status status, const char *what);
Error failed(Error code, const std::string &message);

// A handle of the plugin's that is closed with its last owner.
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

// What an instance is made with. Empty and 0 are the plugin's defaults.
struct Settings {
  std::string device;
  std::string cache_dir;
  int n_threads = 0;
  uint64_t memory_budget = 0;
  bool fast = false;
  bool node_events = false;
  bool shares_state = false;  // methods do; said by the export alone
  bool operator==(const Settings &other) const;
};

// An instance, for one call at a time: `mutex` is held around each.
struct Instance {
  std::shared_ptr<Owned> device, program, owned;  // goes from the last to the first
  Settings settings;
  std::mutex mutex;
  std::set<std::string> methods, left;  // that have it, that had it; of the registry's mutex
  executorch::runtime::EventTracer *tracer = nullptr;  // of the call under way
  const void *identity = nullptr;                      // of the loaded .pte
  std::string key;                                     // of the program in it
  clave_delegate_handle handle() const { return owned->handle; }
};

// The instance for `method` of the program that lies under `key`: one that other methods of the
// same loaded .pte use with these settings, and where it has left no state of its own, or a new
// one.
Error find_instance(const executorch::runtime::NamedDataMap &map, const std::string &key,
                    const std::string &method, const Settings &settings,
                    std::shared_ptr<Instance> *out);
// `method` uses it no more.
void leave_instance(Instance &instance, const std::string &method);

}  // namespace clave

#endif
