#include "remote/transport_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {

TransportRegistry& TransportRegistry::Global() {
  static auto* const registry = new TransportRegistry;
  return *registry;
}

absl::Status TransportRegistry::Register(absl::string_view name, Entry entry) {
  MutexLock lock(&mu_);
  if (entries_.try_emplace(name, std::move(entry)).second) {
    return absl::OkStatus();
  }
  const absl::Status status = absl::AlreadyExistsError(
      absl::StrCat("two transports are registered as ", name));
  status_.Update(status);
  return status;
}

absl::StatusOr<TransportRegistry::Entry> TransportRegistry::Find(
    absl::string_view name) const {
  {
    MutexLock lock(&mu_);
    const auto found = entries_.find(name);
    if (found != entries_.end()) return found->second;
  }
  return absl::NotFoundError(
      absl::StrCat("no transport \"", name,
                   "\" is linked; there are: ", absl::StrJoin(names(), ", ")));
}

std::vector<std::string> TransportRegistry::names() const {
  MutexLock lock(&mu_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

absl::Status TransportRegistry::status() const {
  MutexLock lock(&mu_);
  return status_;
}

}  // namespace tutti
