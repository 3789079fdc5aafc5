#ifndef TUTTI_FRAMEWORK_COLLECTIVE_GROUP_RESOURCES_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_GROUP_RESOURCES_H_

#include <memory>
#include <mutex>
#include <typeindex>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"

namespace tutti {

// Objects that implementations keep for a group's lifetime, such as schedule
// caches and communicators. One object of each type; destroyed with the group.
//
// Thread-safe. Objects are made with no lock held, and may use objects of other
// types.
class GroupResources {
 public:
  GroupResources() = default;
  GroupResources(const GroupResources&) = delete;
  GroupResources& operator=(const GroupResources&) = delete;

  // Object of type T. The first caller default-constructs it; other callers
  // wait.
  template <typename T>
  std::shared_ptr<T> GetOrCreate() ABSL_LOCKS_EXCLUDED(mu_) {
    const std::shared_ptr<Entry> entry = FindOrAdd(typeid(T));
    std::call_once(entry->once, [&] { entry->object = std::make_shared<T>(); });
    return std::static_pointer_cast<T>(entry->object);
  }

 private:
  struct Entry {
    std::once_flag once;
    std::shared_ptr<void> object;
  };

  std::shared_ptr<Entry> FindOrAdd(std::type_index type)
      ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::shared_ptr<Entry>& entry = entries_[type];
    if (entry == nullptr) entry = std::make_shared<Entry>();
    return entry;
  }

  Mutex mu_;
  absl::flat_hash_map<std::type_index, std::shared_ptr<Entry>> entries_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_GROUP_RESOURCES_H_
