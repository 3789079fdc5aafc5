#ifndef TUTTI_FRAMEWORK_COLLECTIVE_GROUP_DIRECTORY_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_GROUP_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Groups that this process is in, by key and generation. The resolver adds
// them. Servers of other tasks' requests look them up, to refuse requests that
// do not belong here.
//
// Thread-safe. Keeps one living generation of each key, and the number and
// reason of the newest ended one: the group's cancellation goes with the group,
// but requests of an ended generation may come much later. Of keys that have no
// living generation, keeps the last `kMaxEnded` that ended. Generations count
// up over all keys, so those of forgotten keys are known by their number.
class GroupDirectory {
 public:
  static constexpr size_t kMaxEnded = 4096;

  using Listener = std::function<void(GroupKey, uint64_t generation)>;

  // Called after each Add() and End(), with no lock held. Set the listener
  // once, before the first call.
  void SetListener(Listener listener) { listener_ = std::move(listener); }

  // Adds a generation; an older one that still lives ends with ABORTED. Does
  // nothing if this generation, or a later one, was added or ended before.
  void Add(std::shared_ptr<const CollGroupParams> group)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends this generation and all before it: sets the group's cancellation. The
  // first reason stays. Returns true if the generation had not ended before.
  bool End(GroupKey key, uint64_t generation, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Errors: INVALID_ARGUMENT for generation 0; NOT_FOUND for a generation later
  // than all known here; for an ended generation the reason of its end.
  absl::StatusOr<std::shared_ptr<const CollGroupParams>> Find(
      GroupKey key, uint64_t generation) const ABSL_LOCKS_EXCLUDED(mu_);

  // Newest ended generation of the key; 0 if none. Of a forgotten key, that of
  // any forgotten key.
  uint64_t EndedGeneration(GroupKey key) const ABSL_LOCKS_EXCLUDED(mu_);

  // All living generations.
  std::vector<std::shared_ptr<const CollGroupParams>> Living() const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Entry {
    std::shared_ptr<const CollGroupParams> living;
    uint64_t ended_generation = 0;
    absl::Status reason;  // Reason of `ended_generation`.
  };

  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Listener listener_;
  mutable Mutex mu_;
  absl::flat_hash_map<GroupKey, Entry> entries_ ABSL_GUARDED_BY(mu_);

  // Ends in order, of which some are followed by others of the same key.
  std::deque<std::pair<GroupKey, uint64_t>> ends_ ABSL_GUARDED_BY(mu_);

  // Newest generation of a forgotten key, as far as it was ever added: another
  // task may say of any number that it has ended.
  uint64_t forgotten_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t newest_added_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_GROUP_DIRECTORY_H_
