#ifndef TUTTI_REMOTE_TRANSPORT_REGISTRY_H_
#define TUTTI_REMOTE_TRANSPORT_REGISTRY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Settings of a network, whichever transport serves it. A transport ignores
// settings that mean nothing to it.
struct NetworkSettings {
  ClusterSpec cluster;
  Environment environment;
  std::string token;           // Secret that all tasks share; empty: none.
  std::string bind_address;    // Host to listen at; empty: the cluster's.
  std::vector<int> listeners;  // Listening sockets to take over; empty: none.
  bool insecure = false;  // Allows listening to other machines without TLS.
  TlsOptions tls;
};

// Members of a cluster, and the transport of this task.
struct TaskNetwork {
  ClusterSpec cluster;

  // Owns what the transports need; must outlive them.
  ClusterRuntime::TransportFactory make_transport;
};

// Maps names to transports. Thread-safe.
class TransportRegistry {
 public:
  struct Entry {
    // May block until all tasks call it. Errors: why the transport cannot serve
    // here.
    std::function<absl::StatusOr<TaskNetwork>(const NetworkSettings&)> connect;

    bool takes_gpu_memory = false;
  };

  // Registry that REGISTER_TRANSPORT fills.
  static TransportRegistry& Global();

  // Errors: ALREADY_EXISTS if the name is taken; the first entry stays. The
  // first error is also kept for status().
  absl::Status Register(absl::string_view name, Entry entry)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Errors: NOT_FOUND, listing all names.
  absl::StatusOr<Entry> Find(absl::string_view name) const
      ABSL_LOCKS_EXCLUDED(mu_);

  std::vector<std::string> names() const ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable Mutex mu_;
  absl::btree_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// Registers a transport when the program starts: REGISTER_TRANSPORT(name,
// connect) or, with more fields of the entry, (name, connect, true). Link the
// library with `alwayslink = 1`.
#define REGISTER_TRANSPORT(name, ...)        \
  [[maybe_unused]] static const absl::Status \
      tutti_registered_transport_##name =    \
          ::tutti::TransportRegistry::Global().Register(#name, {__VA_ARGS__})

}  // namespace tutti

#endif  // TUTTI_REMOTE_TRANSPORT_REGISTRY_H_
