#ifndef TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COMMUNICATORS_H_
#define TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COMMUNICATORS_H_

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "remote/mpi/messages/mpi_note.h"
#include "remote/mpi/messages/mpi_ring.h"
#include "tutti/peer_access.h"

namespace tutti {

// MPI's communicators of groups: one for each generation, made when its first
// execution begins (mpi_agreement.h), freed on all processes once none of them
// has the group any more, nor a step that used it, or has left. So nothing of
// one is under way when its number is used again. One with a task that was lost
// is never freed: MPI would wait for that task. For MPI's thread.
class MpiCommunicators {
 public:
  struct Options {
    int this_task = 0;
    MPI_Comm all = MPI_COMM_NULL;  // Of all tasks, by number.
    MpiRing* ring = nullptr;       // Null on all, or outlives this.
    std::function<void(int task, const MpiNote& note)> send;

    // There is none of the group of `key` any more, or there never was.
    std::function<void(const ExecKey& key)> on_free;
  };

  explicit MpiCommunicators(Options options) : options_(std::move(options)) {}

  // Blocks until all `tasks` do it. Their order is that of the ranks.
  void Make(const ExecKey& key, const std::vector<int>& tasks);

  // Of the group of `key`; MPI_COMM_NULL if there is none.
  MPI_Comm Find(const ExecKey& key) const;

  // For large all-reduces of that group: null on all members unless all of them
  // can set it.
  MpiRing* FindRing(const ExecKey& key) const;

  // This process does not need the group's communicator any more, if there is
  // one.
  void Release(const ExecKey& key);
  void ReleaseAll();

  // Those that concern communicators; leaves out others.
  void OnNote(int task, const MpiNote& note);

  size_t size() const { return entries_.size(); }

 private:
  using GroupId = std::pair<int64_t, uint64_t>;
  struct Entry {
    MPI_Comm communicator = MPI_COMM_NULL;
    bool may_be_ring = false;
    std::vector<int> tasks;
    std::set<int> released;  // Of the tasks, where the first one is this one.
  };

  static GroupId GroupOf(const ExecKey& key) {
    return {key.group, key.generation};
  }
  void OnRelease(int task, const ExecKey& key);
  void Free(const ExecKey& key);

  const Options options_;
  absl::flat_hash_map<GroupId, Entry> entries_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_COMMUNICATORS_H_
