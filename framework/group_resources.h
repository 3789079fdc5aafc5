#ifndef TUTTI_FRAMEWORK_GROUP_RESOURCES_H_
#define TUTTI_FRAMEWORK_GROUP_RESOURCES_H_

#include <memory>
#include <typeindex>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/mutex.h"

namespace tutti {

// What implementations keep as long as a group lives: schedule caches,
// communicators. One object of each type; freed with the group. Thread-safe.
class GroupResources {
 public:
  GroupResources() = default;
  GroupResources(const GroupResources&) = delete;
  GroupResources& operator=(const GroupResources&) = delete;

  // The object of type T, default-constructed on first use.
  template <typename T>
  std::shared_ptr<T> GetOrCreate() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::shared_ptr<void>& object = objects_[std::type_index(typeid(T))];
    if (object == nullptr) object = std::make_shared<T>();
    return std::static_pointer_cast<T>(object);
  }

 private:
  Mutex mu_;
  absl::flat_hash_map<std::type_index, std::shared_ptr<void>> objects_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_GROUP_RESOURCES_H_
