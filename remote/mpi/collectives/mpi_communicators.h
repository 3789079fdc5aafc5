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

// MPI's communicators of groups, one for each generation. A communicator is
// made when its group's first execution begins (mpi_agreement.h). It is freed
// on all processes once each process has released the group, or has left. A
// process releases the group when it has neither the group nor a step that used
// it. Nothing of a communicator is thus under way when its number is used
// again. A communicator with a lost task is never freed: MPI would wait for
// that task. For MPI's thread.
class MpiCommunicators {
 public:
  struct Options {
    int this_task = 0;
    MPI_Comm all = MPI_COMM_NULL;  // Communicator of all tasks, by number.
    MpiRing* ring = nullptr;       // Null on all, or outlives this object.
    std::function<void(int task, const MpiNote& note)> send;

    // Reports that the group of `key` has no communicator, or never had one.
    std::function<void(const ExecKey& key)> on_free;
  };

  explicit MpiCommunicators(Options options) : options_(std::move(options)) {}

  // Makes a communicator of `tasks`, whose order is that of the ranks. Blocks
  // until all of them do so.
  void Make(const ExecKey& key, const std::vector<int>& tasks);

  // Returns the communicator of the group of `key`, or MPI_COMM_NULL.
  MPI_Comm Find(const ExecKey& key) const;

  // Returns the ring setting for the group's large all-reduces. Null on all
  // members unless all of them can set it.
  MpiRing* FindRing(const ExecKey& key) const;

  // Releases the group's communicator, if there is one: this process does not
  // need it.
  void Release(const ExecKey& key);
  void ReleaseAll();

  // Handles notes about communicators; ignores other notes.
  void OnNote(int task, const MpiNote& note);

  size_t size() const { return entries_.size(); }

 private:
  using GroupId = std::pair<int64_t, uint64_t>;
  struct Entry {
    MPI_Comm communicator = MPI_COMM_NULL;
    bool may_be_ring = false;
    std::vector<int> tasks;
    std::set<int> released;  // Tasks; kept on the first task.
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
