#include "named_tensors/coordinator_codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
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

absl::Status CheckFused(const proto::Decision& message,
                        absl::Span<const TensorRequest* const> requests) {
  int64_t num_elements = 0;
  for (const TensorRequest* request : requests) {
    if (request->type != CollectiveType::kAllReduce ||
        request->dtype != requests.front()->dtype ||
        request->merge_op != requests.front()->merge_op ||
        __builtin_add_overflow(num_elements, request->shape.num_elements(),
                               &num_elements)) {
      return Invalid("decision.requests names requests that cannot be one");
    }
  }
  return CheckLength(message, num_elements);
}

// Checks that the run has room for the longest part. REQUIRES: no rows are
// negative.
absl::Status CheckParts(const proto::Decision& message,
                        const TensorRequest& request) {
  int64_t num_rows = 0, most_rows = 0;
  for (const int64_t rows : message.rows()) {
    most_rows = std::max(most_rows, rows);
    if (__builtin_add_overflow(num_rows, rows, &num_rows)) {
      return Invalid("decision.rows are too many together");
    }
  }
  ASSIGN_OR_RETURN(const auto output, request.shape.WithFirstDim(num_rows));
  return CheckLength(message,
                     request.shape.WithFirstDim(most_rows)->num_elements());
}

absl::Status CheckRows(const proto::Decision& message,
                       const TensorRequest& request, int rank, int num_ranks) {
  const bool gathers = request.type == CollectiveType::kAllGather;
  if (message.rows_size() != (gathers ? num_ranks : 0)) {
    return Invalid("decision.rows has ", message.rows_size(), " entries");
  }
  if (!gathers) return absl::OkStatus();
  for (const int64_t rows : message.rows()) {
    if (rows < 0) return Invalid("decision.rows has ", rows);
  }
  if (request.shape.num_dims() == 0 ||
      message.rows(rank) != request.shape.dim(0)) {
    return Invalid("decision.rows says that rank ", rank, " has ",
                   message.rows(rank), " rows; it has the shape ",
                   request.shape.ToString());
  }
  return absl::OkStatus();
}

}  // namespace

void EncodeTensorRequest(const TensorRequest& request,
                         proto::TensorRequest* message) {
  message->set_name(request.name);
  message->set_collective(static_cast<int>(request.type));
  message->set_dtype(static_cast<int>(request.dtype));
  for (const int64_t dim : request.shape.dims()) message->add_shape(dim);
  message->set_merge_op(request.merge_op);
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
      .merge_op = message.merge_op()};
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
  for (const int64_t rows : decision.rows) message.add_rows(rows);
  for (const uint32_t slot : decision.slots) message.add_slots(slot);
  return message;
}

absl::Status CheckDecision(const proto::Decision& message,
                           absl::Span<const TensorRequest* const> requests,
                           int rank, int num_ranks) {
  if (requests.empty()) return Invalid("decision.requests is empty");
  if (message.has_error()) return CheckError(message.error());
  if (message.slots_size() != 0 &&
      static_cast<size_t>(message.slots_size()) != requests.size()) {
    return Invalid("decision.slots has ", message.slots_size(), " entries for ",
                   requests.size(), " requests");
  }
  const bool is_fused = message.fused_elements() != 0;
  if (is_fused && message.rows_size() == 0) {
    return CheckFused(message, requests);
  }
  if (requests.size() > 1) {
    return Invalid("decision.fused_elements is missing for ", requests.size(),
                   " requests, or a gather is not alone");
  }
  const absl::Status status =
      CheckRows(message, *requests.front(), rank, num_ranks);
  if (!status.ok() || !is_fused) return status;
  return CheckParts(message, *requests.front());
}

}  // namespace tutti
