#ifndef TUTTI_FRAMEWORK_REGISTRY_H_
#define TUTTI_FRAMEWORK_REGISTRY_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/implementation_traits.h"

namespace tutti {

class CollectiveImplementationInterface;

// What stands behind a registered name: its traits, and the making of the
// object that runs one instance of it. Immutable, thread-safe.
class CollectiveFactory {
 public:
  explicit CollectiveFactory(ImplementationTraits traits)
      : traits_(std::move(traits)) {}
  virtual ~CollectiveFactory() = default;

  const ImplementationTraits& traits() const { return traits_; }
  virtual std::unique_ptr<CollectiveImplementationInterface> Create() const = 0;

 private:
  const ImplementationTraits traits_;
};

// A factory for a class with a default constructor:
//   REGISTER_COLLECTIVE(MpiReduce, Implemented<MpiReducer>({.summary = ...}));
template <typename Implementation>
std::shared_ptr<const CollectiveFactory> Implemented(
    ImplementationTraits traits) {
  class Factory : public CollectiveFactory {
   public:
    using CollectiveFactory::CollectiveFactory;
    std::unique_ptr<CollectiveImplementationInterface> Create() const override {
      return std::make_unique<Implementation>();
    }
  };
  return std::make_shared<Factory>(std::move(traits));
}

// Name -> implementation. Thread-safe. Names stay registered for the life of
// the registry.
class CollectiveRegistry {
 public:
  struct Entry {
    std::string name;
    std::shared_ptr<const CollectiveFactory> factory;
  };

  // The registry that REGISTER_COLLECTIVE fills.
  static CollectiveRegistry& Global();

  CollectiveRegistry();
  ~CollectiveRegistry();
  CollectiveRegistry(const CollectiveRegistry&) = delete;
  CollectiveRegistry& operator=(const CollectiveRegistry&) = delete;

  // Errors: ALREADY_EXISTS if the name is taken (the first stays),
  // INVALID_ARGUMENT for an empty name, no factory, or one of no collectives.
  // They are also kept for status(), because static registration has nobody to
  // return them to.
  absl::Status Register(absl::string_view name,
                        std::shared_ptr<const CollectiveFactory> factory);

  // Errors: NOT_FOUND listing the known names.
  absl::StatusOr<std::shared_ptr<const CollectiveFactory>> Find(
      absl::string_view name) const;

  // In the order of names.
  std::vector<Entry> List() const;

  // The first error of any registration; a runtime refuses to start with it.
  absl::Status status() const;

 private:
  class Table;

  const std::unique_ptr<Table> table_;
};

// Registers `factory` under `name` when the program starts. Link the library
// with `alwayslink = 1`.
#define REGISTER_COLLECTIVE(name, ...)                                 \
  [[maybe_unused]] static const absl::Status tutti_registered_##name = \
      ::tutti::CollectiveRegistry::Global().Register(#name, __VA_ARGS__)

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REGISTRY_H_
