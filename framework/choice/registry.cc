#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/names.h"
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
        (aliases_.contains(name) ||
         !factories_.try_emplace(std::string(name), std::move(factory))
              .second)) {
      status = absl::AlreadyExistsError(
          absl::StrCat("implementation ", name, " was registered twice"));
    }
    if (first_error_.ok()) first_error_ = status;
    return status;
  }

  absl::Status RegisterAlias(absl::string_view alias, absl::string_view name)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    absl::Status status;
    if (alias.empty() || name.empty()) {
      status = absl::InvalidArgumentError(absl::StrCat(
          "alias \"", alias, "\" of \"", name, "\": a name is empty"));
    } else if (factories_.contains(alias) ||
               !aliases_.try_emplace(std::string(alias), name).second) {
      status = absl::AlreadyExistsError(absl::StrCat(
          "alias ", alias, " of implementation ", name, " is taken"));
    }
    if (first_error_.ok()) first_error_ = status;
    return status;
  }

  std::string Resolve(absl::string_view name) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto found = aliases_.find(name);
    return found == aliases_.end() ? std::string(name) : found->second;
  }

  absl::StatusOr<std::shared_ptr<const CollectiveFactory>> Find(
      absl::string_view name) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto alias = aliases_.find(name);
    const auto found =
        factories_.find(alias == aliases_.end() ? name : alias->second);
    if (found != factories_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& entry : factories_) names.push_back(entry.first);
    for (const auto& entry : aliases_) names.push_back(entry.first);
    return absl::NotFoundError(absl::StrCat("no implementation is named \"",
                                            name, "\"",
                                            DidYouMeanOrKnown(name, names)));
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
  std::map<std::string, std::string, std::less<>> aliases_ ABSL_GUARDED_BY(mu_);
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

absl::Status CollectiveRegistry::RegisterAlias(absl::string_view alias,
                                               absl::string_view name) {
  return table_->RegisterAlias(alias, name);
}

std::string CollectiveRegistry::Resolve(absl::string_view name) const {
  return table_->Resolve(name);
}

absl::StatusOr<std::shared_ptr<const CollectiveFactory>>
CollectiveRegistry::Find(absl::string_view name_or_alias) const {
  return table_->Find(name_or_alias);
}

std::vector<CollectiveRegistry::Entry> CollectiveRegistry::List() const {
  return table_->List();
}

absl::Status CollectiveRegistry::status() const {
  return table_->first_error();
}

}  // namespace tutti
