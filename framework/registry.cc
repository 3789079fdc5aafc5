#include "framework/registry.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tutti {

CollectiveRegistry& CollectiveRegistry::Global() {
  // Never destroyed: registrations and look-ups may run during static
  // initialisation and destruction.
  static auto& registry = *new CollectiveRegistry;
  return registry;
}

absl::Status CollectiveRegistry::Register(
    absl::string_view name, std::shared_ptr<const CollectiveFactory> factory) {
  MutexLock lock(&mu_);
  const absl::Status status = RegisterLocked(name, std::move(factory));
  if (status_.ok()) status_ = status;
  return status;
}

absl::Status CollectiveRegistry::RegisterLocked(
    absl::string_view name, std::shared_ptr<const CollectiveFactory> factory) {
  if (name.empty()) {
    return absl::InvalidArgumentError("an implementation needs a name");
  }
  if (factory == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "implementation ", name, " was registered without a factory"));
  }
  if (factory->traits().collectives.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "implementation ", name, " was registered without collectives"));
  }
  const bool is_new =
      factories_.try_emplace(std::string(name), std::move(factory)).second;
  if (!is_new) {
    return absl::AlreadyExistsError(
        absl::StrCat("implementation ", name, " was registered twice"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const CollectiveFactory>>
CollectiveRegistry::Find(absl::string_view name) const {
  MutexLock lock(&mu_);
  const auto found = factories_.find(name);
  if (found != factories_.end()) return found->second;
  const auto append_name = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, entry.first);
  };
  return absl::NotFoundError(absl::StrCat(
      "no implementation is named \"", name,
      "\"; known: ", absl::StrJoin(factories_, ", ", append_name)));
}

std::vector<CollectiveRegistry::Entry> CollectiveRegistry::List() const {
  MutexLock lock(&mu_);
  std::vector<Entry> entries;
  entries.reserve(factories_.size());
  for (const auto& [name, factory] : factories_) {
    entries.push_back({name, factory});
  }
  return entries;
}

absl::Status CollectiveRegistry::status() const {
  MutexLock lock(&mu_);
  return status_;
}

}  // namespace tutti
