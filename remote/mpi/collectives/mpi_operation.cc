#include "remote/mpi/collectives/mpi_operation.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "remote/mpi/messages/mpi_note.h"
#include "tutti/params.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

// Largest total size of small operations. The leader sends the result to the
// members one after the other. Beyond this size, MPI's own algorithms took as
// long among 4 and 8 processes of a host. Measured with Open MPI 4.1.4 on 2
// virtual processors of an Intel Xeon, 25 November 2026.
constexpr size_t kMostMergedInAll = size_t{8} << 10;

// Returns a type for elements that are moved, not reduced.
MPI_Datatype TypeOfSize(size_t num_bytes) {
  switch (num_bytes) {
    case 1:
      return MPI_INT8_T;
    case 2:
      return MPI_INT16_T;
    case 4:
      return MPI_INT32_T;
    case 16:
      return MPI_C_DOUBLE_COMPLEX;
    default:
      return MPI_INT64_T;
  }
}

// Appends the size and offset of the next of adjacent blocks.
void AddBlock(int64_t num_elements, std::vector<int>& counts,
              std::vector<int>& offsets) {
  offsets.push_back(counts.empty() ? 0 : offsets.back() + counts.back());
  counts.push_back(static_cast<int>(num_elements));
}

absl::Status AllocateBytes(size_t num_bytes, Tensor& tensor) {
  ASSIGN_OR_RETURN(
      tensor,
      Tensor::Allocate(DType::kUint8,
                       TensorShape::Vector(static_cast<int64_t>(num_bytes))));
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<MpiMerge> MpiMerges::For(DType dtype, const MergeOp& op) {
  if (op.is_custom()) return std::make_shared<MpiMerge>(dtype, op);
  auto& merge = merges_[{dtype, op.kind()}];
  if (merge == nullptr) merge = std::make_shared<MpiMerge>(dtype, op);
  return merge;
}

absl::Status MpiOperation::Check(const CollInstanceParams& instance,
                                 int group_size) {
  switch (instance.type) {
    case CollectiveType::kAllReduce:
    case CollectiveType::kReduce:
    case CollectiveType::kBroadcast:
    case CollectiveType::kScan:
    case CollectiveType::kExscan:
      return absl::OkStatus();
    case CollectiveType::kAllGather:
    case CollectiveType::kReduceScatter:
    case CollectiveType::kAllToAll:
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("MPI is not asked for ", Name(instance.type)));
  }
  // Ranks have the same shapes unless rows differ by rank. Reduced blocks are
  // parts of inputs of one shape.
  const bool is_same = instance.rows.empty() || OutputIsOwnBlock(instance.type);
  const int num_different = is_same ? 1 : group_size;
  for (int rank = 0; rank < num_different; ++rank) {
    ASSIGN_OR_RETURN(const auto input, InputShape(instance, group_size, rank));
    ASSIGN_OR_RETURN(const auto output,
                     OutputShape(instance, group_size, rank));
    const int64_t count = std::max(input.num_elements(), output.num_elements());
    if (count <= std::numeric_limits<int>::max()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        Name(instance.type), ", instance ", instance.key, ": rank ", rank,
        " has ", count, " elements, MPI counts no more than ",
        std::numeric_limits<int>::max(), "; choose another implementation"));
  }
  return absl::OkStatus();
}

MpiOperation::MpiOperation(const CollectiveContext& context,
                           int64_t piece_bytes)
    : context_(context),
      piece_bytes_(piece_bytes),
      element_bytes_(SizeOf(instance().dtype)) {
  if (context.input.is_set()) input_ = context.input.data();
  Tensor output = context.output;
  if (output.is_set()) output_ = output.mutable_data();
}

bool MpiOperation::is_whole_reduction() const {
  return Reduces(instance().type) && !HasRankBlocks(instance().type);
}

bool MpiOperation::uses_packs() const {
  return Reduces(instance().type) && instance().merge_op.is_custom();
}

// Returns true if the input must be copied: all members would have to pass
// MPI_IN_PLACE, or none. Reduce() handles the collectives that use it.
bool MpiOperation::copies_input() const {
  switch (instance().type) {
    case CollectiveType::kAllGather:
      return OverlapOf(context_.input, context_.output) != Overlap::kNone;
    case CollectiveType::kReduceScatter:
      return !uses_packs() &&
             OverlapOf(context_.input, context_.output) != Overlap::kNone;
    case CollectiveType::kAllToAll:
      return is_in_place();
    case CollectiveType::kScan:
    case CollectiveType::kExscan:
      return !uses_packs() && is_in_place();
    default:
      return false;
  }
}

absl::Status MpiOperation::Allocate() {
  if (copies_input()) {
    return AllocateBytes(context_.input.size_bytes(), input_copy_);
  }
  if (!uses_packs()) return absl::OkStatus();
  const size_t pack_bytes = MpiMerge::PackBytes(instance().dtype);
  int64_t num_packs = 0;
  for (const int64_t block : BlockElements()) {
    num_packs += MpiMerge::NumPacks(block);
  }
  const int64_t num_results = is_whole_reduction()
                                  ? context_.input.num_elements()
                                  : context_.output.num_elements();
  RETURN_IF_ERROR(AllocateBytes(num_packs * pack_bytes, input_packs_));
  return AllocateBytes(MpiMerge::NumPacks(num_results) * pack_bytes,
                       output_packs_);
}

std::vector<int64_t> MpiOperation::BlockElements() const {
  if (is_whole_reduction()) return {context_.input.num_elements()};
  const int64_t row = RowElements(instance().shape);
  std::vector<int64_t> blocks;
  for (int rank = 0; rank < size(); ++rank) {
    blocks.push_back(BlockRows(instance(), size(), rank, rank) * row);
  }
  return blocks;
}

std::vector<MPI_Request> MpiOperation::Start(MPI_Comm communicator,
                                             MpiMerges* merges,
                                             bool any_in_place, MpiRing* ring) {
  switch (instance().type) {
    case CollectiveType::kAllReduce:
    case CollectiveType::kReduce:
    case CollectiveType::kScan:
    case CollectiveType::kExscan:
      PrepareReduction(merges);
      Reduce(communicator, any_in_place, ring);
      break;
    case CollectiveType::kReduceScatter:
      PrepareReduction(merges);
      ReduceScatter(communicator);
      break;
    case CollectiveType::kAllGather:
      Gather(communicator);
      break;
    case CollectiveType::kBroadcast:
      Broadcast(communicator);
      break;
    default:
      AllToAll(communicator);
  }
  return std::move(requests_);
}

void MpiOperation::PrepareReduction(MpiMerges* merges) {
  merge_ = merges->For(instance().dtype, instance().merge_op);
  const std::byte* from = input_;
  for (const int64_t block : BlockElements()) {
    const int64_t units = uses_packs() ? MpiMerge::NumPacks(block) : block;
    if (uses_packs()) {
      merge_->Pack(
          from, block,
          input_packs_.mutable_data() + num_units_ * merge_->pack_bytes());
      from += block * element_bytes_;
    }
    if (!is_whole_reduction()) {
      AddBlock(units, receive_counts_, receive_offsets_);
    }
    num_units_ += units;
  }
}

template <typename Call>
void MpiOperation::InPieces(int64_t count, size_t unit_bytes, Call call) const {
  const int64_t most = piece_bytes_ / static_cast<int64_t>(unit_bytes);
  int64_t begin = 0;
  do {
    const int64_t piece = std::min(count - begin, most);
    call(begin, static_cast<int>(piece));
    begin += piece;
  } while (begin < count);
}

// Reduces. In an all-reduce all members must pass MPI_IN_PLACE, or none. If
// some members reduce in place, the others therefore do so in their output:
// that takes no memory. In a reduce only the root may pass it. Scans read a
// copy.
void MpiOperation::Reduce(MPI_Comm communicator, bool any_in_place,
                          MpiRing* ring) {
  const bool packs = uses_packs();
  const std::byte* from = packs ? input_packs_.data() : InputToRead();
  std::byte* into = packs ? output_packs_.mutable_data() : output_;
  const size_t unit_bytes = packs ? merge_->pack_bytes() : element_bytes_;
  const bool is_all_reduce = instance().type == CollectiveType::kAllReduce;
  if (is_all_reduce && !packs && any_in_place && from != into) {
    std::copy_n(from, context_.input.size_bytes(), into);
    from = into;
  }
  const bool is_in_place = from == into && into != nullptr;
  InPieces(num_units_, unit_bytes, [&](int64_t begin, int count) {
    const void* source = is_in_place ? MPI_IN_PLACE : from + begin * unit_bytes;
    void* target = into == nullptr ? nullptr : into + begin * unit_bytes;
    if (is_all_reduce) {
      const bool as_ring = MpiRing::IsFaster(size(), count, count * unit_bytes);
      const MpiRing::Scope scope(as_ring ? ring : nullptr);
      MPI_Iallreduce(source, target, count, merge_->type(),
                     MpiMerge::Operation(), communicator, NewRequest());
    } else if (instance().type == CollectiveType::kScan) {
      MPI_Iscan(source, target, count, merge_->type(), MpiMerge::Operation(),
                communicator, NewRequest());
    } else if (instance().type == CollectiveType::kExscan) {
      MPI_Iexscan(source, target, count, merge_->type(), MpiMerge::Operation(),
                  communicator, NewRequest());
    } else {
      MPI_Ireduce(source, target, count, merge_->type(), MpiMerge::Operation(),
                  instance().root, communicator, NewRequest());
    }
  });
}

void MpiOperation::ReduceScatter(MPI_Comm communicator) {
  const bool packs = uses_packs();
  const std::byte* from = packs ? input_packs_.data() : InputToRead();
  std::byte* into = packs ? output_packs_.mutable_data() : output_;
  if (instance().rows.empty()) {
    MPI_Ireduce_scatter_block(from, into, receive_counts_[0], merge_->type(),
                              MpiMerge::Operation(), communicator,
                              NewRequest());
  } else {
    MPI_Ireduce_scatter(from, into, receive_counts_.data(), merge_->type(),
                        MpiMerge::Operation(), communicator, NewRequest());
  }
}

void MpiOperation::Gather(MPI_Comm communicator) {
  const MPI_Datatype type = TypeOfSize(element_bytes_);
  const int64_t row = RowElements(instance().shape);
  for (int rank = 0; rank < size(); ++rank) {
    AddBlock(BlockRows(instance(), size(), rank, rank) * row, receive_counts_,
             receive_offsets_);
  }
  const std::byte* const from = InputToRead();
  const int count = receive_counts_[context_.rank()];
  if (instance().rows.empty()) {
    MPI_Iallgather(from, count, type, output_, count, type, communicator,
                   NewRequest());
  } else {
    MPI_Iallgatherv(from, count, type, output_, receive_counts_.data(),
                    receive_offsets_.data(), type, communicator, NewRequest());
  }
}

// Broadcasts; the source sends from its input.
void MpiOperation::Broadcast(MPI_Comm communicator) {
  const bool is_source = context_.rank() == instance().root;
  std::byte* const bytes = is_source ? const_cast<std::byte*>(input_) : output_;
  if (is_source && output_ != nullptr && !is_in_place()) {
    std::copy_n(input_, context_.input.size_bytes(), output_);
  }
  const Tensor& tensor = is_source ? context_.input : context_.output;
  InPieces(tensor.num_elements(), element_bytes_,
           [&](int64_t begin, int count) {
             MPI_Ibcast(bytes + begin * element_bytes_, count,
                        TypeOfSize(element_bytes_), instance().root,
                        communicator, NewRequest());
           });
}

void MpiOperation::AllToAll(MPI_Comm communicator) {
  const MPI_Datatype type = TypeOfSize(element_bytes_);
  const std::byte* const from = InputToRead();
  if (instance().rows.empty()) {
    const int count = static_cast<int>(context_.input.num_elements() / size());
    MPI_Ialltoall(from, count, type, output_, count, type, communicator,
                  NewRequest());
    return;
  }
  const int64_t row = RowElements(instance().shape);
  for (int peer = 0; peer < size(); ++peer) {
    AddBlock(BlockRows(instance(), size(), context_.rank(), peer) * row,
             send_counts_, send_offsets_);
    AddBlock(BlockRows(instance(), size(), peer, context_.rank()) * row,
             receive_counts_, receive_offsets_);
  }
  MPI_Ialltoallv(from, send_counts_.data(), send_offsets_.data(), type, output_,
                 receive_counts_.data(), receive_offsets_.data(), type,
                 communicator, NewRequest());
}

const std::byte* MpiOperation::InputToRead() {
  if (!input_copy_.is_set()) return input_;
  std::copy_n(input_, context_.input.size_bytes(), input_copy_.mutable_data());
  return input_copy_.data();
}

// Completes the output. Errors in the packs come first: they are the same on
// other members.
absl::Status MpiOperation::Finish() {
  if (merge_ == nullptr) return absl::OkStatus();
  absl::Status status;
  if (uses_packs() && output_ != nullptr) {
    status = merge_->Unpack(output_packs_.data(),
                            context_.output.num_elements(), output_);
  }
  status.Update(merge_->failure());
  if (!status.ok() || output_ == nullptr) return status;
  return ApplyFinalOp();
}

absl::Status MpiOperation::ApplyFinalOp() {
  return instance().final_op.Apply(instance().dtype, output_,
                                   context_.output.num_elements(), size());
}

absl::string_view MpiOperation::small_input() const {
  if (!is_whole_reduction() || IsScan(instance().type) || uses_packs()) {
    return {};
  }
  const size_t num_bytes = context_.input.size_bytes();
  const auto num_members = static_cast<size_t>(size());
  const size_t most =
      std::min(MpiNote::kMostCarriedBytes, kMostMergedInAll / num_members);
  if (num_bytes > most) return {};
  return {reinterpret_cast<const char*>(input_), num_bytes};
}

absl::StatusOr<std::string> MpiOperation::Merge(
    absl::Span<const absl::string_view> small_inputs) const {
  const size_t num_bytes = context_.input.size_bytes();
  std::vector<const uint8_t*> inputs;
  for (const absl::string_view input : small_inputs) {
    if (input.size() != num_bytes) {
      return absl::InternalError(absl::StrCat("rank ", inputs.size(), " sent ",
                                              input.size(), " bytes, not ",
                                              num_bytes));
    }
    inputs.push_back(reinterpret_cast<const uint8_t*>(input.data()));
  }
  std::string merged(num_bytes, '\0');
  uint8_t* const output = reinterpret_cast<uint8_t*>(merged.data());
  RETURN_IF_ERROR(Fold(instance().dtype, instance().merge_op, FinalOp(),
                       {.inputs = inputs,
                        .outputs = absl::MakeConstSpan(&output, 1),
                        .num_bytes = static_cast<int64_t>(num_bytes)}));
  return merged;
}

absl::Status MpiOperation::FinishMerged(absl::string_view merged) {
  if (merged.size() != context_.input.size_bytes()) {
    return absl::InternalError(absl::StrCat("rank 0 sent ", merged.size(),
                                            " bytes, not ",
                                            context_.input.size_bytes()));
  }
  if (output_ == nullptr) return absl::OkStatus();
  std::memcpy(output_, merged.data(), merged.size());
  return ApplyFinalOp();
}

}  // namespace tutti
