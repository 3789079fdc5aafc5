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

// Merges that are independent of an execution, to use again. For MPI's thread.
class MpiMerges {
 public:
  std::shared_ptr<MpiMerge> For(DType dtype, const MergeOp& op);

 private:
  absl::flat_hash_map<std::pair<DType, ReductionKind>,
                      std::shared_ptr<MpiMerge>>
      merges_;
};

// Member's part in one collective of MPI. For MPI's thread, except for
// Allocate() and Finish().
class MpiOperation {
 public:
  // Checks that MPI can run a collective. Errors: INVALID_ARGUMENT for an
  // unsupported collective. Also where a member's input or output has several
  // blocks and more elements than an int counts; other tensors go in pieces.
  static absl::Status Check(const CollInstanceParams& instance, int group_size);

  // Largest number of bytes that one call of MPI reduces or broadcasts; larger
  // tensors take several calls. Implementations of MPI compute with ints, and
  // allocate as much memory again.
  static constexpr int64_t kPieceBytes = int64_t{1} << 30;

  // The context outlives this object. REQUIRES: Check() returned OK;
  // `piece_bytes` is the same on all members, and at least one pack of
  // MpiMerge.
  explicit MpiOperation(const CollectiveContext& context,
                        int64_t piece_bytes = kPieceBytes);

  // Allocates the memory needed besides the tensors. Call once, before Start():
  // later errors would be too late. Errors: RESOURCE_EXHAUSTED.
  absl::Status Allocate();

  // Begins the collective among the members of `communicator`, whose ranks are
  // those of the group. Returns the requests that MPI has to end.
  // `any_in_place`, the same on all: some member's input is its output. `ring`:
  // for large all-reduces, where all members can set it. Null, on all: MPI
  // chooses the algorithm.
  std::vector<MPI_Request> Start(MPI_Comm communicator, MpiMerges* merges,
                                 bool any_in_place, MpiRing* ring);

  // Completes the output, after MPI has ended all requests. Errors: those that
  // merge op and final op return.
  absl::Status Finish();

  // Small all-reduces and reduces need no MPI. The notes with which members
  // begin carry their data: a call of MPI would take more messages and more
  // time. Merge() on one member, or on both of two, and FinishMerged() on all,
  // replace Start() and Finish().

  // Returns the input; empty, on all members, if MPI runs the operation.
  absl::string_view small_input() const;

  // Merges the inputs of all members, by rank: built-in reductions, in one
  // pass. Errors: INTERNAL for inputs of another length than this member's.
  absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> small_inputs) const;

  // Completes the output. Errors: INTERNAL for a result of another length; the
  // errors of the final op.
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
  bool is_whole_reduction() const;  // All members' whole inputs together.
  bool uses_packs() const;
  absl::Status ApplyFinalOp();

  // Returns true where MPI would read and write the same memory.
  bool copies_input() const;

  // Returns the sizes of the blocks of the input: one for each rank, or one in
  // all.
  std::vector<int64_t> BlockElements() const;

  // Prepares the units of the blocks. A unit is an element or a pack.
  void PrepareReduction(MpiMerges* merges);
  void Reduce(MPI_Comm communicator, bool any_in_place, MpiRing* ring);
  void ReduceScatter(MPI_Comm communicator);
  void Gather(MPI_Comm communicator);
  void Broadcast(MPI_Comm communicator);
  void AllToAll(MPI_Comm communicator);

  // Runs `call` for each piece of [0, count); once if it is empty.
  template <typename Call>
  void InPieces(int64_t count, size_t unit_bytes, Call call) const;

  // Returns the input, or a copy of it.
  const std::byte* InputToRead();

  const CollectiveContext& context_;
  const int64_t piece_bytes_;
  const size_t element_bytes_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  std::vector<MPI_Request> requests_;

  // Read by MPI until the operation has ended.
  std::vector<int> send_counts_, send_offsets_, receive_counts_,
      receive_offsets_;
  Tensor input_copy_;

  // Used by reductions.
  std::shared_ptr<MpiMerge> merge_;
  int64_t num_units_ = 0;  // Units of the input, as MPI counts them.
  Tensor input_packs_, output_packs_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_OPERATION_H_
