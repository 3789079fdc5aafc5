#ifndef TUTTI_FRAMEWORK_COLLECTIVE_GROUP_DIRECTORY_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_GROUP_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// The groups, by key and generation, that this process is in: what the resolver
// has learned and whoever serves other tasks must know, to refuse what does not
// belong.
//
// Thread-safe. Of each key it keeps one generation that lives and the newest
// that has ended.
class GroupDirectory {
 public:
  using Listener = std::function<void(GroupKey, uint64_t generation)>;

  // Runs after each Add() and End(), with no lock held. Set once, before the
  // first of them.
  void SetListener(Listener listener) { listener_ = std::move(listener); }

  // An older generation that still lives ends with ABORTED. Nothing happens if
  // this generation, or a later one, lived or ended before.
  void Add(std::shared_ptr<const CollGroupParams> group)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The generation, and all before it, have ended: sets the group's
  // cancellation. The first reason stays. True if it had not ended before.
  bool End(GroupKey key, uint64_t generation, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Errors: NOT_FOUND for a generation that is later than all known here;
  // ABORTED, with the reason in the text, for one that has ended.
  absl::StatusOr<std::shared_ptr<const CollGroupParams>> Find(
      GroupKey key, uint64_t generation) const ABSL_LOCKS_EXCLUDED(mu_);

  // The newest generation of the key that has ended; 0 if none.
  uint64_t EndedGeneration(GroupKey key) const ABSL_LOCKS_EXCLUDED(mu_);

  // Those that live.
  std::vector<std::shared_ptr<const CollGroupParams>> Living() const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Entry {
    std::shared_ptr<const CollGroupParams> living;
    uint64_t ended_generation = 0;
    absl::Status reason;  // Of the newest one that ended.
  };

  Listener listener_;
  mutable Mutex mu_;
  absl::flat_hash_map<GroupKey, Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_GROUP_DIRECTORY_H_
