#ifndef TUTTI_REMOTE_MPI_COLLECTIVES_MPI_OPERATION_H_
#define TUTTI_REMOTE_MPI_COLLECTIVES_MPI_OPERATION_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/mpi/collectives/mpi_merge.h"
#include "remote/mpi/messages/mpi_ring.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Merges that need nothing of an execution, to be used again. For MPI's thread.
class MpiMerges {
 public:
  std::shared_ptr<MpiMerge> For(DType dtype, const MergeOp& op);

 private:
  absl::flat_hash_map<std::pair<DType, ReductionKind>,
                      std::shared_ptr<MpiMerge>>
      merges_;
};

// One member's part in one collective of MPI's. For MPI's thread, but for
// Allocate() and Finish().
class MpiOperation {
 public:
  // Errors: INVALID_ARGUMENT for a collective that there is no operation for,
  // and where a member's input or output is of several blocks and has more
  // elements than MPI counts with an int; other tensors go in pieces.
  static absl::Status Check(const CollInstanceParams& instance, int group_size);

  // Of what one call of MPI reduces or broadcasts; more goes in several: its
  // implementations reckon with ints, and take as much memory again.
  static constexpr int64_t kPieceBytes = int64_t{1} << 30;

  // The context outlives this, whatever else ends; REQUIRES: Check(); the same
  // `piece_bytes`, at least of one pack of MpiMerge's, on all members.
  explicit MpiOperation(const CollectiveContext& context,
                        int64_t piece_bytes = kPieceBytes);

  // Takes the memory that it needs besides the tensors: once, before Start(),
  // when there is no way back. Errors: RESOURCE_EXHAUSTED.
  absl::Status Allocate();

  // Begins it among the members of `communicator`, whose ranks are those of the
  // group, and gives what MPI has to end. `any_in_place`, the same on all:
  // some member's input is its output. `ring`: for large all-reduces, where it
  // can be set on all; null, on all, leaves it to MPI how they run.
  std::vector<MPI_Request> Start(MPI_Comm communicator, MpiMerges* merges,
                                 bool any_in_place, MpiRing* ring);

  // After MPI has ended all of it: completes the output. Errors: those of merge
  // op and final op.
  absl::Status Finish();

  // ---- All-reduces and reduces that need no MPI ----
  // So small that they go with the notes by which members begin, as a call of
  // MPI would take more messages and more time. Merge() on one member, or on
  // both of two, and FinishMerged() on all, stand for Start() and Finish().

  // The input; empty, on all members, where the operation is MPI's.
  absl::string_view small_input() const;

  // What those of all members, by rank, come to: built-in reductions, in one
  // pass. Errors: INTERNAL for inputs of another length than this one's.
  absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> small_inputs) const;

  // Completes the output. Errors: INTERNAL for what is of another length; those
  // of the final op.
  absl::Status FinishMerged(absl::string_view merged);

 private:
  MPI_Request* NewRequest() {
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }
  const CollInstanceParams& instance() const {
    return *context_.params->instance;
  }
  int size() const { return context_.params->group->size(); }
  bool is_in_place() const { return input_ == output_; }
  bool is_whole_reduction() const;
  bool uses_packs() const;
  absl::Status ApplyFinalOp();

  // Where MPI would read and write the same memory.
  bool copies_input() const;

  // Elements or packs of the whole input; of one of `num_blocks` equal blocks.
  void PrepareReduction(MpiMerges* merges, int num_blocks);
  void Reduce(MPI_Comm communicator, bool any_in_place, MpiRing* ring);
  void ReduceScatter(MPI_Comm communicator);
  void Gather(MPI_Comm communicator);
  void Broadcast(MPI_Comm communicator);
  void AllToAll(MPI_Comm communicator);

  // Runs `call` for each piece of [0, count), also if it is empty.
  template <typename Call>
  void InPieces(int64_t count, size_t unit_bytes, Call call) const;

  // The input, or a copy of it.
  const std::byte* InputToRead();

  const CollectiveContext& context_;
  const int64_t piece_bytes_;
  const size_t element_bytes_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::vector<MPI_Request> requests_;

  // What MPI reads until it has ended.
  std::vector<int> send_counts_, send_offsets_, receive_counts_,
      receive_offsets_;
  Tensor input_copy_;

  // Of reductions.
  std::shared_ptr<MpiMerge> merge_;
  int64_t num_units_ = 0;  // That MPI counts, in the input.
  Tensor input_packs_, output_packs_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_OPERATION_H_
