#ifndef TUTTI_REMOTE_MPI_COLLECTIVES_MPI_MERGE_H_
#define TUTTI_REMOTE_MPI_COLLECTIVES_MPI_MERGE_H_

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// A merge op and a dtype as an operation and a type of MPI's. MPI's own
// operations are not used, so that all dtypes are reduced by the kernels of
// framework/reduction, with what these say of NaNs, zeros and rounding: each
// time that MPI merges two buffers, float16 and bfloat16 are computed in
// float32 and rounded once.
//
// MPI calls a function that gets no closure, but the type of the elements: so
// each object has a type of its own, which leads back to it by an attribute.
//
// Made and destroyed by MPI's thread; MPI may merge on any that calls it.
class MpiMerge {
 public:
  // REQUIRES: the op commutes.
  MpiMerge(DType dtype, const MergeOp& op);
  ~MpiMerge();
  MpiMerge(const MpiMerge&) = delete;
  MpiMerge& operator=(const MpiMerge&) = delete;

  // Of what MPI counts: an element; of a custom op, which can fail, a pack.
  MPI_Datatype type() const { return type_; }
  static MPI_Op Operation();

  // ---- Custom ops: MPI is not told that a merge failed, so packs are ----
  // Elements behind a header that says how many there are; or, if a merge into
  // it has failed, that error in their place, as much of its message as fits.
  static constexpr int64_t kElementsPerPack = 1024;

  static int64_t NumPacks(int64_t num_elements) {
    return (num_elements + kElementsPerPack - 1) / kElementsPerPack;
  }
  static size_t PackBytes(DType dtype);
  size_t pack_bytes() const { return PackBytes(dtype_); }
  void Pack(const std::byte* elements, int64_t num_elements,
            std::byte* packs) const;

  // Of the first merge that was done here and failed.
  absl::Status failure() const {
    return has_failed_ ? failure_ : absl::OkStatus();
  }

  // Errors: that of a merge that has failed, here or elsewhere: the same on all
  // to whom MPI gives the same packs, as it does unless each merges for itself.
  absl::Status Unpack(const std::byte* packs, int64_t num_elements,
                      std::byte* elements) const;

 private:
  bool packs() const { return op_.is_custom(); }
  static void Run(void* left, void* into, int* count, MPI_Datatype* type);
  void Merge(const std::byte* left, std::byte* into, int64_t count);
  void MergePack(const std::byte* left, std::byte* into);
  absl::Status CheckPack(const std::byte* pack) const;
  void SetFailure(const absl::Status& failure, std::byte* pack) const;

  const DType dtype_;
  const MergeOp op_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;

  // Of the first merge that failed.
  std::atomic<bool> has_failed_{false};
  absl::Status failure_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_MERGE_H_
