#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "outfeed/frame.h"
#include "outfeed/memory_channel.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using NodeId = HostCallBuilder::NodeId;
using Operands = absl::Span<const absl::Span<const std::byte>>;

// State shared by the nodes of an item.
struct Item {
  std::shared_ptr<OutfeedChannel> channel;
  std::shared_ptr<const OutfeedRegistry> registry;  // Owns the consumer.
  const OutfeedConsumer* consumer = nullptr;

  void SendHeader(StatusCallback done) const {
    Tensor header = consumer->header;
    channel->TransferToOutfeed(absl::MakeSpan(&header, 1), std::move(done));
  }

  // REQUIRES: `operands` are the arrays that are not empty.
  void SendArrays(Operands operands, StatusCallback done) const {
    std::vector<Tensor> copies;
    size_t next = 0;
    for (const ArraySpec& spec : consumer->arrays) {
      const bool is_empty = spec.shape.num_elements() == 0;
      auto copy =
          CopyOf(spec.dtype, spec.shape,
                 is_empty ? absl::Span<const std::byte>() : operands[next++]);
      if (!copy.ok()) return std::move(done)(copy.status());
      copies.push_back(*std::move(copy));
    }
    channel->TransferToOutfeed(absl::MakeSpan(copies), std::move(done));
  }
};

// Errors: INVALID_ARGUMENT if a region and its array differ in size.
absl::Status CheckRegions(uint32_t consumer_id,
                          absl::Span<const OutfeedArray> arrays) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ArraySpec& spec = arrays[i].spec;
    ASSIGN_OR_RETURN(const int64_t bytes, SizeInBytes(spec.dtype, spec.shape));
    if (bytes == arrays[i].region.num_bytes) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "array ", i, " of consumer id ", consumer_id, " is ", spec.ToString(),
        ", ", bytes, " bytes; its region has ", arrays[i].region.num_bytes));
  }
  return absl::OkStatus();
}

absl::Status Register(OutfeedRegistry& registry, uint32_t consumer_id,
                      absl::Span<const OutfeedArray> arrays) {
  std::vector<ArraySpec> specs;
  for (const OutfeedArray& array : arrays) specs.push_back(array.spec);
  return registry.Register(consumer_id, std::move(specs));
}

std::vector<Region> RegionsOf(absl::Span<const OutfeedArray> arrays) {
  std::vector<Region> regions;
  for (const OutfeedArray& array : arrays) {
    if (array.region.num_bytes > 0) regions.push_back(array.region);
  }
  return regions;
}

}  // namespace

// --- OutfeedSender -----------------------------------------------------------

absl::StatusOr<OutfeedSender> OutfeedSender::Create(
    Device& device, std::shared_ptr<const OutfeedRegistry> registry) {
  ASSIGN_OR_RETURN(auto channel, OutfeedChannelOf(device));
  return OutfeedSender(std::move(channel), std::move(registry));
}

void OutfeedSender::Send(uint32_t consumer_id, absl::Span<const Tensor> arrays,
                         StatusCallback done) const {
  const auto consumer = Check(consumer_id, arrays);
  if (!consumer.ok()) {
    if (done != nullptr) std::move(done)(consumer.status());
    return;
  }
  absl::InlinedVector<Tensor, 4> item = {(*consumer)->header};
  item.insert(item.end(), arrays.begin(), arrays.end());
  channel_->TransferToOutfeed(absl::MakeSpan(item), std::move(done));
}

absl::Status OutfeedSender::SendAndWait(uint32_t consumer_id,
                                        absl::Span<const Tensor> arrays) const {
  return Await(
      [&](StatusCallback done) { Send(consumer_id, arrays, std::move(done)); });
}

absl::Status OutfeedSender::AddItem(uint32_t consumer_id,
                                    absl::Span<const Tensor> arrays,
                                    std::vector<Tensor>& batch) const {
  ASSIGN_OR_RETURN(const auto consumer, Check(consumer_id, arrays));
  batch.push_back(consumer->header);
  batch.insert(batch.end(), arrays.begin(), arrays.end());
  return absl::OkStatus();
}

absl::StatusOr<const OutfeedConsumer*> OutfeedSender::Check(
    uint32_t consumer_id, absl::Span<const Tensor> arrays) const {
  ASSIGN_OR_RETURN(const auto consumer, registry_->Find(consumer_id));
  if (arrays.size() != consumer->arrays.size()) {
    return NumArraysError(*consumer, arrays.size());
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    RETURN_IF_ERROR(CheckArray(*consumer, i, arrays[i]));
  }
  return consumer;
}

// --- AddOutfeed --------------------------------------------------------------

absl::StatusOr<NodeId> AddOutfeed(const OutfeedProgram& program,
                                  absl::Span<const NodeId> token,
                                  uint32_t consumer_id,
                                  absl::Span<const OutfeedArray> arrays) {
  ASSIGN_OR_RETURN(auto channel, OutfeedChannelOf(program.device));
  RETURN_IF_ERROR(CheckRegions(consumer_id, arrays));
  RETURN_IF_ERROR(Register(*program.registry, consumer_id, arrays));
  ASSIGN_OR_RETURN(const auto consumer, program.registry->Find(consumer_id));
  const auto item = std::make_shared<const Item>(
      Item{std::move(channel), program.registry, consumer});

  const NodeId header =
      program.builder.AddHostCall({.call =
                                       [item](Operands, StatusCallback done) {
                                         item->SendHeader(std::move(done));
                                       }},
                                  token);
  if (arrays.empty()) return header;
  return program.builder.AddHostCall(
      {.reads = RegionsOf(arrays),
       .call =
           [item](Operands operands, StatusCallback done) {
             item->SendArrays(operands, std::move(done));
           }},
      {header});
}

}  // namespace tutti
