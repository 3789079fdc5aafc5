#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/mutex.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

absl::Status Check(absl::string_view name, const CollectiveFactory* factory) {
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
  return absl::OkStatus();
}

}  // namespace

// Factories by name, and the first error. Thread-safe.
class CollectiveRegistry::Table {
 public:
  absl::Status Register(absl::string_view name,
                        std::shared_ptr<const CollectiveFactory> factory)
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::Status status = Check(name, factory.get());
    MutexLock lock(&mu_);
    if (status.ok() &&
        !factories_.try_emplace(std::string(name), std::move(factory)).second) {
      status = absl::AlreadyExistsError(
          absl::StrCat("implementation ", name, " was registered twice"));
    }
    if (first_error_.ok()) first_error_ = status;
    return status;
  }

  absl::StatusOr<std::shared_ptr<const CollectiveFactory>> Find(
      absl::string_view name) ABSL_LOCKS_EXCLUDED(mu_) {
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

  std::vector<Entry> List() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::vector<Entry> entries;
    entries.reserve(factories_.size());
    for (const auto& [name, factory] : factories_) {
      entries.push_back({name, factory});
    }
    return entries;
  }

  absl::Status first_error() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return first_error_;
  }

 private:
  Mutex mu_;
  std::map<std::string, std::shared_ptr<const CollectiveFactory>, std::less<>>
      factories_ ABSL_GUARDED_BY(mu_);
  absl::Status first_error_ ABSL_GUARDED_BY(mu_);
};

CollectiveRegistry& CollectiveRegistry::Global() {
  // Never destroyed: registrations and look-ups may run during static
  // initialisation and destruction.
  static auto& registry = *new CollectiveRegistry;
  return registry;
}

CollectiveRegistry::CollectiveRegistry() : table_(std::make_unique<Table>()) {}

CollectiveRegistry::~CollectiveRegistry() = default;

absl::Status CollectiveRegistry::Register(
    absl::string_view name, std::shared_ptr<const CollectiveFactory> factory) {
  return table_->Register(name, std::move(factory));
}

absl::StatusOr<std::shared_ptr<const CollectiveFactory>>
CollectiveRegistry::Find(absl::string_view name) const {
  return table_->Find(name);
}

std::vector<CollectiveRegistry::Entry> CollectiveRegistry::List() const {
  return table_->List();
}

absl::Status CollectiveRegistry::status() const {
  return table_->first_error();
}

}  // namespace tutti
