#include "remote/mpi/collectives/mpi_communicators.h"

#include <algorithm>

namespace tutti {
namespace {

// Single tag: one communicator is made at a time.
constexpr int kTag = 0;

}  // namespace

void MpiCommunicators::Make(const ExecKey& key, const std::vector<int>& tasks) {
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  MPI_Comm_group(options_.all, &all);
  MPI_Group_incl(all, static_cast<int>(tasks.size()), tasks.data(), &members);
  Entry& entry = entries_[GroupOf(key)];
  entry.tasks = tasks;
  MPI_Comm_create_group(options_.all, members, kTag, &entry.communicator);
  MPI_Group_free(&members);
  MPI_Group_free(&all);
  if (options_.ring == nullptr) return;
  int can_set = options_.ring->CanSet() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &can_set, 1, MPI_INT, MPI_MIN,
                entry.communicator);
  entry.may_be_ring = can_set != 0;
}

MPI_Comm MpiCommunicators::Find(const ExecKey& key) const {
  const auto found = entries_.find(GroupOf(key));
  return found == entries_.end() ? MPI_COMM_NULL : found->second.communicator;
}

MpiRing* MpiCommunicators::FindRing(const ExecKey& key) const {
  const auto found = entries_.find(GroupOf(key));
  const bool may_be = found != entries_.end() && found->second.may_be_ring;
  return may_be ? options_.ring : nullptr;
}

void MpiCommunicators::Release(const ExecKey& key) {
  const auto found = entries_.find(GroupOf(key));
  if (found == entries_.end()) return options_.on_free(key);
  const int leader = found->second.tasks[0];
  if (leader == options_.this_task) return OnRelease(leader, key);
  options_.send(leader, {.kind = MpiNote::Kind::kRelease, .key = key});
}

void MpiCommunicators::ReleaseAll() {
  std::vector<ExecKey> keys;
  for (const auto& [group, entry] : entries_) {
    keys.push_back({.generation = group.second, .group = group.first});
  }
  for (const ExecKey& key : keys) Release(key);
}

void MpiCommunicators::OnNote(int task, const MpiNote& note) {
  if (note.kind == MpiNote::Kind::kRelease) return OnRelease(task, note.key);
  if (note.kind != MpiNote::Kind::kFree) return;
  const auto found = entries_.find(GroupOf(note.key));
  if (found != entries_.end() && found->second.tasks[0] == task) {
    Free(note.key);
  }
}

void MpiCommunicators::OnRelease(int task, const ExecKey& key) {
  const auto found = entries_.find(GroupOf(key));
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  const bool is_member = std::find(entry.tasks.begin(), entry.tasks.end(),
                                   task) != entry.tasks.end();
  if (!is_member || entry.tasks[0] != options_.this_task) return;
  entry.released.insert(task);
  if (entry.released.size() < entry.tasks.size()) return;
  for (size_t rank = 1; rank < entry.tasks.size(); ++rank) {
    options_.send(entry.tasks[rank],
                  {.kind = MpiNote::Kind::kFree, .key = key});
  }
  Free(key);
}

// Frees the communicator. Does not wait for others: no operation in it is under
// way.
void MpiCommunicators::Free(const ExecKey& key) {
  Entry entry = entries_.extract(GroupOf(key)).mapped();
  MPI_Comm_free(&entry.communicator);
  options_.on_free(key);
}

}  // namespace tutti
