#include "remote/mpi/collectives/mpi_merge.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// Precedes the elements of a pack, or the message of an error.
struct Header {
  int32_t count = 0;  // Number of elements, or of the message's bytes.
  absl::StatusCode code = absl::StatusCode::kOk;
};

Header HeaderOf(const std::byte* pack) {
  Header header;
  std::memcpy(&header, pack, sizeof(header));
  return header;
}

void SetHeader(Header header, std::byte* pack) {
  std::memcpy(pack, &header, sizeof(header));
}

absl::Status CountsDiffer() {
  return absl::InternalError("packs of different numbers of elements");
}

// Orders two statuses. A non-OK status comes first: the same status stays
// wherever they meet.
bool IsFirst(const absl::Status& a, const absl::Status& b) {
  if (a.ok() || b.ok()) return b.ok();
  return std::pair(a.code(), a.message()) < std::pair(b.code(), b.message());
}

// Returns the attribute key that leads from a type to its MpiMerge.
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

// Shared by all objects; lives as long as MPI.
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
    RETURN_IF_ERROR(CheckPack(packs));
    if (HeaderOf(packs).count != count) return CountsDiffer();
    std::memcpy(elements + begin * SizeOf(dtype_), packs + sizeof(Header),
                count * SizeOf(dtype_));
    packs += pack_bytes();
  }
  return absl::OkStatus();
}

absl::Status MpiMerge::CheckPack(const std::byte* pack) const {
  const Header header = HeaderOf(pack);
  if (header.code == absl::StatusCode::kOk) return absl::OkStatus();
  const size_t length = std::min(static_cast<size_t>(header.count),
                                 pack_bytes() - sizeof(Header));
  return {header.code,
          {reinterpret_cast<const char*>(pack + sizeof(Header)), length}};
}

void MpiMerge::SetFailure(const absl::Status& failure, std::byte* pack) const {
  const absl::string_view message =
      failure.message().substr(0, pack_bytes() - sizeof(Header));
  SetHeader(
      {.count = static_cast<int32_t>(message.size()), .code = failure.code()},
      pack);
  std::memcpy(pack + sizeof(Header), message.data(), message.size());
}

void MpiMerge::Run(void* left, void* into, int* count, MPI_Datatype* type) {
  void* merge = nullptr;
  int has_it = 0;
  MPI_Type_get_attr(*type, Key(), static_cast<void*>(&merge), &has_it);
  if (has_it == 0) return;  // Not our type: cannot happen.
  static_cast<MpiMerge*>(merge)->Merge(static_cast<const std::byte*>(left),
                                       static_cast<std::byte*>(into), *count);
}

void MpiMerge::Merge(const std::byte* left, std::byte* into, int64_t count) {
  if (!packs()) {
    op_.Apply(dtype_, left, into, into, count).IgnoreError();  // No errors.
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    MergePack(left + i * pack_bytes(), into + i * pack_bytes());
  }
}

void MpiMerge::MergePack(const std::byte* left, std::byte* into) {
  const absl::Status theirs = CheckPack(left);
  const absl::Status ours = CheckPack(into);
  if (!theirs.ok() || !ours.ok()) {
    if (IsFirst(theirs, ours)) std::memcpy(into, left, pack_bytes());
    return;
  }
  const int32_t count = HeaderOf(into).count;
  const bool fits =
      count >= 0 && count <= kElementsPerPack && count == HeaderOf(left).count;
  const absl::Status status =
      fits ? op_.Apply(dtype_, left + sizeof(Header), into + sizeof(Header),
                       into + sizeof(Header), count)
           : CountsDiffer();
  if (status.ok()) return;
  if (!has_failed_) failure_ = status;
  has_failed_ = true;
  SetFailure(status, into);
}

}  // namespace tutti
