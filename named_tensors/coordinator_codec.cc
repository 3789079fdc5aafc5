#include "named_tensors/coordinator_codec.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/op_fields.h"
#include "framework/control/wire_codec.h"

namespace tutti {
namespace {

// Bound on the length of a run divided by the length of its requests.
constexpr int64_t kMaxPadding = 2;

template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

absl::Status CheckLength(const proto::Decision& message, int64_t wanted) {
  const int64_t fused = message.fused_elements();
  if (fused >= wanted && fused / kMaxPadding <= wanted) {
    return absl::OkStatus();
  }
  return Invalid("decision.fused_elements is ", fused, "; the requests have ",
                 wanted);
}

// Checks that a tensor can have the size of all parts.
absl::Status CheckSize(const proto::Decision& message, DType dtype,
                       int num_parts) {
  const int64_t length = message.fused_elements();
  const auto shape =
      TensorShape::Create({num_parts, std::max<int64_t>(length, 0)});
  if (shape.ok() && SizeInBytes(dtype, *shape).ok()) return absl::OkStatus();
  return Invalid("decision.fused_elements is ", length, "; ", num_parts,
                 " parts of ", Name(dtype), " are too long");
}

absl::Status CheckFused(const proto::Decision& message,
                        absl::Span<const TensorRequest* const> requests) {
  const TensorRequest& first = *requests.front();
  int64_t num_elements = 0;
  for (const TensorRequest* request : requests) {
    if (request->type != CollectiveType::kAllReduce ||
        request->dtype != first.dtype || request->merge_op != first.merge_op ||
        request->final_op != first.final_op ||
        __builtin_add_overflow(num_elements, request->shape.num_elements(),
                               &num_elements)) {
      return Invalid("decision.requests names requests that cannot be one");
    }
  }
  RETURN_IF_ERROR(CheckSize(message, first.dtype, /*num_parts=*/1));
  return CheckLength(message, num_elements);
}

// Elements of the request's rows. REQUIRES: it has at least one dimension.
absl::StatusOr<int64_t> ElementsOf(const TensorRequest& request,
                                   int64_t num_rows) {
  ASSIGN_OR_RETURN(const auto shape, request.shape.WithFirstDim(num_rows));
  return shape.num_elements();
}

int64_t MostOf(absl::Span<const int64_t> rows) {
  return rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end());
}

// Checks the rows from all ranks: those of this rank, `own`, and their sum.
absl::Status CheckRows(const proto::Decision& message,
                       const TensorRequest& request, int rank, int64_t own) {
  int64_t num_rows = 0;
  for (const int64_t rows : message.rows()) {
    if (rows < 0) return Invalid("decision.rows has ", rows);
    if (__builtin_add_overflow(num_rows, rows, &num_rows)) {
      return Invalid("decision.rows are too many together");
    }
  }
  if (message.rows(rank) != own) {
    return Invalid("decision.rows says that rank ", rank, " sends ",
                   message.rows(rank), " rows to itself, not ", own);
  }
  ASSIGN_OR_RETURN(const auto shape, request.shape.WithFirstDim(num_rows));
  if (SizeInBytes(request.dtype, shape).ok()) return absl::OkStatus();
  return Invalid("decision.rows are ", num_rows, " together, of ",
                 Name(request.dtype), shape.ToString(), ", which is too large");
}

absl::Status CheckGather(const proto::Decision& message,
                         const TensorRequest& request, int rank) {
  RETURN_IF_ERROR(CheckRows(message, request, rank, request.shape.dim(0)));
  if (message.fused_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t most,
                   ElementsOf(request, MostOf(message.rows())));
  return CheckLength(message, most);
}

absl::Status CheckReduceScatter(const proto::Decision& message,
                                const TensorRequest& request, int num_ranks) {
  if (message.fused_elements() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t most,
                   ElementsOf(request, MostOf(BalancedRows(request.shape.dim(0),
                                                           num_ranks))));
  return CheckLength(message, most);
}

absl::Status CheckAllToAll(const proto::Decision& message,
                           const TensorRequest& request, int rank,
                           int num_ranks) {
  if (message.fused_elements() != 0) {
    return Invalid("decision.fused_elements is ", message.fused_elements(),
                   " for an alltoall");
  }
  if (request.send_rows.empty()
          ? request.shape.dim(0) % num_ranks != 0
          : request.send_rows.size() != static_cast<size_t>(num_ranks)) {
    return Invalid("decision.requests names an alltoall for other ranks");
  }
  const std::vector<int64_t> send_rows = RowsToRanks(request, num_ranks);
  if (!message.rows().empty()) {
    return CheckRows(message, request, rank, send_rows[rank]);
  }
  return absl::c_all_of(send_rows,
                        [&](int64_t rows) { return rows == send_rows[0]; })
             ? absl::OkStatus()
             : Invalid("decision.rows are missing, but rows differ");
}

// Checks a decision about one request that is not fused with others.
absl::Status CheckAlone(const proto::Decision& message,
                        const TensorRequest& request, int rank, int num_ranks) {
  const bool is_listed =
      request.type == CollectiveType::kAllGather ||
      (ExchangesBlocks(request.type) && message.rows_size() != 0);
  if (message.rows_size() != (is_listed ? num_ranks : 0)) {
    return Invalid("decision.rows has ", message.rows_size(), " entries");
  }
  if (HasRankBlocks(request.type) && request.shape.num_dims() == 0) {
    return Invalid("decision.requests names a scalar without rows");
  }
  const int num_parts = HasRankBlocks(request.type) ? num_ranks : 1;
  RETURN_IF_ERROR(CheckSize(message, request.dtype, num_parts));
  switch (request.type) {
    case CollectiveType::kAllGather:
      return CheckGather(message, request, rank);
    case CollectiveType::kReduceScatter:
      return CheckReduceScatter(message, request, num_ranks);
    case CollectiveType::kAllToAll:
      return CheckAllToAll(message, request, rank, num_ranks);
    default:
      return message.fused_elements() == 0
                 ? absl::OkStatus()
                 : CheckLength(message, request.shape.num_elements());
  }
}

}  // namespace

void EncodeTensorRequest(const TensorRequest& request,
                         proto::TensorRequest* message) {
  message->set_name(request.name);
  message->set_collective(static_cast<int>(request.type));
  message->set_dtype(static_cast<int>(request.dtype));
  for (const int64_t dim : request.shape.dims()) message->add_shape(dim);
  message->set_merge_op(request.merge_op);
  message->set_final_op(request.final_op);
  message->set_root(request.root);
  for (const int64_t rows : request.send_rows) message->add_send_rows(rows);
}

absl::StatusOr<TensorRequest> DecodeTensorRequest(
    std::string name_head, const proto::TensorRequest& message) {
  constexpr int kLastNumber = 255;  // Both enums have 8-bit types.
  if (message.collective() < 0 || message.collective() > kLastNumber ||
      message.dtype() < 0 || message.dtype() > kLastNumber) {
    return Invalid("tensor_request.collective is ", message.collective(),
                   " and dtype ", message.dtype());
  }
  if (message.shape_size() > kMaxTensorDims) {
    return Invalid("tensor_request.shape has ", message.shape_size(),
                   " entries; wanted at most ", kMaxTensorDims);
  }
  ASSIGN_OR_RETURN(auto shape, TensorShape::Create(message.shape()));
  TensorRequest request{
      .name = std::move(name_head),
      .type = static_cast<CollectiveType>(message.collective()),
      .dtype = static_cast<DType>(message.dtype()),
      .shape = std::move(shape),
      .merge_op = message.merge_op(),
      .final_op = message.final_op(),
      .root = message.root(),
      .send_rows = {message.send_rows().begin(), message.send_rows().end()}};
  request.name += message.name();
  RETURN_IF_ERROR(Validate(request));
  return request;
}

std::string EncodeSlots(absl::Span<const uint32_t> slots) {
  std::string bits;
  for (const uint32_t slot : slots) {
    bits.resize(std::max<size_t>(bits.size(), slot / 8 + 1));
    bits[slot / 8] = static_cast<char>(bits[slot / 8] | 1 << slot % 8);
  }
  return bits;
}

std::vector<uint32_t> DecodeSlots(const std::string& bits) {
  std::vector<uint32_t> slots;
  for (size_t i = 0; i < bits.size(); ++i) {
    for (uint32_t bit = 0; bit < 8; ++bit) {
      if ((bits[i] >> bit & 1) != 0) {
        slots.push_back(static_cast<uint32_t>(i * 8 + bit));
      }
    }
  }
  return slots;
}

proto::Decision EncodeDecision(const Negotiation::Decision& decision,
                               int rank) {
  proto::Decision message;
  if (decision.last_joined.has_value()) {
    message.set_last_joined(*decision.last_joined + 1);
    return message;
  }
  for (const uint64_t number : decision.requests[rank]) {
    message.add_requests(number);
  }
  if (!decision.status.ok()) {
    *message.mutable_error() = EncodeError(decision.status);
    return message;
  }
  message.set_instance(decision.instance);
  message.set_execution(decision.execution);
  message.set_fused_elements(decision.fused_elements);
  const auto& rows = decision.received_rows.empty()
                         ? decision.rows
                         : decision.received_rows[rank];
  message.mutable_rows()->Add(rows.begin(), rows.end());
  if (decision.requests[rank].empty()) {
    EncodeTensorRequest(*decision.stand_in, message.mutable_stand_in());
    return message;
  }
  for (const uint32_t slot : decision.slots) message.add_slots(slot);
  return message;
}

absl::Status CheckDecision(const proto::Decision& message,
                           absl::Span<const TensorRequest* const> requests,
                           int rank, int num_ranks) {
  if (requests.empty()) return Invalid("decision.requests is empty");
  if (message.has_error()) return CheckError(message.error());
  if (message.instance() <= 0) {
    return Invalid("decision.instance is ", message.instance());
  }
  if (message.slots_size() != 0 &&
      static_cast<size_t>(message.slots_size()) != requests.size()) {
    return Invalid("decision.slots has ", message.slots_size(), " entries for ",
                   requests.size(), " requests");
  }
  const bool reduces = requests.front()->type == CollectiveType::kAllReduce;
  if (message.fused_elements() != 0 && reduces && message.rows().empty()) {
    return CheckFused(message, requests);
  }
  if (requests.size() > 1) {
    return Invalid("decision.fused_elements is missing for ", requests.size(),
                   " requests, or they are no reductions");
  }
  return CheckAlone(message, *requests.front(), rank, num_ranks);
}

}  // namespace tutti
