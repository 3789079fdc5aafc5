#include "remote/mpi/mpi_merge.h"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

// In front of the elements of a pack.
struct Header {
  int32_t count = 0;
  int32_t is_spoilt = 0;
};

Header HeaderOf(const std::byte* pack) {
  Header header;
  std::memcpy(&header, pack, sizeof(header));
  return header;
}

void SetHeader(Header header, std::byte* pack) {
  std::memcpy(pack, &header, sizeof(header));
}

// What leads from a type to its MpiMerge.
int Key() {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN,
                           &made, nullptr);
    return made;
  }();
  return key;
}

}  // namespace

MpiMerge::MpiMerge(DType dtype, const MergeOp& op) : dtype_(dtype), op_(op) {
  const size_t num_bytes = packs() ? pack_bytes() : SizeOf(dtype);
  MPI_Type_contiguous(static_cast<int>(num_bytes), MPI_BYTE, &type_);
  MPI_Type_commit(&type_);
  MPI_Type_set_attr(type_, Key(), this);
}

MpiMerge::~MpiMerge() {
  int is_over = 0;
  MPI_Finalized(&is_over);
  if (is_over == 0) MPI_Type_free(&type_);
}

// One for all, as long as MPI.
MPI_Op MpiMerge::Operation() {
  static const MPI_Op operation = [] {
    MPI_Op made = MPI_OP_NULL;
    MPI_Op_create(&Run, /*commute=*/1, &made);
    return made;
  }();
  return operation;
}

size_t MpiMerge::PackBytes(DType dtype) {
  return sizeof(Header) + kElementsPerPack * SizeOf(dtype);
}

void MpiMerge::Pack(const std::byte* elements, int64_t num_elements,
                    std::byte* packs) const {
  for (int64_t begin = 0; begin < num_elements; begin += kElementsPerPack) {
    const int64_t count = std::min(num_elements - begin, kElementsPerPack);
    SetHeader({.count = static_cast<int32_t>(count)}, packs);
    std::memcpy(packs + sizeof(Header), elements + begin * SizeOf(dtype_),
                count * SizeOf(dtype_));
    packs += pack_bytes();
  }
}

absl::Status MpiMerge::Unpack(const std::byte* packs, int64_t num_elements,
                              std::byte* elements) const {
  for (int64_t begin = 0; begin < num_elements; begin += kElementsPerPack) {
    const int64_t count = std::min(num_elements - begin, kElementsPerPack);
    const Header header = HeaderOf(packs);
    if (header.is_spoilt != 0 || header.count != count) {
      return absl::InternalError("the merge op failed on another rank");
    }
    std::memcpy(elements + begin * SizeOf(dtype_), packs + sizeof(Header),
                count * SizeOf(dtype_));
    packs += pack_bytes();
  }
  return absl::OkStatus();
}

void MpiMerge::Run(void* left, void* into, int* count, MPI_Datatype* type) {
  void* merge = nullptr;
  int has_it = 0;
  MPI_Type_get_attr(*type, Key(), static_cast<void*>(&merge), &has_it);
  if (has_it == 0) return;  // Not a type of ours: cannot be.
  static_cast<MpiMerge*>(merge)->Merge(static_cast<const std::byte*>(left),
                                       static_cast<std::byte*>(into), *count);
}

void MpiMerge::Merge(const std::byte* left, std::byte* into, int64_t count) {
  if (!packs()) {
    op_.Apply(dtype_, left, into, into, count).IgnoreError();  // Has none.
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    MergePack(left + i * pack_bytes(), into + i * pack_bytes());
  }
}

void MpiMerge::MergePack(const std::byte* left, std::byte* into) {
  const Header ours = HeaderOf(into);
  const Header theirs = HeaderOf(left);
  absl::Status status;
  if (theirs.is_spoilt != 0 || ours.is_spoilt != 0 ||
      theirs.count != ours.count || ours.count < 0 ||
      ours.count > kElementsPerPack) {
    return SetHeader({.count = ours.count, .is_spoilt = 1}, into);
  }
  status = op_.Apply(dtype_, left + sizeof(Header), into + sizeof(Header),
                     into + sizeof(Header), ours.count);
  if (status.ok()) return;
  if (!has_failed_) failure_ = status;
  has_failed_ = true;
  SetHeader({.count = ours.count, .is_spoilt = 1}, into);
}

}  // namespace tutti
