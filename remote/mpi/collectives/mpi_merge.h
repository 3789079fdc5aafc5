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

// MPI operation and type for a merge op and a dtype. MPI's built-in operations
// are not used: the kernels of framework/reduction reduce all dtypes, with
// their rules for NaNs, zeros and rounding. Each time MPI merges two buffers,
// floats of 8 and 16 bits are computed in float32 and rounded once.
//
// MPI gives the function no closure, but passes the type of the elements. Each
// object therefore has a type, whose attribute leads back to the object.
//
// MPI's thread makes and destroys it; MPI may merge on any thread that calls
// it.
class MpiMerge {
 public:
  // REQUIRES: the op commutes.
  MpiMerge(DType dtype, const MergeOp& op);
  ~MpiMerge();
  MpiMerge(const MpiMerge&) = delete;
  MpiMerge& operator=(const MpiMerge&) = delete;

  // Returns the type of MPI's unit: an element; for a custom op, which can
  // fail, a pack.
  MPI_Datatype type() const { return type_; }
  static MPI_Op Operation();

  // Packs of custom ops. MPI cannot learn that a merge failed. A pack is
  // therefore a header with a count, and that many elements. If a merge into
  // the pack has failed, the error replaces the elements. It has as much of its
  // message as fits.
  static constexpr int64_t kElementsPerPack = 1024;

  static int64_t NumPacks(int64_t num_elements) {
    return (num_elements + kElementsPerPack - 1) / kElementsPerPack;
  }
  static size_t PackBytes(DType dtype);
  size_t pack_bytes() const { return PackBytes(dtype_); }
  void Pack(const std::byte* elements, int64_t num_elements,
            std::byte* packs) const;

  // Returns the error of the first merge that failed here.
  absl::Status failure() const {
    return has_failed_ ? failure_ : absl::OkStatus();
  }

  // Unpacks the result. Errors: the error of a merge that failed, here or
  // elsewhere. It is the same on all members that get the same packs from MPI:
  // always, unless each member merges for itself.
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

  // Error of the first merge that failed.
  std::atomic<bool> has_failed_{false};
  absl::Status failure_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_COLLECTIVES_MPI_MERGE_H_
